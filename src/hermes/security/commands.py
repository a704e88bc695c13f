"""Command analysis: the reasons against running a command line.

The syntax tree tells which programs would be started, and the rules of `danger` check each. Further
rules check the text itself. A tree with errors is never taken for safe.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from hermes.config.settings import AllowRule
from hermes.core.tool import Concern, Reach
from hermes.security import merge_concerns
from hermes.security.allow_rules import DESTRUCTIVE, covering_rules, is_class_rule
from hermes.security.danger.catalog import (
    BROKEN_RULES,
    MAX_SCANNED,
    TEXT_RULES,
    TOO_MUCH,
    UNREADABLE,
    is_client,
    rules_for,
)
from hermes.security.danger.code import (
    code_read,
    original_program,
    record_side_effects,
    scripts_run,
)
from hermes.security.danger.context import ShellContext
from hermes.security.danger.inline import ONCE_ONLY, CodeEffects, code_findings
from hermes.security.danger.system import is_loss, lost_by
from hermes.security.paths import PathGuard, is_below
from hermes.security.read_only import edits_workspace
from hermes.security.shell.model import (
    GIVEN,
    UNKNOWN,
    CommandTooComplex,
    Invocation,
    ParsedCommand,
)
from hermes.security.shell.reader import parse_command
from hermes.security.shell.wrappers import unfold_command, unfold_invocation

MAX_CODE_DEPTH = 3  #: Code that starts interpreters with code, which do the same.
MAX_SCRIPTS = 8
"""How many scripts written, and programs renamed, by the same command are followed."""


class ShellState(msgspec.Struct, frozen=True):
    """What a shell that stays open keeps between two lines."""

    folder: str
    variables: Mapping[str, str] = {}


class Examination(msgspec.Struct, frozen=True):
    concerns: tuple[Concern, ...]  #: Refusals first.
    programs: tuple[str, ...]  #: The programs that would be started, in order, each once.
    edits: bool = False  #: Whether it changes files of the workspace, as far as its words show.


def examine(
    command: str, guard: PathGuard, folder: str, variables: Mapping[str, str] | None = None
) -> Examination:
    """Return each reason to ask before running `command` in `folder`, and its programs.

    `variables` are those of the shell that would run it.
    """
    found: dict[tuple[str, bool], Concern] = {}
    analysis = CommandAnalysis(command, ShellContext(guard, folder, variables))
    facts: dict[str, Any] = {}
    for kind, reason, refused in analysis.findings():
        facts = facts or {
            "folder": folder,
            "words": plain_words(command),
            "reach": command_reach(command, guard, folder),
        }
        concern = Concern(
            kind,
            command,
            reason,
            refused,
            destructive=kind.lower() in DESTRUCTIVE,
            once_only=kind in ONCE_ONLY,
            **facts,
        )
        found.setdefault((kind, refused), concern)
    concerns = sorted(found.values(), key=lambda concern: not concern.refused)
    programs = tuple(dict.fromkeys(analysis.programs))
    return Examination(tuple(concerns), programs, analysis.edits)


def shell_after(command: str, guard: PathGuard, before: ShellState) -> ShellState:
    """Return the folder and the variables that a shell has after `command`."""
    context = ShellContext(guard, before.folder, before.variables)
    parsed = _parse_or_none(partial(parse_command, command, context.variables))
    if parsed is None:
        return before
    folder = before.folder
    if UNKNOWN in parsed.folder:
        folder = parsed.folder
    elif parsed.folder:
        folder = context.real(parsed.folder, Invocation((), known=parsed.variables))
    return ShellState(folder, parsed.variables)


def examine_input(
    command: str, text: str, guard: PathGuard, folder: str
) -> tuple[Concern, ...] | None:
    """Return each reason to ask before a database client, started by `command`, gets `text`.

    None if it is not such a client and `text` is not a statement that loses data: the program may
    be a shell then.
    """
    context = ShellContext(guard, folder)
    parsed = _parse_or_none(partial(unfold_command, command, context.variables))
    found = [each for each in parsed.invocations if is_client(each)] if parsed else []
    if not found and not is_loss(text):
        return None
    client = Invocation((found[-1].words[0] if found else "psql",), stdin=text)
    if not found and not lost_by(text):
        client = Invocation(("redis-cli",), stdin=text)
    findings = CommandAnalysis(text, context).input_findings(client)
    return tuple(
        Concern(kind, text, reason, refused, once_only=kind in ONCE_ONLY)
        for kind, reason, refused in dict.fromkeys(findings)
    )


class CommandAnalysis:
    """The analysis of one command."""

    def __init__(self, command: str, context: ShellContext) -> None:
        self._command, self._context = command, context
        self._scripts = self._codes = 0
        self.programs: list[str] = []
        self.edits = False

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

    def input_findings(self, program: Invocation) -> Iterator[tuple[str, str, bool]]:
        """Yield the same for what a running program gets as input."""
        yield from self._check_invocation(program)

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
        if invocation.name and not self._codes:
            self.programs.append(invocation.name)
        self.edits = self.edits or edits_workspace(invocation, self._context)
        for rule in rules_for(invocation):
            if rule.matches(invocation, self._context):
                yield rule.kind, rule.reason, rule.refused
        for effects in code_read(invocation, self._context):
            yield from self._check_code(effects)
        for script in filter(None, scripts_run(invocation, self._context)):
            yield from self._check_nested(partial(unfold_command, script, self._context.variables))
        original = original_program(invocation, self._context)
        if original is not None:
            yield from self._check_nested(partial(unfold_invocation, original))
        record_side_effects(invocation, self._context)

    def _check_code(self, effects: CodeEffects) -> Iterator[tuple[str, str, bool]]:
        """Check the commands that have the same effect as code given as text."""
        if self._codes >= MAX_CODE_DEPTH:
            yield (*TOO_MUCH, False)
            return
        self._codes += 1
        found: list[tuple[str, str, bool]] = []
        for command in effects.commands:
            parsed = _parse_or_none(partial(unfold_invocation, command))
            found += self._check_parsed(parsed) if parsed else [(*TOO_MUCH, False)]
        self._codes -= 1
        yield from found
        if any(kind not in ONCE_ONLY for kind, _, _ in found):
            yield "dangerous inline code", "runs code given as text", False
        yield from ((*finding, False) for finding in code_findings(effects))

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


# Facts about a command line that decide which scopes fit it.

MAX_PLAIN_CHARS = 2_000  #: Longer commands can only be recognized as a whole.
_SHELL_SYNTAX = re.compile(r"[;&|<>$`\n\r(){}*?\[\]!#~\\\ue000-\uf8ff]")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd", "chroot", "chdir", "z"})
_FOLDER_OPTION = re.compile(r"-C|-[a-zA-Z]*C|--(directory|chdir|cwd|prefix|work-tree|git-dir)\b")
_CODE = re.compile(r"[\s()'\"`$;|&<>\\{}]")


def plain_words(command: str) -> tuple[str, ...]:
    """Return the words of a command that is one program with literal arguments, else nothing.

    Text with any sign that the shell could interpret is left out, even in quotes, so that equal
    words always mean the same invocation.
    """
    if len(command) > MAX_PLAIN_CHARS or _SHELL_SYNTAX.search(command):
        return ()
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        return ()
    return tuple(words) if words and "=" not in words[0] else ()


def command_reach(command: str, guard: PathGuard, folder: str) -> Reach:
    """Return whether a command started in `folder` stays inside it, as far as its words show.

    `unknown` means that variables of the running shell decide what it does. Every word counts as
    a path, so a doubtful command is `elsewhere`.
    """
    if len(command) > MAX_SCANNED:
        return "unknown"
    if not guard.here:
        return "elsewhere"  # links of another machine cannot be resolved
    parsed = _parse_or_none(partial(unfold_command, command, {}))
    if parsed is None or parsed.broken:
        return "unknown"
    for each in parsed.invocations:
        texts = (*each.words, *(redirect.target for redirect in each.redirects))
        if UNKNOWN in "".join(texts) and each.uses - each.known.keys():
            return "unknown"
    inside = all(_stays_inside(each, guard, folder) for each in parsed.invocations)
    return "folder" if inside else "elsewhere"


def _stays_inside(invocation: Invocation, guard: PathGuard, folder: str) -> bool:
    if invocation.name in _CHANGES_FOLDER or invocation.folder or invocation.stdin:
        return False
    if any(not _is_inside(redirect.target, guard, folder) for redirect in invocation.redirects):
        return False
    # A program that other programs are given to decides where they act: find -exec, xargs, ssh.
    if any(name in ("xargs", "parallel", "ssh") for name in (invocation.name, *invocation.via)):
        return False
    return all(_is_inside(word, guard, folder) for word in invocation.arguments)


def _is_inside(word: str, guard: PathGuard, folder: str) -> bool:
    if word in ("/dev/null", "-", "--") or re.match(r"https?://[^/]", word):
        return True
    if UNKNOWN in word or word.startswith((GIVEN, "~")) or _CODE.search(word):
        return False
    if word.startswith("-"):
        if _FOLDER_OPTION.match(word):
            return False
        option, equals, value = word.partition("=")
        if not equals:
            return "/" not in word and ".." not in word
        return "/" not in option and _is_inside(value, guard, folder)
    if ".." in word.split("/"):
        return False
    literal = re.split(r"[*?\[]", word, maxsplit=1)[0]
    if literal != word:  # a pattern may match links, but only those of one folder
        if "/" in word[len(literal) :]:
            return False
        literal = literal.rpartition("/")[0] or "."
    real = guard.resolve(literal, folder)
    # A folder that does not exist yet may become a link to another one.
    # As texts, because a `Path` would drop the slash at the end.
    parent = real if literal != word or word.endswith("/") else os.path.dirname(real)  # noqa: PTH120
    known = "/" not in word or os.path.isdir(parent)  # noqa: PTH112
    return known and is_below(real, guard.resolve(folder, folder))


# The verdict on a command line under the current settings.

COVERED_BY_ALLOWLIST = "covered by command_allowlist"
COVERED_BY_RULE = "covered by approvals.rules"


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
    command: str, examined: Examination, mode: str, rules: Sequence[AllowRule]
) -> CommandVerdict:
    """Return the verdict on a command of the tool `terminal`. `mode` is `approvals.mode`."""
    concerns = examined.concerns
    classes = tuple(dict.fromkeys(concern.kind for concern in concerns))
    reasons = tuple(dict.fromkeys(concern.reason for concern in concerns))
    verdict, why = _decide(examined, mode, rules)
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
    examined: Examination, mode: str, rules: Sequence[AllowRule]
) -> tuple[Literal["allow", "ask", "refuse"], str]:
    """Decide in the same order as `hermes.tools.approval`."""
    concerns = examined.concerns
    if not concerns:
        return "allow", ""
    if any(concern.refused for concern in concerns):
        return "refuse", ""
    if mode == "off":
        return "allow", "approvals.mode is off"
    whole = merge_concerns(list(concerns))
    if whole and (found := covering_rules(rules, "terminal", whole)):
        everywhere = all(is_class_rule(rules[n]) and not rules[n].folder for n in found)
        return "allow", COVERED_BY_ALLOWLIST if everywhere else COVERED_BY_RULE
    if mode == "deny":
        return "refuse", "approvals.mode is deny"
    return "ask", ""
