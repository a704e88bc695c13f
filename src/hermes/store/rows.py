"""Messages and structs to and from rows of tables.

In `messages`, `content` holds the text. A user message with an image holds its content parts as a
JSON array instead. Reading decides by the form alone: `content` of a user that is a JSON array of
content parts is read as parts. A user's text that happens to have this form is stored as an array
with one text part, so every message is read as it was written.

`finish_reason` of a tool's row is `error` when the tool failed, else NULL.

NUL and lone surrogates are dropped when writing. Of a row that cannot be read completely (an
unknown role, invalid JSON) only the invalid part is dropped.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Generic, TypeVar

import msgspec

from hermes.core.errors import UsageError
from hermes.core.messages import (
    INTERRUPTED_RESULT,
    Assistant,
    Message,
    Text,
    ToolCall,
    ToolResult,
    User,
    from_dict,
    to_dict,
)
from hermes.util.text import clean

COLUMNS = (
    "role", "content", "tool_call_id", "tool_calls", "tool_name", "finish_reason", "reasoning",
    "reasoning_details", "codex_reasoning_items",
)  # fmt: skip
JSON_COLUMNS = ("tool_calls", "reasoning_details", "codex_reasoning_items")
Row = Sequence[Any]  #: Values of `COLUMNS`, in order.

_FAILED = "error"
_NUL = rb"\u0000"
_NO_REASONING = (None, None, None)
_PART_TYPES = frozenset({"text", "image_url", "input_image"})

log = logging.getLogger(__name__)


def to_row(message: Message) -> tuple[str | None, ...]:
    match message:
        case ToolResult(call_id, name, text, failed):
            outcome = _FAILED if failed else None
            return ("tool", clean(text), clean(call_id), None, clean(name), outcome, *_NO_REASONING)
        case User((Text(text),)):
            content = _content_to_text(text, is_user=True)
            return ("user", content, None, None, None, None, *_NO_REASONING)
        case _:
            return row_of(to_dict(message))


def row_of(data: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return the row of a dict with the keys `COLUMNS`; a missing key is NULL."""
    return (
        clean(str(data["role"])),
        _content_to_text(data.get("content"), is_user=data["role"] == "user"),
        *(_to_column(column, data.get(column)) for column in COLUMNS[2:]),
    )


def from_row(row: Row) -> Message | None:
    """Return the message of a row, or None for a row that is not a message.

    A long conversation is loaded before the first answer, so the forms that this program writes
    itself are read without a dict in between.
    """
    role, content, call_id, calls, name, finish_reason, reasoning, details, items = row
    if role == "tool":
        if call_id and name and content is not None:
            return ToolResult(call_id, name, content, finish_reason == _FAILED)
    elif role == "user":
        if content and content[0] != "[":
            return User((Text(content),))
    elif role == "assistant" and not (reasoning or details or items):
        texts = (Text(content),) if content else ()
        if not calls:
            return Assistant(texts, finish_reason or "stop")
        if made := _tool_calls(calls):
            return Assistant((*texts, *made), finish_reason or "tool_calls")
    return _from_columns(row)


def columns_of(row: Row) -> dict[str, Any]:
    """Return the row as a dict, with decoded JSON and a user's content parts as a list."""
    data = dict(zip(COLUMNS, row, strict=True))
    for column in JSON_COLUMNS:
        data[column] = _objects(data[column])
    if data["role"] == "user":
        parts = _parts(data["content"] or "")
        data["content"] = (data["content"] or "") if parts is None else parts
    return data


def user_text(content: str | None) -> str:
    """Return the text of a user message from its stored `content`."""
    if not content or content[0] != "[":
        return content or ""
    message = from_row(("user", content, *[None] * (len(COLUMNS) - 2)))
    return message.text if isinstance(message, User) else ""


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function
    extra_content: dict[str, Any] | None = None


_calls = msgspec.json.Decoder(list[_Call])


def _tool_calls(text: str) -> list[ToolCall]:
    """Return the calls, or none if the text is not as this program writes it."""
    try:
        return [
            ToolCall(call.id, call.function.name, call.function.arguments, call.extra_content)
            for call in _calls.decode(text)
        ]
    except msgspec.DecodeError:
        return []


def _from_columns(row: Row) -> Message | None:
    data = columns_of(row)
    data["tool_calls"] = [c for c in data["tool_calls"] if isinstance(c.get("function"), dict)]
    try:
        message = from_dict(data)
    except UsageError as error:
        log.warning("skipped a stored message: %s", error)
        return None
    if isinstance(message, ToolResult) and data["finish_reason"] == _FAILED:
        return msgspec.structs.replace(message, failed=True)
    return message


