"""Messages to and from OpenAI-format dicts: the form of the store, plugins and trajectories."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec

from hermes.core.errors import UsageError
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
    UserPart,
)


def to_dict(message: Message) -> dict[str, Any]:
    """The dict other programs expect, with nothing lost."""
    match message:
        case System():
            return {"role": "system", "content": message.text}
        case User():
            return {"role": "user", "content": user_content(message.said)}
        case Assistant():
            return _assistant_to_dict(message)
        case ToolResult():
            return {
                "role": "tool",
                "tool_call_id": message.call_id,
                "name": message.name,
                "content": message.text,
            }
        case _:
            assert_never(message)


def from_dict(data: dict[str, Any]) -> Message:
    """A message from an OpenAI-format dict. Raises `UsageError` when it is not one."""
    match data.get("role"):
        case "system" | "developer":
            return System(_text_of(data.get("content")))
        case "user":
            return User(_user_parts(data.get("content")))
        case "assistant":
            return _assistant_from_dict(data)
        case "tool":
            return ToolResult(
                call_id=str(data.get("tool_call_id") or ""),
                name=str(data.get("name") or data.get("tool_name") or ""),
                text=_text_of(data.get("content")),
            )
        case role:
            raise UsageError(f"a message has the unknown role {role!r}")


def user_content(parts: Sequence[UserPart]) -> str | list[dict[str, Any]]:
    """A string when there is only text, else a list of content parts."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) == len(parts):
        return "\n".join(texts)
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": part.url}}
        for part in parts
    ]


def call_to_dict(call: ToolCall) -> dict[str, Any]:
    data: dict[str, Any] = {
        "id": call.id,
        "call_id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.extra is not None:
        data["extra_content"] = call.extra
    return data


def call_from_dict(data: dict[str, Any], position: int = 0) -> ToolCall:
    function = data.get("function") or {}
    name = str(function.get("name") or "")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments or {}).decode()
    return ToolCall(
        id=str(data.get("id") or data.get("call_id") or made_call_id(name, arguments, position)),
        name=name,
        arguments=arguments,
        extra=data.get("extra_content"),
    )


def made_call_id(name: str, arguments: str, position: int) -> str:
    """The id given to a call that came without one; the same call always gets the same id."""
    digest = hashlib.sha256(f"{position}\0{name}\0{arguments}".encode("utf-8", "replace"))
    return f"call_{digest.hexdigest()[:24]}"


def canonical_arguments(arguments: str) -> str:
    """Arguments with sorted keys and compact separators, so that a prefix stays byte-stable.

    Text that is not JSON is returned as it is.
    """
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="sorted").decode()
    except msgspec.DecodeError:
        return arguments


def _assistant_to_dict(message: Assistant) -> dict[str, Any]:
    data: dict[str, Any] = {"role": "assistant", "content": message.text}
    if calls := message.calls:
        data["tool_calls"] = [call_to_dict(call) for call in calls]
    thoughts = [part for part in message.parts if isinstance(part, Thinking)]
    if message.thinking:
        data["reasoning"] = message.thinking
    if details := [detail for thought in thoughts for detail in thought.details]:
        data["reasoning_details"] = details
    if items := [item for thought in thoughts for item in thought.items]:
        data["codex_reasoning_items"] = items
    data["finish_reason"] = message.finish_reason
    return data


def _assistant_from_dict(data: dict[str, Any]) -> Assistant:
    parts: list[AssistantPart] = []
    thinking = Thinking(
        text=data.get("reasoning") or data.get("reasoning_content") or "",
        details=tuple(data.get("reasoning_details") or ()),
        items=tuple(data.get("codex_reasoning_items") or ()),
    )
    if thinking != Thinking():
        parts.append(thinking)
    if text := _text_of(data.get("content")):
        parts.append(Text(text))
    calls: Iterable[dict[str, Any]] = data.get("tool_calls") or ()
    parts.extend(call_from_dict(call, position) for position, call in enumerate(calls))
    default = "tool_calls" if data.get("tool_calls") else "stop"
    return Assistant(tuple(parts), finish_reason=data.get("finish_reason") or default)


def _user_parts(content: Any) -> tuple[UserPart, ...]:
    if not isinstance(content, list):
        return (Text(_text_of(content)),)
    parts: list[UserPart] = []
    for block in content:
        if isinstance(block, dict) and block.get("type") in ("image_url", "input_image"):
            image = block.get("image_url")
            parts.append(Image(str(image.get("url", "") if isinstance(image, dict) else image)))
        else:
            parts.append(Text(_text_of([block])))
    return tuple(parts)


def _text_of(content: Any) -> str:
    """The text in string, null or content-part form."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [block if isinstance(block, str) else block.get("text", "") for block in content]
        return "\n".join(text for text in texts if text)
    return msgspec.json.encode(content).decode()
