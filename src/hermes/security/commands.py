"""What stands against running a command line.

The syntax tree says which programs would be started; the rules of `danger` look at each. Rules on
the text itself stand beside the tree, and a tree with errors is never taken for safe.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

import msgspec

from hermes.core.tool import Concern
from hermes.security.danger.catalog import (
    BROKEN_RULES,
    LONGEST_SCANNED,
    TEXT_RULES,
    TOO_MUCH,
    UNREADABLE,
    rules_for,
)
from hermes.security.danger.context import CommandContext
from hermes.security.danger.side_effects import remember, scripts_of, unmasked
from hermes.security.paths import Guard
from hermes.security.shell.model import Invocation, Parsed, TooMuch
from hermes.security.shell.wrappers import unfold, unfold_program

SHOWN = 2_000
"""Characters of a command shown to the person who is asked."""
MOST_SCRIPTS = 8
"""Files written, and programs renamed, by the same command that are followed when it runs them."""


class Examined(msgspec.Struct, frozen=True):
    concerns: tuple[Concern, ...]
    """Refusals first."""
    programs: tuple[str, ...]
    """The programs that would be started, in order, each once."""


def examine_command(command: str, guard: Guard, folder: str) -> list[Concern]:
    """Each reason to ask before running `command` in `folder`, refusals first; empty when none."""
    return list(examine(command, guard, folder).concerns)


def examine(command: str, guard: Guard, folder: str) -> Examined:
    subject = command if len(command) <= SHOWN else command[:SHOWN] + " …"
    found: dict[tuple[str, bool], Concern] = {}
    study = CommandAnalysis(command, CommandContext(guard, folder))
    for kind, reason, refused in study.findings():
        found.setdefault((kind, refused), Concern(kind, subject, reason, refused))
    concerns = sorted(found.values(), key=lambda concern: not concern.refused)
    return Examined(tuple(concerns), tuple(dict.fromkeys(study.programs)))


class CommandAnalysis:
    """One command, looked at once."""

    def __init__(self, command: str, scene: CommandContext) -> None:
        self._command, self._scene = command, scene
        self._scripts = 0
        self.programs: list[str] = []

    def findings(self) -> Iterator[tuple[str, str, bool]]:
        """Class, reason and whether it is refused."""
        text = self._command
        parsed = _attempt(partial(unfold, text, self._scene.variables))
        if parsed is None:
            yield (*TOO_MUCH, False)
        else:
            yield from self._of(parsed)
        if len(text) > 2 * LONGEST_SCANNED:
            text = text[:LONGEST_SCANNED] + text[-LONGEST_SCANNED:]
        broken = parsed is None or parsed.broken
        for rule in (*TEXT_RULES, *(BROKEN_RULES if broken else ())):
            if rule.pattern.search(text):
                yield rule.kind, rule.reason, rule.refused

    def _of(self, parsed: Parsed) -> Iterator[tuple[str, str, bool]]:
        if parsed.broken:
            yield (*UNREADABLE, False)
        if parsed.bomb:
            yield "fork bomb", "starts processes without end", True
        self._scene.loaded |= {
            id(source)
            for invocation in parsed.invocations
            if invocation.name in ("export", "declare", "env", "set")
            for source in invocation.fed_by
        }
        for invocation in parsed.invocations:
            yield from self._about(invocation)

    def _about(self, invocation: Invocation) -> Iterator[tuple[str, str, bool]]:
        if invocation.name:
            self.programs.append(invocation.name)
        for rule in rules_for(invocation):
            if rule.test(invocation, self._scene):
                yield rule.kind, rule.reason, rule.refused
        for script in filter(None, scripts_of(invocation, self._scene)):
            yield from self._deeper(partial(unfold, script, self._scene.variables))
        original = unmasked(invocation, self._scene)
        if original is not None:
            yield from self._deeper(partial(unfold_program, original))
        remember(invocation, self._scene)

    def _deeper(self, parse: Callable[[], Parsed]) -> Iterator[tuple[str, str, bool]]:
        """What the command itself has written or renamed, and runs."""
        if self._scripts < MOST_SCRIPTS:
            self._scripts += 1
            parsed = _attempt(parse)
            yield from self._of(parsed) if parsed else ((*TOO_MUCH, False),)


def _attempt(parse: Callable[[], Parsed]) -> Parsed | None:
    """None when it is too much to read."""
    try:
        return parse()
    except (TooMuch, RecursionError):  # nobody writes such a thing by hand
        return None


# A command line's verdict under the settings in force, as data.

COVERED = "covered by command_allowlist"


class Verdict(msgspec.Struct, frozen=True):
    """What would happen if the agent wanted to run `command`."""

    command: str
    verdict: Literal["allow", "ask", "refuse"]
    kind: str = msgspec.field(name="class", default="")
    """The first class; "" when the command is in none."""
    classes: tuple[str, ...] = ()
    reason: str = ""
    """All reasons in one line, or why the classes do not matter."""
    reasons: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


def judge(command: str, examined: Examined, mode: str, allowlist: Iterable[str]) -> Verdict:
    """`mode` is the setting `approvals.mode`, `allowlist` is `command_allowlist`."""
    concerns = examined.concerns
    classes = tuple(dict.fromkeys(concern.kind for concern in concerns))
    reasons = tuple(dict.fromkeys(concern.reason for concern in concerns))
    verdict, why = _outcome(examined, mode, {kind.strip().lower() for kind in allowlist})
    return Verdict(
        command,
        verdict,
        kind=classes[0] if classes else "",
        classes=classes,
        reason=why or "; ".join(reasons),
        reasons=reasons,
        programs=examined.programs,
    )


def _outcome(
    examined: Examined, mode: str, allowed: set[str]
) -> tuple[Literal["allow", "ask", "refuse"], str]:
    """The same order as in `hermes.tools.approval`."""
    concerns = examined.concerns
    if not concerns:
        return "allow", ""
    if any(concern.refused for concern in concerns):
        return "refuse", ""
    if mode == "off":
        return "allow", "approvals.mode is off"
    if all(concern.kind.lower() in allowed for concern in concerns):
        return "allow", COVERED
    if mode == "deny":
        return "refuse", "approvals.mode is deny"
    return "ask", ""