def _to_column(column: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return clean(value)
    return _json(value) if column in JSON_COLUMNS else clean(str(value))


def _content_to_text(content: Any, *, is_user: bool) -> str | None:
    if content is None:
        return None
    if not isinstance(content, str):
        return _json(content)
    text = clean(content)
    if is_user and _parts(text) is not None:
        return _json([{"type": "text", "text": text}])
    return text


def _parts(text: str) -> list[Any] | None:
    """Return the content parts in `text`, or None for ordinary text."""
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


def _json(value: Any) -> str:
    """Encode `value`. Cleaning visits every text in it, so it is done only where needed."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = _NUL
    if _NUL in encoded:
        encoded = msgspec.json.encode(_clean_all(value))
    return encoded.decode()


def _clean_all(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {_clean_all(key): _clean_all(item) for key, item in value.items()}
        case list() | tuple():
            return [_clean_all(item) for item in value]
        case _:
            return value


def _objects(text: str | None) -> list[dict[str, Any]]:
    """Return the JSON objects in a stored array, without anything that cannot be read."""
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        log.warning("skipped invalid JSON of a stored message: %s", error)
        return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# Repair of a logged history before it is sent. The log itself is not changed.


def repair_history(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return `messages` as a provider accepts them. A valid history is returned unchanged.

    - The results of a reply's calls follow it directly, one for each call, in the order of the
      calls (they are logged in the order they finished). A result logged later, before the next
      reply, is moved there; a missing one is added as `INTERRUPTED_RESULT`.
    - A result without a call, and a second result of one call, are dropped.
    - An empty reply is dropped.
    """
    repaired: list[Message] = []
    calls: tuple[ToolCall, ...] = ()
    results: list[ToolResult] = []
    others: list[Message] = []
    for message in messages:
        if isinstance(message, ToolResult):
            results.append(message)
        elif not isinstance(message, Assistant):
            others.append(message)
        elif not _is_empty(message):
            if calls or results:
                repaired += _results_of(calls, results)
            repaired += others
            repaired.append(message)
            calls, results, others = message.calls, [], []
    return (*repaired, *_results_of(calls, results), *others)


def _results_of(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Sequence[ToolResult]:
    """Return one result for each call, in the order of the calls."""
    if len(calls) == len(results) == 1 and calls[0].id == results[0].call_id:
        return results
    asked = [call.id for call in calls]
    if [result.call_id for result in results] == asked and len(set(asked)) == len(asked):
        return results
    first: dict[str, ToolResult] = {}
    for result in results:
        first.setdefault(result.call_id, result)
    return [
        first.get(call_id) or ToolResult(call_id, name, INTERRUPTED_RESULT, failed=True)
        for call_id, name in {call.id: call.name for call in calls}.items()
    ]


def _is_empty(reply: Assistant) -> bool:
    for part in reply.parts:
        if isinstance(part, Text):
            if part.text:
                return False
        elif isinstance(part, ToolCall) or part.details or part.items:
            return False
    return True


# Structs to and from tables that have a column of the same name for each field.

S = TypeVar("S", bound=msgspec.Struct)


class StructColumns(Generic[S]):
    """The columns of a struct. Fields of type bytes are stored as text."""

    def __init__(self, struct: type[S]) -> None:
        fields = msgspec.structs.fields(struct)
        self.names = ", ".join(field.name for field in fields)
        self.placeholders = placeholders(fields)
        self._struct = struct
        self._bytes = [at for at, field in enumerate(fields) if field.type is bytes]

    def read(self, row: Row) -> S:
        values = list(row)
        for at in self._bytes:
            values[at] = values[at].encode()
        return self._struct(*values)

    def read_all(self, rows: Sequence[Row]) -> tuple[S, ...]:
        return tuple([self.read(row) for row in rows])

    def first(self, rows: Sequence[Row]) -> S | None:
        return self.read(rows[0]) if rows else None


def to_columns(*values: Any) -> list[Any]:
    """Return values as a table stores them: bytes as text, and text without the characters that
    databases refuse."""
    return [
        clean(text) if isinstance(text, str) else text
        for value in values
        for text in [value.decode("utf-8", "replace") if isinstance(value, bytes) else value]
    ]


def placeholders(values: Sized) -> str:
    return ", ".join("?" * len(values))
