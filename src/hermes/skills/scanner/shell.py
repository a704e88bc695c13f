"""Commands of a shell: what `hermes.security` says of them, in the light of a skill."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes.security.danger.aftermath import remember
from hermes.security.danger.catalogue import rules_for
from hermes.security.danger.scene import Scene
from hermes.security.danger.texts import TEXT_RULES
from hermes.security.paths import Guard
from hermes.security.shell.model import Invocation, TooMuch
from hermes.security.shell.wrappers import unfold
from hermes.skills.scanner import shell_rules as rules
from hermes.skills.scanner.packages import installed, is_typosquat, odd_index
from hermes.skills.scanner.rule import Hit, Rule, at_least
from hermes.skills.scanner.shell_flows import Flows
from hermes.skills.scanner.shell_judging import JUDGED, judged
from hermes.skills.scanner.startup import startup_hits

HOME: Final = "/home/user"
FOLDER: Final = "/home/user/project"
_GUARD = Guard(Path(HOME), (Path(FOLDER),), (Path(f"{HOME}/.hermes"),), here=False)
_LONGEST: Final = 6_000
"""Characters read at once; a longer script is read in parts, cut between its paragraphs."""
_MOST_LINES: Final = 200
_SHORTEST: Final = 1_500
"""A part that is too much is halved down to this."""
_DEEPEST: Final = 2
_WORTH = re.compile(r"[A-Za-z]")


def shell(text: str, depth: int = 0) -> Iterator[Hit]:
    """What commands would do. `depth` counts commands inside commands."""
    if not _WORTH.search(text):
        return
    for rule in TEXT_RULES:
        if match := rule.pattern.search(text):
            yield Hit(rules.INVISIBLE, text.count("\n", 0, match.start()))
    line = 0
    for part in _parts(text, _LONGEST):
        for hit in _of_part(part):
            yield Hit(hit.rule, line + hit.line)
        line += part.count("\n")
    if depth < _DEEPEST:
        yield from startup_hits(text, lambda inner: dangers(inner, depth + 1))


def dangers(text: str, depth: int = _DEEPEST) -> list[Hit]:
    """Only what makes a skill suspicious."""
    return [hit for hit in shell(text, depth) if at_least(hit, "medium")]


def _parts(text: str, longest: int) -> Iterator[str]:
    """Cut where a line is empty, else where a line ends, else anywhere."""
    start = 0
    while start < len(text):
        end = min(start + longest, len(text))
        lines = text[start:end].split("\n", _MOST_LINES)
        if len(lines) > _MOST_LINES:
            end -= len(lines[-1])
        if end < len(text):
            paragraph = text.rfind("\n\n", start + longest // 4, end)
            line = text.rfind("\n", start, end)
            end = paragraph + 1 if paragraph >= 0 else line + 1 if line >= 0 else end
        yield text[start:end]
        start = end


def _of_part(text: str) -> Iterator[Hit]:
    scene = Scene(_GUARD, FOLDER)
    try:
        parsed = unfold(text, scene.variables)
    except (TooMuch, RecursionError):
        if len(text) <= _SHORTEST:
            yield Hit(rules.UNREADABLE)
            return
        line = 0
        for part in _parts(text, len(text) // 2):
            for hit in _of_part(part):
                yield Hit(hit.rule, line + hit.line)
            line += part.count("\n")
        return
    if parsed.bomb:
        yield Hit(rules.FORK_BOMB)
    flows = Flows(scene)
    lines = text.split("\n")
    for invocation in parsed.invocations:
        for rule in dict.fromkeys(_of_invocation(invocation, scene, flows)):
            yield Hit(rule, _line_of(invocation, lines))
        remember(invocation, scene)


def _of_invocation(invocation: Invocation, scene: Scene, flows: Flows) -> Iterator[Rule]:
    for found in rules_for(invocation):
        if found.kind in JUDGED and found.test(invocation, scene):
            rule = judged(found.kind, found.reason, invocation, flows.addresses)
            if rule is not None:
                yield rule
    yield from flows.follow(invocation)
    if any(is_typosquat(name, kind) for name, kind in installed(invocation)):
        yield rules.TYPOSQUAT
    if odd_index(invocation):
        yield rules.UNKNOWN_INDEX


def _line_of(invocation: Invocation, lines: list[str]) -> int:
    """The first line with the program and the most telling of its words."""
    name = invocation.words[0] if invocation.words else ""
    words = [*invocation.arguments, *(redirect.target for redirect in invocation.redirects)]
    pieces = (piece for word in words for piece in re.split(r"[^\x21-\x7e]", word))
    telling = max(pieces, key=len, default="")
    for number, line in enumerate(lines):
        if name in line and telling[:60] in line:
            return number
    last = name.rpartition("/")[2]
    return next((number for number, line in enumerate(lines) if last and last in line), 0)
