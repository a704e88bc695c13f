"""Sessions written out of the store, one at a time, so that any number of them fits."""

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from hermes.app.transcripts.markdown import to_markdown
from hermes.app.transcripts.outline import outline
from hermes.app.transcripts.page import PAGE_END, page_start, session_section
from hermes.core.ports import SessionInfo
from hermes.store.backend import Progress, ignore_progress
from hermes.store.records import Record
from hermes.store.session_store import SessionStore
from hermes.util.plain import escaped_json


class Form(StrEnum):
    """What an export can be. Only JSON Lines hold everything and can be imported."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    HTML = "html"


SUFFIXES = {
    ".jsonl": Form.JSONL,
    ".ndjson": Form.JSONL,
    ".json": Form.JSONL,
    ".md": Form.MARKDOWN,
    ".markdown": Form.MARKDOWN,
    ".html": Form.HTML,
    ".htm": Form.HTML,
}


def form_of(path: Path) -> Form:
    """The form the name of a file asks for; JSON Lines, which lose nothing, for any other name."""
    return SUFFIXES.get(path.suffix.lower(), Form.JSONL)


def to_line(record: Record) -> str:
    """A whole session as a line of JSON Lines."""
    return escaped_json(msgspec.json.encode(record).decode()) + "\n"


async def exported(
    store: SessionStore,
    sessions: Sequence[SessionInfo],
    form: Form,
    progress: Progress = ignore_progress,
) -> AsyncIterator[str]:
    """The pieces of the file."""
    several = len(sessions) != 1
    if form is Form.HTML:
        yield page_start(sessions)
    for number, info in enumerate(sessions, start=1):
        record = await store.export(info.id)
        match form:
            case Form.JSONL:
                yield to_line(record)
            case Form.MARKDOWN:
                yield ("\n---\n\n" if number > 1 else "") + to_markdown(outline(record))
            case Form.HTML:
                yield session_section(outline(record), number, several=several)
        progress(number, len(sessions))
    if form is Form.HTML:
        yield PAGE_END
