"""Messages as the chat-completions wire writes them."""

from typing import Any, assert_never

import msgspec

from hermes.core.messages import Assistant, Message, System, Thinking, ToolCall, ToolResult, User
from hermes.core.openai_format import canonical_arguments, user_content


class ChatForm(msgspec.Struct, frozen=True):
    """A wire form (see `core.messages.WireForm`); two with equal fields share a cache entry."""

    developer_role: bool = False
    thinking_field: str = ""

    def __call__(self, message: Message) -> dict[str, Any]:
        match message:
            case System():
                role = "developer" if self.developer_role else "system"
                return {"role": role, "content": message.text.strip()}
            case User():
                return {"role": "user", "content": user_content(message)}
            case Assistant():
                return self._assistant(message)
            case ToolResult():
                return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
            case _:
                assert_never(message)

    def _assistant(self, message: Assistant) -> dict[str, Any]:
        data: dict[str, Any] = {"role": "assistant", "content": message.text.strip() or None}
        if calls := message.calls:
            data["tool_calls"] = [_call(call) for call in calls]
        elif data["content"] is None:
            data["content"] = ""
        if self.thinking_field and message.thinking:
            data[self.thinking_field] = message.thinking
        thoughts = [part for part in message.parts if isinstance(part, Thinking)]
        if details := [detail for thought in thoughts for detail in thought.details]:
            data["reasoning_details"] = details
        return data


def _call(call: ToolCall) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": canonical_arguments(call.arguments)},
    }
    if call.extra is not None:
        data["extra_content"] = call.extra
    return data
