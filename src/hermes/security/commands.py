"""Command analysis: the reasons against running a command line.

The syntax tree tells which programs would be started, and the rules of `danger` check each. Further
rules check the text itself. A tree with errors is never taken for safe.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

import msgspec

from hermes.core.tool import Concern
from hermes.security.danger.catalog import (
    BROKEN_RULES,
    MAX_SCANNED,
    TEXT_RULES,
    TOO_MUCH,
    UNREADABLE,
    rules_for,
)
from hermes.security.danger.code import original_program, record_side_effects, scripts_run
from hermes.security.danger.context import ShellContext
from hermes.security.paths import PathGuard
from hermes.security.shell.model import CommandTooComplex, Invocation, ParsedCommand
from hermes.security.shell.wrappers import unfold_command, unfold_invocation

MAX_SHOWN = 2_000  #: Characters of a command shown to the user who is asked.
MAX_SCRIPTS = 8
"""How many scripts written, and programs renamed, by the same command are followed."""


class Examination(msgspec.Struct, frozen=True):
    concerns: tuple[Concern, ...]  #: Refusals first.
    programs: tuple[str, ...]  #: The programs that would be started, in order, each once.


def examine(command: str, guard: PathGuard, folder: str) -> Examination:
    """Return each reason to ask before running `command` in `folder`, and its programs."""
    subject = command if len(command) <= MAX_SHOWN else command[:MAX_SHOWN] + " …"
    found: dict[tuple[str, bool], Concern] = {}
    analysis = CommandAnalysis(command, ShellContext(guard, folder))
    for kind, reason, refused in analysis.findings():
        found.setdefault((kind, refused), Concern(kind, subject, reason, refused))
    concerns = sorted(found.values(), key=lambda concern: not concern.refused)
    return Examination(tuple(concerns), tuple(dict.fromkeys(analysis.programs)))


class CommandAnalysis:
    """The analysis of one command."""

    def __init__(self, command: str, context: ShellContext) -> None:
        self._command, self._context = command, context
        self._scripts = 0
        self.programs: list[str] = []

    def findings(self) -> Iterator[tuple[str, str, bool]]:
        """Yield class, reason and whether it is refused."""
        text = self._command
        parsed = _parse_or_none(partial(unfold_command, text, self._context.variables))
        if parsed is None:
            yield (*TOO_MUCH, False)
        else:
            yield from self._check_parsed(parsed)
        if len(text) > 2 * MAX_SCANNED:
            text = text[:MAX_SCANNED] + text[-MAX_SCANNED:]
        broken = parsed is None or parsed.broken
        for rule in (*TEXT_RULES, *(BROKEN_RULES if broken else ())):
            if rule.pattern.search(text):
                yield rule.kind, rule.reason, rule.refused

    def _check_parsed(self, parsed: ParsedCommand) -> Iterator[tuple[str, str, bool]]:
        if parsed.broken:
            yield (*UNREADABLE, False)
        if parsed.bomb:
            yield "fork bomb", "starts processes without end", True
        self._context.loaded |= {
            id(source)
            for invocation in parsed.invocations
            if invocation.name in ("export", "declare", "env", "set")
            for source in invocation.fed_by
        }
        for invocation in parsed.invocations:
            yield from self._check_invocation(invocation)

    def _check_invocation(self, invocation: Invocation) -> Iterator[tuple[str, str, bool]]:
        if invocation.name:
            self.programs.append(invocation.name)
        for rule in rules_for(invocation):
            if rule.matches(invocation, self._context):
                yield rule.kind, rule.reason, rule.refused
        for script in filter(None, scripts_run(invocation, self._context)):
            yield from self._check_nested(partial(unfold_command, script, self._context.variables))
        original = original_program(invocation, self._context)
        if original is not None:
            yield from self._check_nested(partial(unfold_invocation, original))
        record_side_effects(invocation, self._context)

    def _check_nested(self, parse: Callable[[], ParsedCommand]) -> Iterator[tuple[str, str, bool]]:
        """Check what the command itself has written or renamed, and now runs."""
        if self._scripts < MAX_SCRIPTS:
            self._scripts += 1
            parsed = _parse_or_none(parse)
            yield from self._check_parsed(parsed) if parsed else ((*TOO_MUCH, False),)


def _parse_or_none(parse: Callable[[], ParsedCommand]) -> ParsedCommand | None:
    """Return None if the command is too complex to read."""
    try:
        return parse()
    except (CommandTooComplex, RecursionError):  # never the case for commands written by hand
        return None


# The verdict on a command line under the current settings.

COVERED_BY_ALLOWLIST = "covered by command_allowlist"


class CommandVerdict(msgspec.Struct, frozen=True):
    """What would happen if the agent wanted to run `command`."""

    command: str
    verdict: Literal["allow", "ask", "refuse"]
    kind: str = msgspec.field(name="class", default="")
    """The first class; "" if the command is in none."""
    classes: tuple[str, ...] = ()
    reason: str = ""  #: All reasons in one line, or why the classes do not matter.
    reasons: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


def judge_command(
    command: str, examined: Examination, mode: str, allowlist: Iterable[str]
) -> CommandVerdict:
    """Return the verdict. `mode` is `approvals.mode`, `allowlist` is `command_allowlist`."""
    concerns = examined.concerns
    classes = tuple(dict.fromkeys(concern.kind for concern in concerns))
    reasons = tuple(dict.fromkeys(concern.reason for concern in concerns))
    verdict, why = _decide(examined, mode, {kind.strip().lower() for kind in allowlist})
    return CommandVerdict(
        command,
        verdict,
        kind=classes[0] if classes else "",
        classes=classes,
        reason=why or "; ".join(reasons),
        reasons=reasons,
        programs=examined.programs,
    )


def _decide(
    examined: Examination, mode: str, allowed: set[str]
) -> tuple[Literal["allow", "ask", "refuse"], str]:
    """Decide in the same order as `hermes.tools.approval`."""
    concerns = examined.concerns
    if not concerns:
        return "allow", ""
    if any(concern.refused for concern in concerns):
        return "refuse", ""
    if mode == "off":
        return "allow", "approvals.mode is off"
    if all(concern.kind.lower() in allowed for concern in concerns):
        return "allow", COVERED_BY_ALLOWLIST
    if mode == "deny":
        return "refuse", "approvals.mode is deny"
    return "ask", ""
