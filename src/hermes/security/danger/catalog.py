"""All rules: those of rules.toml, indexed by program name, and those on the text of a command."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from hermes.security.danger import code, files, secrets, self_protection, services, system
from hermes.security.danger.context import ShellContext, has_option
from hermes.security.danger.inline import CODE_CLASSES
from hermes.security.egress import LEAVING
from hermes.security.shell.model import Invocation
from hermes.security.shell.reader import FORK_BOMB, FORK_LOOP, SELF_START
from hermes.security.shell.wrappers import interpreter_name, is_loader
from hermes.security.tables import word_list

RuleTest = Callable[[Invocation, ShellContext], bool]


class RuleConditions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions of a rule; rules.toml explains them."""

    test: str = ""
    says: str = ""
    says_exactly: str = ""
    verb: str = ""
    pattern: str = ""
    option: str = ""

    def hold(self, invocation: Invocation, context: ShellContext) -> bool:
        """Return whether all conditions hold that are given."""
        return bool(
            (not self.says or _compile(self.says).search(invocation.text))
            and (not self.says_exactly or _compile(self.says_exactly, 0).search(invocation.text))
            and (not self.verb or _verb(self.verb, self.pattern).search(invocation.plain))
            and (not self.option or has_option(invocation, *self.option.split()))
            and (not self.test or _predicate(self.test)(invocation, context))
        )


class Rule(RuleConditions, frozen=True, kw_only=True):
    kind: str  #: The class, which is the unit of approval and what `command_allowlist` contains.
    reason: str
    names: str = ""  #: Program names, separated by blanks; "" matches every program.
    unless: RuleConditions | None = None
    refused: bool = False  #: It cannot be approved.

    def matches(self, invocation: Invocation, context: ShellContext) -> bool:
        if not self.hold(invocation, context):
            return False
        excused = self.unless is not None and self.unless.hold(invocation, context)
        return not excused or _NOT_EXCUSED.search(invocation.text) is not None


_NOT_EXCUSED = re.compile(r"--(?:dry-?run|check|help|preview|plan)[= ](?:false|none|no|0)\b")
"""`--dry-run=false` does not make a command harmless."""


@cache
def _compile(pattern: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile(pattern.replace("\n", ""), flags)


@cache
def _verb(words: str, pattern: str) -> re.Pattern[str]:
    alone = rf"(?:^|\s)(?:{'|'.join(words.split())})(?=[\s=:]|\Z)"
    return _compile(f"{alone}|{pattern}" if pattern else alone)


@cache
def _predicate(name: str) -> RuleTest:
    module, _, function = name.partition(".")
    modules = {
        "code": code,
        "files": files,
        "secrets": secrets,
        "self_protection": self_protection,
        "services": services,
        "system": system,
    }
    return cast("RuleTest", getattr(modules[module], function))


class TextRule(msgspec.Struct, frozen=True):
    """A rule on the text of the command itself."""

    kind: str
    reason: str
    pattern: re.Pattern[str]
    refused: bool = False


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

RULES = msgspec.toml.decode(
    Path(__file__).with_name("rules.toml").read_bytes(), type=dict[str, tuple[Rule, ...]]
)["rule"]

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
_RULES_FOR_OTHERS = _RULES_BY_NAME.pop("*")


def rules_for(invocation: Invocation) -> Iterator[Rule]:
    """Yield the rules for this program; `mkfs.ext4` counts as `mkfs`, `python3.11` as `python`."""
    name = invocation.name
    if name:
        found = _RULES_BY_NAME.get(name)
        if found is None:
            base = "ld.so" if is_loader(name) else interpreter_name(name)
            found = _RULES_BY_NAME.get(base) or _RULES_BY_NAME.get(base.partition(".")[0], ())
        if not shows_help(invocation) and not tries_only(invocation):
            yield from found
    yield from _RULES_FOR_ALL
    if services.is_other_program(invocation):
        yield from _RULES_FOR_OTHERS


_SHOWS_HELP = frozenset().union(
    *map(word_list, ("shows_help", "forges", "service_clients", "device_clients"))
)


def shows_help(invocation: Invocation) -> bool:
    """`docker system prune --help`: it only explains itself."""
    *words, last = invocation.arguments or ("",)
    asked = last in ("--help", "-help") or (invocation.name == "aws" and last == "help")
    if invocation.name not in _SHOWS_HELP or not asked:
        return False
    # Only subcommands before it: programs differ in what they do with options and operands.
    plain = all(re.fullmatch(r"[a-z][a-z0-9-]*", word) for word in words)
    return plain and len(words) <= 3 and _STARTS_OTHERS.isdisjoint(words)


_TRIES = word_list("tries")
_TRY = re.compile(r"(?:^|\s)--(?:dry-?run(?:=(?:client|server|true))?|no-execute)(?=\s|\Z)")


def tries_only(invocation: Invocation) -> bool:
    """`borg prune --dry-run`: it only tells what it would do."""
    return invocation.name in _TRIES and _TRY.search(invocation.plain) is not None


_STARTS_OTHERS = frozenset({"run", "exec", "ssh", "shell", "x", "dlx", "foreach", "console"})


def is_client(invocation: Invocation) -> bool:
    """Return whether it is a client of a database, which runs statements from its input."""
    tests = {rule.test for rule in rules_for(invocation)}
    return not tests.isdisjoint(("system.loses_data", "system.loses_documents"))


class DangerClass(NamedTuple):
    """A class of dangerous commands: the unit of approval."""

    kind: str
    reasons: tuple[str, ...]
    refused: bool  #: Its commands are refused, whatever was approved.


def danger_classes() -> list[DangerClass]:
    """Return every class, by name."""
    facts = [(rule.kind, rule.reason, rule.refused) for rule in RULES]
    facts += [(rule.kind, rule.reason, rule.refused) for rule in TEXT_RULES]
    facts += [(*fact, False) for fact in (UNREADABLE, TOO_MUCH, LEAVING, *CODE_CLASSES)]
    table: dict[str, list[tuple[str, bool]]] = {}
    for kind, reason, refused in facts:
        table.setdefault(kind, []).append((reason, refused))
    return [
        DangerClass(
            kind, tuple(dict.fromkeys(reason for reason, _ in found)), all(no for _, no in found)
        )
        for kind, found in sorted(table.items())
    ]
