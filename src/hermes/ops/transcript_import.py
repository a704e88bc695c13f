"""Import of sessions from JSON Lines: all of them, or none if a line is invalid."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from hermes.core.errors import UsageError
from hermes.store import (
    JSON_COLUMNS,
    Progress,
    Record,
    SessionFilter,
    SessionStore,
    clean_title,
    ignore_progress,
)
from hermes.util.text import new_session_id, plain_line

# The fields of a line. Unknown keys are ignored.

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
"""Until the year 9999, the last one of `datetime`."""
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Objects = list[dict[str, Any]] | str | None
"""Also accepted as JSON text, as in the documented database."""


class ImportedMessage(msgspec.Struct):
    """A message with the columns of the store, or in OpenAI's format."""

    role: Annotated[str, msgspec.Meta(min_length=1, max_length=40)]
    content: str | list[Any] | dict[str, Any] | None = None
    id: Count | None = None
    timestamp: Seconds | None = None
    token_count: Count | None = None
    finish_reason: str | None = None
    tool_calls: Objects = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    name: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: Objects = None
    codex_reasoning_items: Objects = None


class ImportedCall(msgspec.Struct):
    timestamp: Seconds
    task: str
    provider: str
    model: str
    tool: str
    input_tokens: Count
    output_tokens: Count
    cache_read_tokens: Count
    cache_write_tokens: Count
    reasoning_tokens: Count
    seconds: float
    cost_usd: float | None = None


class ImportedProjection(msgspec.Struct):
    """The messages that make up the conversation."""

    after_id: Count
    basis: list[tuple[str, Count, Count | None] | dict[str, Any]]


class ImportedSession(msgspec.Struct):
    messages: list[ImportedMessage]
    id: Name | None = None
    source: Name | None = None
    user_id: str | None = None
    model: str | None = None
    model_config: str | dict[str, Any] | None = None
    system_prompt: str | None = None
    parent_session_id: str | None = None
    started_at: Seconds | None = None
    ended_at: Seconds | None = None
    end_reason: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    billing_provider: str | None = None
    billing_base_url: str | None = None
    billing_mode: str | None = None
    estimated_cost_usd: float | None = None
    actual_cost_usd: float | None = None
    cost_status: str | None = None
    cost_source: str | None = None
    pricing_version: str | None = None
    title: str | None = None
    archived_at: Seconds | None = None
    model_calls: list[ImportedCall] | None = None
    projection: ImportedProjection | None = None


# Parsing and checking of lines.
#
# A line is a session exported by Hermes, a session of another program with the documented columns,
# or only messages in OpenAI's format (`{"messages": […]}` or a list).

SOURCE = "import"  #: The source of a session without one.


def read_line(line: bytes, now: datetime) -> Record:
    """Parse a line into a session. Raises `UsageError`."""
    try:
        data = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"this is not JSON: {_message_of(error)}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from None
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, dict) or "messages" not in data:
        raise UsageError("this is not a session: there are no messages")
    shape = _check(data)
    record = {name: value for name, value in data.items() if value is not None}
    record["messages"] = [_message(message) for message in data["messages"]]
    record.setdefault("source", SOURCE)
    if shape.title:
        record["title"] = clean_title(shape.title)
    if "id" not in record:
        record["id"] = new_session_id(now)
    if "started_at" not in record:
        times = [each.timestamp for each in shape.messages if each.timestamp]
        record["started_at"] = min(times, default=now.timestamp())
    messages = record["messages"]
    if messages and messages[0]["role"] in ("system", "developer") and "id" not in messages[0]:
        # The store keeps the system prompt in the session.
        prompt = messages[0].get("content")
        record.setdefault("system_prompt", prompt if isinstance(prompt, str) else "")
        record["messages"] = messages[1:]
    return record


def _check(data: Record) -> ImportedSession:
    try:
        shape = msgspec.convert(data, ImportedSession)
    except msgspec.ValidationError as error:
        raise UsageError(_message_of(error)) from None
    if shape.id is not None and shape.id != plain_line(shape.id):
        raise UsageError("id: it has control characters, or spaces where none may be")
    if shape.projection is not None:  # it refers to messages by their ids
        ids = [message.id for message in shape.messages]
        if None in ids or len(set(ids)) != len(ids):
            raise UsageError("messages: with a projection, each must have an id of its own")
        owners = {piece[0] for piece in shape.projection.basis if isinstance(piece, tuple)}
        if owners - {shape.id}:
            raise UsageError("projection: it takes messages from another session")
    return shape


