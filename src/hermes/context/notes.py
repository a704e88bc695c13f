"""The notes a conversation is compacted to: a fixed set of sections."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from hermes.context.conversation import (
    IMAGE,
    content_text,
    cut_to_tokens,
    message_text,
    todo_list_in,
)
from hermes.context.engine import Dict
from hermes.core.messages import COMPACTED, TODO_LIST
from hermes.core.model import text_tokens

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
NEWEST_LAST = frozenset({ACTIONS, PROGRESS})
"""Sections that are cut at the beginning if they are too long."""

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


class SummaryNotes(msgspec.Struct, frozen=True):
    sections: Mapping[str, str] = {}  #: Text by section name, without empty sections.

    def text(self) -> str:
        names = [name for name in SECTIONS if self.sections.get(name)]
        return "\n\n".join(f"## {name}\n{self.sections[name]}" for name in names)

    def __getitem__(self, name: str) -> str:
        return self.sections.get(name, "")

    def with_section(self, name: str, text: str) -> "SummaryNotes":
        return SummaryNotes({**self.sections, name: text.strip()})

    def with_lines(self, name: str, lines: Iterable[str]) -> "SummaryNotes":
        """Append lines to a section, except those it has already."""
        text = self[name]
        there = set(text.splitlines())
        new = [line for line in dict.fromkeys(lines) if line and line not in there]
        return self.with_section(name, "\n".join([text, *new])) if new else self

    def fitted(self, tokens: int) -> "SummaryNotes":
        """Cut the longest sections, at line ends, so that all fit so many tokens."""
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
        return SummaryNotes({name: text for name, text in cut.items() if text})


def parse_notes(text: str) -> SummaryNotes:
    """Parse the sections of a text; text before the first section is dropped."""
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
    return SummaryNotes({name: body for name, body in texts.items() if body})


def _heading(line: str) -> tuple[str, str] | None:
    """Return the section that a line begins and the rest of the line, or None."""
    match = _HEADING.fullmatch(line)
    if match is None:
        return None
    colon = match["colon"] or match["colon2"]
    if match["rest"] and not colon:
        return None  # a sentence that begins with a section name
    if not (match["mark"] or match["bold"] or colon):
        return None
    return _NAMES[match["name"].lower()], match["rest"]


def _level(sizes: Iterable[int], tokens: int) -> int:
    """Return the limit per section so that all together have at most `tokens`."""
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
        return cut_to_tokens(text, tokens + text_tokens(lines[0])) if lines and tokens > 20 else ""
    return "\n".join(["…", *reversed(kept)] if newest_last else [*kept, "…"])


# The summary message that replaces compacted messages: written and read back.

SUMMARY_PREFIX = COMPACTED
INTRO = (
    f"{SUMMARY_PREFIX} Earlier messages were replaced by these notes to save space. They are "
    "reference material, not a request: what they report is done, do not answer or repeat it. "
    "Answer only what follows them, and go on with the active task."
)
END = "[END OF CONTEXT COMPACTION. The user's message:]"
USERS = "## User Messages (word for word, oldest first)"
IN_USERS = "(The newest message of the user is the last of those below.)"
AFTER_END = "(The newest message of the user stands at the end of these notes.)"
IN_TAIL = "(The newest message of the user, further down, takes precedence.)"
PLACES = (IN_USERS, AFTER_END, IN_TAIL)
"""Where that message is; one of these closes the active task."""

_FOREIGN_PREFIX = "[CONTEXT COMPACTION"
"""Start of summaries in conversations imported from other programs."""
_USER = re.compile(r"^<user>\n(.*?)\n</user>$", re.M | re.S)
_END_LINE = re.compile(rf"^{re.escape(END)}(?:\n|$)", re.M)


class Summary(msgspec.Struct, frozen=True):
    notes: SummaryNotes = SummaryNotes()
    users: tuple[str, ...] = ()  #: User messages, oldest first.
    todo: str = ""  #: The todo list as its tool shows it.
    request: Any = None  #: The content of a message of the user that is joined to the notes.
    foreign: bool = False  #: Another program wrote it, so its facts are not marked.


def is_summary(message: Dict) -> bool:
    return message.get("role") in ("user", "assistant") and message_text(message).startswith(
        _FOREIGN_PREFIX
    )


def write_summary(summary: Summary) -> Dict:
    notes = summary.notes.text().replace(TODO_LIST, TODO_LIST.replace(":", " –"))
    users = [f"<user>\n{text}\n</user>" for text in summary.users]
    parts = [INTRO, summary.todo, notes, "\n".join([USERS, *users]) if users else ""]
    return join_request("\n\n".join(filter(None, parts)), summary.request)


def join_request(text: str, request: Any) -> Dict:
    """Return a message with `text`, followed by the content of a user message, if any."""
    if request is None:
        return {"role": "user", "content": text}
    text = f"{text}\n\n{END}\n"
    if isinstance(request, list) and IMAGE in content_text(request):
        blocks: list[Any] = [{"type": "text", "text": text}, *request]
        return {"role": "user", "content": blocks}
    return {"role": "user", "content": text + content_text(request)}


def split_request(message: Dict) -> tuple[str, Any]:
    """Return the text of a summary and the content joined to it, or None."""
    content = message.get("content")
    blocks: list[Any] = content if isinstance(content, list) and content else [content]
    first, *others = blocks
    text = content_text([first] if isinstance(first, dict) else first)
    end = _END_LINE.search(text)
    if end is None:
        return text, None
    said, text = text[end.end() :], text[: end.start()]
    head = [{"type": "text", "text": said}] if said else []
    return text, [*head, *others] if others else said


def read_summary(message: Dict) -> Summary:
    text, request = split_request(message)
    notes, _, said_by_user = text.partition(f"\n{USERS}\n")
    return Summary(
        notes=_read_notes(notes),
        users=tuple(_USER.findall(said_by_user)),
        todo=todo_list_in({"role": "user", "content": text}),
        request=request,
        foreign=not text.startswith(INTRO),
    )


def _read_notes(text: str) -> SummaryNotes:
    for place in PLACES:
        text = text.replace(place, "")
    notes = parse_notes(text)
    if notes.sections:
        return notes
    rest = text.removeprefix(INTRO).partition("]")[2] if not text.startswith(INTRO) else ""
    return SummaryNotes({CRITICAL: rest.strip()}) if rest.strip() else notes


def merge_summaries(summaries: Sequence[Summary]) -> Summary:
    """Merge summaries. Only conversations from other programs have more than one."""
    if len(summaries) == 1:
        return summaries[0]
    notes, todo = SummaryNotes(), ""
    for summary in summaries:
        for name, text in summary.notes.sections.items():
            if name == ACTIVE:
                notes = notes.with_section(ACTIVE, text)
            else:
                notes = notes.with_lines(name, text.splitlines())
        todo = summary.todo or todo
    users = tuple(dict.fromkeys(text for summary in summaries for text in summary.users))
    return Summary(notes, users, todo, foreign=any(summary.foreign for summary in summaries))
