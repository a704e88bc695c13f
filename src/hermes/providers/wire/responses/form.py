"""Messages and tools as the responses wire writes them: a message becomes a list of items."""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Message,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ToolSpec
from hermes.core.openai_format import canonical_arguments
from hermes.providers.wire.encoding import safe_call_id

Item = dict[str, Any]


class ResponsesForm(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); an empty list stands for nothing to send."""

    developer_role: bool = False

    def __call__(self, message: Message) -> list[Item]:
        match message:
            case System():
                role = "developer" if self.developer_role else "system"
                return _said(role, "input_text", message.text.strip())
            case User():
                return _user(message)
            case Assistant():
                items = [item for part in message.parts for item in _assistant_part(part)]
                # Thinking must be followed by what came of it.
                return items if any(item.get("type") != "reasoning" for item in items) else []
            case ToolResult():
                call_id = safe_call_id(message.call_id)
                output = {"type": "function_call_output", "call_id": call_id}
                return [{**output, "output": message.text}]
            case _:
                assert_never(message)


def tool_form(spec: ToolSpec) -> Item:
    # Without `strict: false` every argument would become a required one.
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", **function, "strict": False}


def _said(role: str, kind: str, text: str) -> list[Item]:
    return [_message(role, [{"type": kind, "text": text}])] if text else []


def _message(role: str, content: Sequence[Item]) -> Item:
    return {"type": "message", "role": role, "content": content}


def _user(message: User) -> list[Item]:
    content = [
        {"type": "input_text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "input_image", "image_url": part.url}
        for part in message.parts
        if not (isinstance(part, Text) and not part.text)
    ]
    return [_message("user", content)] if content else []


def _assistant_part(part: AssistantPart) -> list[Item]:
    match part:
        case Text():
            return _said("assistant", "output_text", part.text.strip())
        case Thinking():
            return [item for item in part.items if _can_return(item)]
        case ToolCall():
            call = {"type": "function_call", "call_id": safe_call_id(part.id), "name": part.name}
            return [{**call, "arguments": canonical_arguments(part.arguments)}]
        case _:
            assert_never(part)


def _can_return(item: Item) -> bool:
    """An item without its content is only a reference to one that the endpoint did not store."""
    return bool(item.get("encrypted_content") or item.get("content"))
