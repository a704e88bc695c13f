"""Messages and tools as the Anthropic wire writes them.

A message becomes a list of content blocks: neighbours of one role are put together later, since
all results of one reply must stand in one message.
"""

import re
from typing import Any, assert_never

import msgspec

from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ToolSpec
from hermes.providers.wire.encoding import safe_call_id
from hermes.providers.wire.marks import cache_control

Block = dict[str, Any]

THOUGHTS = ("thinking", "redacted_thinking")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class AnthropicForm(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); an empty list stands for nothing to send."""

    mark: str = ""
    """How long the prefix up to this message is to be kept; empty without a mark."""

    def __call__(self, message: Message) -> list[Block]:
        blocks = _blocks(message)
        if self.mark:
            last = max(at for at, block in enumerate(blocks) if block["type"] not in THOUGHTS)
            blocks[last] = {**blocks[last], "cache_control": cache_control(self.mark)}
        return blocks


def tool_form(spec: ToolSpec) -> Block:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def signed(message: Assistant) -> bool:
    """Whether the thinking of this wire is still with the message."""
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    return any(detail.get("type") in THOUGHTS for part in thoughts for detail in part.details)


def _blocks(message: Message) -> list[Block]:
    match message:
        case System():
            return _text(message.text.strip())
        case User():
            return [block for part in message.parts for block in _user_part(part)]
        case Assistant():
            blocks = [block for part in message.parts for block in _assistant_part(part)]
            # Thinking alone is no message.
            return blocks if any(block["type"] not in THOUGHTS for block in blocks) else []
        case ToolResult():
            return [_result(message)]
        case _:
            assert_never(message)


def _text(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _user_part(part: Text | Image) -> list[Block]:
    if isinstance(part, Text):
        return _text(part.text)
    return [{"type": "image", "source": _source(part.url)}]


def _source(url: str) -> dict[str, str]:
    kind, comma, data = url.partition(",")
    if not (comma and kind.startswith("data:")):
        return {"type": "url", "url": url}
    media_type = kind.removeprefix("data:").partition(";")[0]
    return {"type": "base64", "media_type": media_type or "image/png", "data": data}


def _assistant_part(part: AssistantPart) -> list[Block]:
    match part:
        case Text():
            return _text(part.text.strip())
        case Thinking():
            return [detail for detail in part.details if detail.get("type") in THOUGHTS]
        case ToolCall():
            name = _NOT_IN_A_NAME.sub("_", part.name)[:128] or "_"
            use = {"type": "tool_use", "id": safe_call_id(part.id), "name": name}
            return [{**use, "input": _input(part.arguments)}]
        case _:
            assert_never(part)


def _input(arguments: str) -> msgspec.Raw:
    """The arguments as an object with sorted keys, which is what the API insists on."""
    try:
        value = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        value = arguments
    if not isinstance(value, dict):
        value = {"arguments": value}
    return msgspec.Raw(msgspec.json.encode(value, order="sorted"))


def _result(message: ToolResult) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": safe_call_id(message.call_id)}
    if message.text.strip():
        block["content"] = message.text
    if message.failed:
        block["is_error"] = True
    return block
