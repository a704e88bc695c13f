"""JSON-RPC 2.0 as it stands on the wire."""

import json
import math
from typing import Any

import msgspec

from hermes.mcp.lines import one_line
from hermes.util.text import clean

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions of the protocol that are spoken, the best first."""


class Message(msgspec.Struct, frozen=True):
    """Whatever the other side may send."""

    id: int | str | None = None
    method: str = ""
    params: Any = None
    result: Any = msgspec.UNSET
    error: Any = None

    @property
    def is_answer(self) -> bool:
        return not self.method and self.id is not None


def decode(data: bytes | str) -> list[Message]:
    """The messages of a line or an event. What is none, since programs print what they should not,
    counts as a message that says nothing."""
    if not data.strip():
        return []
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _repaired(data)
    return found if isinstance(found, list) else [found]


def _repaired(data: bytes | str) -> Message | list[Message]:
    """Programs write what is no JSON: halves of letters, NaN, another encoding, `null` for what is
    not there. An answer is read all the same, since somebody waits for it."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        value = _storable(json.loads(text))
        if isinstance(value, dict):
            value = {key: held for key, held in value.items() if held is not None}
        return msgspec.convert(value, Message | list[Message], strict=False)
    except (ValueError, msgspec.ValidationError, RecursionError):
        return Message(result=one_line(text, 200))


def _storable(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case float() if not math.isfinite(value):
            return None
        case list():
            return [_storable(each) for each in value]
        case dict():
            return {clean(key): _storable(each) for key, each in value.items()}
        case _:
            return value


def request(number: int, method: str, params: dict[str, Any]) -> bytes:
    return _encode({"id": number, "method": method, "params": params})


def notification(method: str, params: dict[str, Any] | None = None) -> bytes:
    return _encode({"method": method} if params is None else {"method": method, "params": params})


def answer(number: int | str, result: Any) -> bytes:
    return _encode({"id": number, "result": result})


def refusal(number: int | str, code: int, text: str) -> bytes:
    return _encode({"id": number, "error": {"code": code, "message": text}})


def _encode(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **fields})


_decoder: msgspec.json.Decoder[Message | list[Message]] = msgspec.json.Decoder(
    Message | list[Message]
)
