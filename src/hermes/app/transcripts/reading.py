"""Lines of JSON Lines read back and checked.

A line is a session: exported by this program, exported by another one with the documented columns,
or nothing but messages in OpenAI's format (`{"messages": […]}` or a bare list).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from hermes.app.transcripts import record_shape
from hermes.core.errors import UsageError
from hermes.store.queries.sessions import clean_title
from hermes.store.records import Record
from hermes.store.rows import JSON_COLUMNS
from hermes.util.plain import plain_line
from hermes.util.session_ids import new_session_id

SOURCE = "import"
"""The source of a session that came without one."""


def read_line(line: bytes, now: datetime) -> Record:
    """The session of a line, ready to be stored. Raises `UsageError` for what is wrong."""
    try:
        data = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        raise UsageError(f"this is not JSON: {_worded(error)}") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from None
    if isinstance(data, list):
        data = {"messages": data}
    if not isinstance(data, dict) or "messages" not in data:
        raise UsageError("this is not a session: there are no messages")
    shape = _checked(data)
    record = {name: value for name, value in data.items() if value is not None}
    record["messages"] = [_message(message) for message in data["messages"]]
    record.setdefault("source", SOURCE)
    if shape.title:
        record["title"] = clean_title(shape.title)
    if "id" not in record:
        record["id"] = new_session_id(now)
    if "started_at" not in record:
        times = [said.timestamp for said in shape.messages if said.timestamp]
        record["started_at"] = min(times, default=now.timestamp())
    return _with_prompt(record)


def _checked(data: Record) -> record_shape.Session:
    try:
        shape = msgspec.convert(data, record_shape.Session)
    except msgspec.ValidationError as error:
        raise UsageError(_worded(error)) from None
    if shape.id is not None and shape.id != plain_line(shape.id):
        raise UsageError("id: it has control characters, or spaces where none may be")
    if shape.projection is not None:
        _check_numbers(shape.messages)
        owners = {piece[0] for piece in shape.projection.basis if isinstance(piece, tuple)}
        if owners - {shape.id}:
            raise UsageError("projection: it takes messages from another session")
    return shape


def _check_numbers(messages: Sequence[record_shape.Said]) -> None:
    """A projection names messages by their ids."""
    ids = [said.id for said in messages]
    if None in ids or len(set(ids)) != len(ids):
        raise UsageError("messages: with a projection, each must have an id of its own")


def _message(data: Record) -> Record:
    """A message by the columns of the store."""
    message = {name: value for name, value in data.items() if value is not None}
    for column in JSON_COLUMNS:
        if isinstance(message.get(column), str):
            message[column] = _objects(message[column])
    if "reasoning_content" in message:
        message.setdefault("reasoning", message["reasoning_content"])
    if message["role"] != "user" and isinstance(message.get("content"), list):
        message["content"] = _text(message["content"])
    return message


def _objects(text: str) -> list[Any] | None:
    """The list in JSON text. An old database may hold broken text: that part is left out."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else None


def _text(parts: list[Any]) -> str:
    texts = (part if isinstance(part, str) else _part_text(part) for part in parts)
    return "\n".join(text for text in texts if text)


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def _with_prompt(record: Record) -> Record:
    """The store keeps the system prompt with the session, not among what was said."""
    messages = record["messages"]
    if messages and messages[0]["role"] in ("system", "developer") and "id" not in messages[0]:
        prompt = messages[0].get("content")
        record.setdefault("system_prompt", prompt if isinstance(prompt, str) else "")
        record["messages"] = messages[1:]
    return record


def _worded(error: msgspec.DecodeError) -> str:
    """msgspec's words, with the place first: `messages[2].role: expected str, got int`."""
    what, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    what = what.replace("`", "")
    if not what[:2].isupper():
        what = what[:1].lower() + what[1:]
    return f"{place}: {what}" if place else what
