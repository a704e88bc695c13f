"""The one message that stands for what was compacted, written and read back."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.context.compressor.notes import ACTIVE, CRITICAL, Notes, parse_notes
from hermes.context.compressor.reading import IMAGE, content_text, text_of
from hermes.context.compressor.todo_list import list_in
from hermes.context.engine import Dict
from hermes.core.marks import COMPACTED, TODO_LIST

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
"""Of summaries in conversations that began with another program."""
_USER = re.compile(r"^<user>\n(.*?)\n</user>$", re.M | re.S)
_END_LINE = re.compile(rf"^{re.escape(END)}(?:\n|$)", re.M)


class Summary(msgspec.Struct, frozen=True):
    notes: Notes = Notes()
    users: tuple[str, ...] = ()
    """What the user said, oldest first."""
    todo: str = ""
    """The todo list as its tool shows it."""
    request: Any = None
    """The content of a message of the user that is joined to the notes."""
    foreign: bool = False
    """Another program wrote it, so nothing in it is marked."""


def is_summary(message: Dict) -> bool:
    return message.get("role") in ("user", "assistant") and text_of(message).startswith(
        _FOREIGN_PREFIX
    )


def write_summary(summary: Summary) -> Dict:
    notes = summary.notes.text().replace(TODO_LIST, TODO_LIST.replace(":", " –"))
    users = [f"<user>\n{text}\n</user>" for text in summary.users]
    parts = [INTRO, summary.todo, notes, "\n".join([USERS, *users]) if users else ""]
    return joined("\n\n".join(filter(None, parts)), summary.request)


def joined(text: str, request: Any) -> Dict:
    """A message with `text` and, below it, the content of a message of the user, if any."""
    if request is None:
        return {"role": "user", "content": text}
    text = f"{text}\n\n{END}\n"
    if isinstance(request, list) and IMAGE in content_text(request):
        blocks: list[Any] = [{"type": "text", "text": text}, *request]
        return {"role": "user", "content": blocks}
    return {"role": "user", "content": text + content_text(request)}


def parted(message: Dict) -> tuple[str, Any]:
    """The text of a summary, and what is joined to it or None."""
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
    text, request = parted(message)
    notes, _, said_by_user = text.partition(f"\n{USERS}\n")
    return Summary(
        notes=_read_notes(notes),
        users=tuple(_USER.findall(said_by_user)),
        todo=list_in({"role": "user", "content": text}),
        request=request,
        foreign=not text.startswith(INTRO),
    )


def _read_notes(text: str) -> Notes:
    for place in PLACES:
        text = text.replace(place, "")
    notes = parse_notes(text)
    if notes.sections:
        return notes
    rest = text.removeprefix(INTRO).partition("]")[2] if not text.startswith(INTRO) else ""
    return Notes({CRITICAL: rest.strip()}) if rest.strip() else notes


def merged(summaries: Sequence[Summary]) -> Summary:
    """Several summaries as one. More than one is only in conversations of other programs."""
    if len(summaries) == 1:
        return summaries[0]
    notes, todo = Notes(), ""
    for summary in summaries:
        for name, text in summary.notes.sections.items():
            notes = notes.with_section(ACTIVE, text) if name == ACTIVE else _add(notes, name, text)
        todo = summary.todo or todo
    users = tuple(dict.fromkeys(text for summary in summaries for text in summary.users))
    return Summary(notes, users, todo, foreign=any(summary.foreign for summary in summaries))


def _add(notes: Notes, name: str, text: str) -> Notes:
    return notes.with_lines(name, text.splitlines())
