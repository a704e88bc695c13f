"""All rules, found by the name of a program."""

from collections.abc import Iterator
from typing import NamedTuple

from hermes.security.danger import (
    code,
    credentials,
    data,
    deletion,
    disks,
    files,
    hidden,
    history,
    infrastructure,
    machine,
    network,
    own,
    processes,
)
from hermes.security.danger.rule import Rule
from hermes.security.danger.texts import TEXT_RULES
from hermes.security.shell.model import Invocation
from hermes.security.shell.wrappers import interpreter, is_loader

RULES: tuple[Rule, ...] = (
    *own.RULES,
    *deletion.RULES,
    *disks.RULES,
    *files.RULES,
    *credentials.RULES,
    *data.RULES,
    *processes.RULES,
    *machine.RULES,
    *code.RULES,
    *hidden.RULES,
    *network.RULES,
    *history.RULES,
    *infrastructure.RULES,
)

UNREADABLE = ("unreadable command", "its syntax cannot be read with certainty")
TOO_MUCH = ("unreadable command", "it is too long or too deeply nested to be read")


def _by_name() -> dict[str, tuple[Rule, ...]]:
    table: dict[str, list[Rule]] = {}
    for rule in RULES:
        for name in rule.names.split() or ("",):
            table.setdefault(name, []).append(rule)
    return {name: tuple(rules) for name, rules in table.items()}


_RULES_OF = _by_name()
_FOR_ALL = _RULES_OF.pop("")


def rules_for(invocation: Invocation) -> Iterator[Rule]:
    """The rules for this program; `mkfs.ext4` counts as `mkfs`, `python3.11` as `python`."""
    name = invocation.name
    if name:
        found = _RULES_OF.get(name)
        if found is None:
            base = "ld.so" if is_loader(name) else interpreter(name)
            found = _RULES_OF.get(base) or _RULES_OF.get(base.partition(".")[0], ())
        yield from found
    yield from _FOR_ALL


class Class(NamedTuple):
    """A class of dangerous commands: what consent is given to."""

    kind: str
    reasons: tuple[str, ...]
    refused: bool
    """Its commands are refused, whatever was approved."""


def classes() -> list[Class]:
    """Every class, by name."""
    facts = [(rule.kind, rule.reason, rule.refused) for rule in RULES]
    facts += [(rule.kind, rule.reason, rule.refused) for rule in TEXT_RULES]
    facts += [(*UNREADABLE, False), (*TOO_MUCH, False)]
    table: dict[str, list[tuple[str, bool]]] = {}
    for kind, reason, refused in facts:
        table.setdefault(kind, []).append((reason, refused))
    return [
        Class(kind, tuple(dict.fromkeys(reason for reason, _ in found)), all(no for _, no in found))
        for kind, found in sorted(table.items())
    ]
