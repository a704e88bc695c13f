"""The notes a conversation is compacted to: a fixed set of sections."""

import re
from collections.abc import Iterable, Mapping

import msgspec

from hermes.context.compressor.reading import cut_to
from hermes.core.tokens import text_tokens

ACTIVE, GOAL, CONSTRAINTS = "Active Task", "Goal", "Constraints & Preferences"
ACTIONS, PROGRESS, DECISIONS = "Completed Actions", "Progress", "Key Decisions"
FILES, NEXT, CRITICAL = "Relevant Files", "Next Steps", "Critical Context"
SECTIONS = {
    ACTIVE: "the newest unfinished request, in the user's own words",
    GOAL: "what all this is for",
    CONSTRAINTS: "what the user wants always, never, or in a certain way",
    ACTIONS: "what was done, with paths, commands, line numbers and results",
    PROGRESS: "under ### Done, ### In Progress, ### Blocked",
    DECISIONS: "what was decided, and why",
    FILES: "paths, and what each is for",
    NEXT: "what remains to be done, in order",
    CRITICAL: "values, names, error texts and findings that cannot be found again",
}
"""Each with what belongs in it."""
STATES = ("Done", "In Progress", "Blocked")
NEWEST_LAST = frozenset({ACTIONS, PROGRESS})
"""Sections that lose their beginning when there is too much."""

_OTHER_NAMES = {
    "constraints and preferences": CONSTRAINTS,
    "constraints": CONSTRAINTS,
    "preferences": CONSTRAINTS,
    "actions": ACTIONS,
    "decisions": DECISIONS,
    "files": FILES,
    "current task": ACTIVE,
}
_NAMES = {**{name.lower(): name for name in SECTIONS}, **_OTHER_NAMES}
_HEADING = re.compile(
    r"(?P<mark>\s{0,3}#{1,6}\s*)?(?:\d+[.)]\s*)?(?P<bold>\*\*|__)?\s*"
    r"(?P<name>" + "|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)) + r")"
    r"\s*(?P<colon>:?)\s*(?:\*\*|__)?\s*(?P<colon2>:?)\s*(?P<rest>.*)",
    re.I,
)
_STATE = re.compile(r"\s{0,3}(?:#{1,6}\s*|\*\*)(Done|In Progress|Blocked)\W*", re.I)


class Notes(msgspec.Struct, frozen=True):
    sections: Mapping[str, str] = {}
    """Text by name; those without text are left out."""

    def text(self) -> str:
        names = [name for name in SECTIONS if self.sections.get(name)]
        return "\n\n".join(f"## {name}\n{self.sections[name]}" for name in names)

    def __getitem__(self, name: str) -> str:
        return self.sections.get(name, "")

    def with_section(self, name: str, text: str) -> "Notes":
        return Notes({**self.sections, name: text.strip()})

    def with_lines(self, name: str, lines: Iterable[str]) -> "Notes":
        """With these lines at the end of a section, except those it has already."""
        text = self[name]
        there = set(text.splitlines())
        new = [line for line in dict.fromkeys(lines) if line and line not in there]
        return self.with_section(name, "\n".join([text, *new])) if new else self

    def fitted(self, tokens: int) -> "Notes":
        """Within so many tokens: the longest sections are cut, at the ends of lines."""
        sizes = {
            name: text_tokens(f"## {name}\n{text}\n\n") for name, text in self.sections.items()
        }
        if sum(sizes.values()) <= tokens:
            return self
        level = _level(sizes.values(), tokens)
        cut = {
            name: _cut(text, max(0, level - text_tokens(f"## {name}\n\n")), name in NEWEST_LAST)
            if sizes[name] > level
            else text
            for name, text in self.sections.items()
        }
        return Notes({name: text for name, text in cut.items() if text})


def parse_notes(text: str) -> Notes:
    """The sections of a text; what stands before the first is left out."""
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if state := _STATE.fullmatch(line):
            lines = found.setdefault(PROGRESS, [])
            lines.append(f"### {state[1].title()}")
        elif heading := _heading(line):
            name, rest = heading
            lines = found.setdefault(name, [])
            lines.extend([rest] if rest else [])
        elif lines is not None:
            lines.append(line.rstrip())
    texts = {name: "\n".join(body).strip() for name, body in found.items()}
    return Notes({name: body for name, body in texts.items() if body})


def _heading(line: str) -> tuple[str, str] | None:
    """The section a line opens, and what it says of it right there."""
    match = _HEADING.fullmatch(line)
    if match is None:
        return None
    colon = match["colon"] or match["colon2"]
    if match["rest"] and not colon:
        return None  # a sentence that begins with the name
    if not (match["mark"] or match["bold"] or colon):
        return None
    return _NAMES[match["name"].lower()], match["rest"]


def _level(sizes: Iterable[int], tokens: int) -> int:
    """How much each may have at most so that all together have `tokens`."""
    rest = sorted(sizes)
    while rest and rest[0] * len(rest) <= tokens:
        tokens -= rest.pop(0)
    return tokens // len(rest) if rest else tokens


def _cut(text: str, tokens: int, newest_last: bool) -> str:
    lines = text.splitlines()
    kept: list[str] = []
    for line in reversed(lines) if newest_last else lines:
        tokens -= text_tokens(line + "\n")
        if tokens < 2:
            break
        kept.append(line)
    if not kept:
        return cut_to(text, tokens + text_tokens(lines[0])) if lines and tokens > 20 else ""
    return "\n".join(["…", *reversed(kept)] if newest_last else [*kept, "…"])
