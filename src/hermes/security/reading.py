"""Reading of command lines, whose many rules are loaded with the first command that is read."""

from functools import cache
from importlib import import_module
from typing import Any

from hermes.core.tool import Concern
from hermes.security.paths import Guard


def examine_command(command: str, guard: Guard, folder: str) -> list[Concern]:
    """See `security.commands`."""
    found: list[Concern] = _commands().examine_command(command, guard, folder)
    return found


def only_looks(command: str) -> bool:
    """See `security.looking`."""
    looks: bool = _looking().only_looks(command)
    return looks


def one_concern(concerns: list[Concern]) -> Concern | None:
    """All of them as one question: a refusal alone, else every class to be consented to."""
    if not concerns:
        return None
    first, *rest = concerns
    if first.refused or not rest:
        return first
    reason = "; ".join(dict.fromkeys(concern.reason for concern in concerns))
    return Concern(first.kind, first.subject, reason, also=tuple(concern.kind for concern in rest))


@cache
def _commands() -> Any:
    return import_module("hermes.security.commands")


@cache
def _looking() -> Any:
    return import_module("hermes.security.looking")
