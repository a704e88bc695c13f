"""Messages and tools as the chat-completions wire writes them."""

import hashlib
import re
from typing import Any, assert_never

import msgspec

from hermes.core.messages import Assistant, Message, System, Thinking, ToolCall, ToolResult, User
from hermes.core.model import ToolSpec
from hermes.core.openai_format import canonical_arguments, user_content
from hermes.providers.wire.marks import cache_control, has_content

_FOREIGN = ("thinking", "redacted_thinking")
"""Blocks of the Anthropic wire, which mean nothing here."""
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


class ChatForm(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); two with equal fields share a cache entry."""

    developer_role: bool = False
    thinking_field: str = ""
    strict: bool = False
    """Nothing that only some endpoints know."""
    nine_letter_ids: bool = False
    mark: str = ""
    """How long the prefix up to this message is to be kept; empty without a mark."""

    def __call__(self, message: Message) -> dict[str, Any]:
        data = self._plain(message)
        if self.mark:
            data["content"] = self._marked(data["content"])
        return data

    def _plain(self, message: Message) -> dict[str, Any]:
        match message:
            case System():
                role = "developer" if self.developer_role else "system"
                return {"role": role, "content": message.text.strip()}
            case User():
                return {"role": "user", "content": user_content(message.parts)}
            case Assistant():
                return self._assistant(message)
            case ToolResult():
                call_id = self._id(message.call_id)
                return {"role": "tool", "tool_call_id": call_id, "content": message.text}
            case _:
                assert_never(message)

    def _assistant(self, message: Assistant) -> dict[str, Any]:
        # A missing `content` is refused by some endpoints; null is what the API documents.
        data: dict[str, Any] = {"role": "assistant", "content": message.text.strip() or None}
        if calls := message.calls:
            data["tool_calls"] = [self._call(call) for call in calls]
        elif data["content"] is None:
            data["content"] = ""
        if self.thinking_field and message.thinking:
            data[self.thinking_field] = message.thinking
        if not self.strict and (details := _details(message)):
            data["reasoning_details"] = details
        return data

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": canonical_arguments(call.arguments)}
        data: dict[str, Any] = {"id": self._id(call.id), "type": "function", "function": function}
        if call.extra is not None and not self.strict:
            data["extra_content"] = call.extra
        return data

    def _id(self, call_id: str) -> str:
        """The same for a call and its result; one that fits is left as it is."""
        if not self.nine_letter_ids or _NINE.fullmatch(call_id):
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:9]

    def _marked(self, content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        last = max(at for at, block in enumerate(blocks) if block.get("text", "image").strip())
        marked = {**blocks[last], "cache_control": cache_control(self.mark)}
        return [*blocks[:last], marked, *blocks[last + 1 :]]


def can_carry(message: Message) -> bool:
    """Whether a mark fits: it sits on the content, and content must not be empty."""
    return has_content(message) if isinstance(message, User) else bool(message.text.strip())


def tool_form(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _details(message: Assistant) -> list[dict[str, Any]]:
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    details = [detail for thought in thoughts for detail in thought.details]
    return [detail for detail in details if detail.get("type") not in _FOREIGN]
