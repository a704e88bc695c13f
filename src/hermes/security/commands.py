"""What stands against running a command line.

The syntax tree says which programs would be started; the rules of `command_rules` look at each.
Rules on the text itself stand beside the tree, and a tree with errors is never taken for safe.
"""

import re
from collections.abc import Iterator

from hermes.core.tool import Concern
from hermes.security.command_checks import Scene
from hermes.security.command_rules import BROKEN_RULES, RULES, TEXT_RULES
from hermes.security.paths import Guard
from hermes.security.shell_syntax import Invocation, Parsed
from hermes.security.wrappers import unfold

SHOWN = 2_000
"""Characters of a command shown to the person who is asked."""


def examine_command(command: str, guard: Guard, folder: str) -> list[Concern]:
    """Each reason to ask before running `command` in `folder`, refusals first; empty when none."""
    subject = command if len(command) <= SHOWN else command[:SHOWN] + " …"
    found: dict[tuple[str, bool], Concern] = {}
    for kind, reason, refused in _findings(command, Scene(guard, folder)):
        found.setdefault((kind, refused), Concern(kind, subject, reason, refused))
    return sorted(found.values(), key=lambda concern: not concern.refused)


def _findings(command: str, scene: Scene) -> Iterator[tuple[str, str, bool]]:
    """Class, reason and whether it is refused."""
    try:
        parsed = unfold(command)
    except RecursionError:  # nobody writes such a thing by hand
        parsed = Parsed((), broken=True)
    for invocation in parsed.invocations:
        for rule in RULES:
            if fits(rule.names, invocation) and rule.test(invocation, scene):
                yield rule.kind, rule.reason, rule.refused
    if parsed.broken:
        yield "unreadable command", "its syntax cannot be read with certainty", False
    for pattern, kind, reason, refused in (*TEXT_RULES, *(BROKEN_RULES if parsed.broken else ())):
        if pattern.search(command):
            yield kind, reason, refused


def one_concern(concerns: list[Concern]) -> Concern | None:
    """All of them as one question: a refusal alone, else every class to be consented to."""
    if not concerns:
        return None
    first, *rest = concerns
    if first.refused or not rest:
        return first
    reason = "; ".join(dict.fromkeys(concern.reason for concern in concerns))
    return Concern(first.kind, first.subject, reason, also=tuple(concern.kind for concern in rest))


def fits(names: str, invocation: Invocation) -> bool:
    return not names or re.fullmatch(names, invocation.name) is not None
