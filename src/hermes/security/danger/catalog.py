"""All rules, indexed by program name, and the rules on the text of a command."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from hermes.security.danger import code, files, infrastructure, secrets, self_protection, system
from hermes.security.danger.rule import Rule, TextRule
from hermes.security.shell.model import Invocation
from hermes.security.shell.reader import FORK_BOMB, FORK_LOOP, SELF_START
from hermes.security.shell.wrappers import interpreter_name, is_loader

# Rules on the text itself, in addition to those on the tree.

MAX_SCANNED = 20_000
"""Characters of a command that text rules search, from its beginning and from its end."""

_ZERO_WIDTH = (
    "\u200b\u2060-\u2064\ufeff\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0"
)
HIDDEN = re.compile(
    f"[\u202a-\u202e\u2066-\u2069{_ZERO_WIDTH}\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u0080-\u009f\ue000-\ue004"
    "\U000e0000-\U000e007f]|\r(?!\n|\\Z)|[\x21-\x7e][\u200c-\u200f][\x21-\x7e]|\\A[\u200c-\u200f]"
)
"""Characters that make a command look different from what it is. Joiners in emoji and in words
of many scripts are allowed."""

BLANKS = re.compile(r"(?:^|[;&|\n])[ \t]*[\w./-]+[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
"""A blank after the first word that the shell does not treat as one."""

TEXT_RULES = (
    TextRule("hidden characters", "contains characters that cannot be seen", HIDDEN),
    TextRule("hidden characters", "contains a blank that is none to the shell", BLANKS),
)

_RM = r"\brm\s{1,9}(?:-\S{1,40}\s{1,9}){0,9}"
BROKEN_RULES = (
    *(
        TextRule("fork bomb", "starts processes without end", pattern, refused=True)
        for pattern in (FORK_BOMB, SELF_START, FORK_LOOP)
    ),
    *(
        TextRule(kind, reason, re.compile(pattern), refused)
        for kind, reason, pattern, refused in (
            ("disk wipe", "deletes the system or the whole home folder",
             rf"{_RM}(?:/|~)(?:\s|[*;&|)'\"]|$)|\{{rm,-\w{{0,9}}r\w{{0,9}},[/~]", True),
            ("disk wipe", "writes directly to a disk",
             (r"\bmkfs(?:\.\w{1,9})?\s{1,9}(?:-\S{1,40}\s{1,9}){0,9}/dev/"
              r"|\bof=/dev/(?:sd|hd|vd|nvme|disk)|>\s{0,9}/dev/(?:sd|hd|vd|nvme)"), True),
            ("own policy", "names Hermes' own settings or keys",
             (r"\.hermes/\S{0,200}?(?:config\.yaml|\.env|auth\.json|approvals)\b|HERMES_YOLO_MODE"
              r"|\bhermes\s+config\s+set\s+(?:approvals|security|command_allowlist)"), True),
            ("recursive delete", "deletes folders with everything in them",
             rf"{_RM}-\w{{0,9}}[rR]", False),
            ("privileges", "runs with the rights of another user", r"\b(?:sudo|doas)\b", False),
        )
    ),
)  # fmt: skip
"""Coarse rules for text whose tree has errors, which needs approval in any case."""

RULES: tuple[Rule, ...] = (
    *self_protection.SELF_PROTECTION_RULES,
    *files.DELETION_RULES,
    *files.DISK_RULES,
    *files.SYSTEM_FILE_RULES,
    *secrets.CREDENTIAL_RULES,
    *infrastructure.DATABASE_RULES,
    *system.PROCESS_RULES,
    *system.MACHINE_RULES,
    *code.CODE_RULES,
    *code.HIDDEN_RULES,
    *system.NETWORK_RULES,
    *infrastructure.GIT_RULES,
    *infrastructure.CLOUD_RULES,
)

UNREADABLE = ("unreadable command", "its syntax cannot be read with certainty")
TOO_MUCH = ("unreadable command", "it is too long or too deeply nested to be read")


def _index_rules() -> dict[str, tuple[Rule, ...]]:
    table: dict[str, list[Rule]] = {}
    for rule in RULES:
        for name in rule.names.split() or ("",):
            table.setdefault(name, []).append(rule)
    return {name: tuple(rules) for name, rules in table.items()}


_RULES_BY_NAME = _index_rules()
_RULES_FOR_ALL = _RULES_BY_NAME.pop("")


def rules_for(invocation: Invocation) -> Iterator[Rule]:
    """Yield the rules for this program; `mkfs.ext4` counts as `mkfs`, `python3.11` as `python`."""
    name = invocation.name
    if name:
        found = _RULES_BY_NAME.get(name)
        if found is None:
            base = "ld.so" if is_loader(name) else interpreter_name(name)
            found = _RULES_BY_NAME.get(base) or _RULES_BY_NAME.get(base.partition(".")[0], ())
        yield from found
    yield from _RULES_FOR_ALL


class DangerClass(NamedTuple):
    """A class of dangerous commands: the unit of approval."""

    kind: str
    reasons: tuple[str, ...]
    refused: bool  #: Its commands are refused, whatever was approved.


def danger_classes() -> list[DangerClass]:
    """Return every class, by name."""
    facts = [(rule.kind, rule.reason, rule.refused) for rule in RULES]
    facts += [(rule.kind, rule.reason, rule.refused) for rule in TEXT_RULES]
    facts += [(*UNREADABLE, False), (*TOO_MUCH, False)]
    table: dict[str, list[tuple[str, bool]]] = {}
    for kind, reason, refused in facts:
        table.setdefault(kind, []).append((reason, refused))
    return [
        DangerClass(
            kind, tuple(dict.fromkeys(reason for reason, _ in found)), all(no for _, no in found)
        )
        for kind, found in sorted(table.items())
    ]