def _message(data: Record) -> Record:
    """Convert a message with the columns of the store."""
    message = {name: value for name, value in data.items() if value is not None}
    for column in JSON_COLUMNS:
        if isinstance(message.get(column), str):
            message[column] = _objects(message[column])
    if "reasoning_content" in message:
        message.setdefault("reasoning", message["reasoning_content"])
    if message["role"] != "user" and isinstance(message.get("content"), list):
        texts = (
            each.get("text") if isinstance(each, dict) else each for each in message["content"]
        )
        message["content"] = "\n".join(text for text in texts if text and isinstance(text, str))
    return message


def _objects(text: str) -> list[Any] | None:
    """Decode a list in JSON text. Invalid text of an old database is ignored."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else None


def _message_of(error: msgspec.DecodeError) -> str:
    """Return msgspec's message with the path first: `messages[2].role: expected str, got int`."""
    what, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    what = what.replace("`", "")
    if not what[:2].isupper():
        what = what[:1].lower() + what[1:]
    return f"{place}: {what}" if place else what


EVERYTHING = 2**31 - 1  #: The largest limit.
SHOWN_PROBLEMS = 5


class SessionPlace(msgspec.Struct, frozen=True):
    """The position of a session in the file, and the facts needed before it is imported."""

    id: str
    parent: str
    line: int
    offset: int


class ImportResult(msgspec.Struct, frozen=True):
    stored: tuple[str, ...]
    skipped: tuple[str, ...]
    retitled: dict[str, str]  #: New titles, by session, where the title was already used.


async def import_file(
    store: SessionStore,
    path: Path,
    now: datetime,
    *,
    skip_existing: bool,
    progress: Progress = ignore_progress,
) -> ImportResult:
    """Import all sessions after checking every line. Raises `UsageError`."""
    try:
        with path.open("rb") as file:
            return await _import(store, file, path, now, skip_existing, progress)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {path}: {reason}") from error


async def _import(
    store: SessionStore,
    file: BinaryIO,
    path: Path,
    now: datetime,
    skip_existing: bool,
    progress: Progress,
) -> ImportResult:
    if not file.seekable():
        raise UsageError(f"cannot read {path}: it must be a file, since it is read twice")
    places = check_lines(file, path, now)
    there = {
        info.id for info in await store.sessions(SessionFilter(archived=None, limit=EVERYTHING))
    }
    taken = [place for place in places if place.id in there]
    if taken and not skip_existing:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise UsageError(
            f"{path}:{taken[0].line}: there is already a session {taken[0].id}{more}",
            hint="--skip-existing leaves those out; nothing was imported",
        )
    wanted = [place for place in _parents_first(places) if place.id not in there]
    retitled: dict[str, str] = {}
    for done, place in enumerate(wanted, start=1):
        file.seek(place.offset)
        record = {**read_line(file.readline(), now), "id": place.id}
        await store.restore(record)
        title = (await store.info(place.id)).title
        if record.get("title") and title != record["title"]:
            retitled[place.id] = title
        progress(done, len(wanted))
    stored = tuple(place.id for place in wanted)
    return ImportResult(stored, tuple(place.id for place in taken), retitled)


def check_lines(file: BinaryIO, path: Path, now: datetime) -> list[SessionPlace]:
    """Find the sessions. Raises `UsageError` that names the invalid lines."""
    places: list[SessionPlace] = []
    problems: list[str] = []
    lines: dict[str, int] = {}
    offset = 0
    for number, line in enumerate(iter(file.readline, b""), start=1):
        start, offset = offset, offset + len(line)
        if not line.strip():
            continue
        try:
            record = read_line(line, now)
            first = lines.setdefault(record["id"], number)
            if first != number:
                raise UsageError(f"session {record['id']} is in line {first} already")
        except UsageError as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        parent = record.get("parent_session_id", "")
        places.append(SessionPlace(record["id"], parent, number, start))
    if problems:
        shown = problems[:SHOWN_PROBLEMS]
        more = [f"and {len(problems) - len(shown)} more lines"] if problems[SHOWN_PROBLEMS:] else []
        hint = "nothing was imported; each line must be one session, as `export` writes them"
        raise UsageError("\n".join([*shown, *more]), hint=hint)
    if not places:
        raise UsageError(f"{path}: there is no session in it", hint="nothing was imported")
    return places


def _parents_first(places: list[SessionPlace]) -> list[SessionPlace]:
    """Sort parents before children. A cycle is left as it is."""
    by_id = {place.id: place for place in places}
    ordered: dict[str, SessionPlace] = {}
    for place in places:
        line: list[SessionPlace] = []
        current: SessionPlace | None = place
        while current is not None and current.id not in ordered and current not in line:
            line.append(current)
            current = by_id.get(current.parent)
        ordered.update({one.id: one for one in reversed(line)})
    return list(ordered.values())
