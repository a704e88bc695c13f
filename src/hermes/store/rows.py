"""Messages to and from rows of the `messages` table.

`content` holds the text. A user message with an image holds its content parts as a JSON array
instead. Reading decides by form alone: `content` of a user that is a JSON array of content parts
is parts. A user's text that happens to have this form is stored as an array with one text part,
so every message comes back as it was.

`finish_reason` of a tool's row is `error` when the tool failed, else NULL.

NUL and lone surrogates are dropped on the way in. A row this code cannot make sense of (an unknown
role, JSON that is broken) loses only the broken part on the way out.
"""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.core.errors import UsageError
from hermes.core.messages import Message, ToolResult, User
from hermes.core.openai_format import from_dict, to_dict
from hermes.util.text import clean

COLUMNS = (
    "role",
    "content",
    "tool_call_id",
    "tool_calls",
    "tool_name",
    "finish_reason",
    "reasoning",
    "reasoning_details",
    "codex_reasoning_items",
)
Row = Sequence[Any]
"""Values of `COLUMNS`, in order."""

_FAILED = "error"
_PART_TYPES = frozenset({"text", "image_url", "input_image"})

log = logging.getLogger(__name__)


def to_row(message: Message) -> tuple[str | None, ...]:
    data = to_dict(message)
    finish_reason = data.get("finish_reason")
    if isinstance(message, ToolResult):
        finish_reason = _FAILED if message.failed else None
    return (
        data["role"],
        _content_to_text(data["content"], is_user=isinstance(message, User)),
        _text(data.get("tool_call_id")),
        _json(data.get("tool_calls")),
        _text(data.get("name")),
        _text(finish_reason),
        _text(data.get("reasoning")),
        _json(data.get("reasoning_details")),
        _json(data.get("codex_reasoning_items")),
    )


def from_row(row: Row) -> Message | None:
    """The message of a row; None for a row that is not a message."""
    data = dict(zip(COLUMNS, row, strict=True))
    for column in ("tool_calls", "reasoning_details", "codex_reasoning_items"):
        data[column] = _objects(data[column])
    data["tool_calls"] = [c for c in data["tool_calls"] if isinstance(c.get("function"), dict)]
    if data["role"] == "user":
        data["content"] = _content_from_text(data["content"])
    try:
        message = from_dict(data)
    except UsageError as error:
        log.warning("left out a stored message: %s", error)
        return None
    if isinstance(message, ToolResult) and data["finish_reason"] == _FAILED:
        return msgspec.structs.replace(message, failed=True)
    return message


def user_text(content: str | None) -> str:
    """What a user wrote, from a stored `content`."""
    message = from_row(("user", content, *[None] * (len(COLUMNS) - 2)))
    return message.text if isinstance(message, User) else ""


def _content_to_text(content: Any, *, is_user: bool) -> str | None:
    if not isinstance(content, str):
        return _json(content)
    text = clean(content)
    if is_user and _parts(text) is not None:
        return _json([{"type": "text", "text": text}])
    return text


def _content_from_text(content: str | None) -> str | list[Any]:
    parts = _parts(content or "")
    return (content or "") if parts is None else parts


def _parts(text: str) -> list[Any] | None:
    """The content parts in `text`, or None when it is ordinary text."""
    if not text.startswith("["):
        return None
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    if not isinstance(value, list) or not value:
        return None
    is_parts = all(isinstance(part, dict) and part.get("type") in _PART_TYPES for part in value)
    return value if is_parts else None


def _text(value: str | None) -> str | None:
    return None if value is None else clean(value)


def _json(value: Any) -> str | None:
    if value is None:
        return None
    return msgspec.json.encode(_cleaned(value)).decode()


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {_cleaned(key): _cleaned(item) for key, item in value.items()}
        case list() | tuple():
            return [_cleaned(item) for item in value]
        case _:
            return value


def _objects(text: str | None) -> list[dict[str, Any]]:
    """The JSON objects in a stored array; what cannot be read is left out."""
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        log.warning("left out unreadable JSON of a stored message: %s", error)
        return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
