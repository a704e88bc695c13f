"""A tool call, taken apart for those who tell about it."""

from typing import Any

import msgspec

from hermes.core.messages import ToolCall


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: dict[str, Any] = {}
    unread: str = ""
    """What the model wrote, where that is no JSON object."""

    def text(self, key: str) -> str:
        """An argument as text; "" when there is none."""
        return as_text(self.arguments.get(key))


def call_of(call: ToolCall) -> Call:
    """A tool that is run by `tool_search` is shown as itself."""
    arguments = decoded(call.arguments or "{}")
    if not isinstance(arguments, dict):
        return Call(call.name, unread=call.arguments)
    name, inner = arguments.get("name"), arguments.get("arguments")
    if call.name == "tool_search" and isinstance(name, str) and name:
        return Call(name, inner if isinstance(inner, dict) else {})
    return Call(call.name, arguments)


def as_text(value: Any) -> str:
    """Any value of a JSON text; "" for none."""
    if isinstance(value, str) or value is None:
        return value or ""
    try:
        return msgspec.json.encode(value).decode()
    except (RecursionError, OverflowError):
        return "…"  # nested too deeply, or a number that no tool takes


def decoded(text: str) -> Any:
    """The value of a JSON text; None when it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
