"""The conversation a server wants to have with the model, as ours and back."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from hermes.core.messages import (
    Assistant,
    AssistantPart,
    Image,
    Message,
    System,
    Text,
    ToolCall,
    ToolResult,
    User,
    UserPart,
)
from hermes.mcp.failures import INVALID_PARAMS, Refused
from hermes.util.text import clean

MOST_CHARS = 400_000
"""Of all that is sent to the model for one request."""


class Block(msgspec.Struct, frozen=True, rename="camel"):
    """A piece of a message; which fields count is up to its type."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: tuple["Block", ...] = ()
    is_error: bool = False


class Said(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: Block | tuple[Block, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.content if isinstance(self.content, tuple) else (self.content,)


def conversation(said: Sequence[Said], system: str) -> tuple[Message, ...]:
    """Raises `Refused` for what no model can be given."""
    if not said:
        raise Refused("there is no message", INVALID_PARAMS)
    size = len(msgspec.json.encode(said)) + len(system)
    if size > MOST_CHARS:
        raise Refused(
            f"the messages have {size} characters; {MOST_CHARS} are allowed", INVALID_PARAMS
        )
    found: list[Message] = [System(clean(system))] if system else []
    names = {block.id: block.name for each in said for block in each.blocks if block.id}
    for each in said:
        found += _assistant(each) if each.role == "assistant" else _user(each, names)
    return tuple(found)


def tool_rounds(said: Sequence[Said]) -> int:
    """How often the model has used tools since the last thing that was said to it."""
    rounds = 0
    for each in reversed(said):
        kinds = {block.type for block in each.blocks}
        if each.role == "assistant":
            rounds += "tool_use" in kinds
        elif "tool_result" not in kinds:
            break
    return rounds


def reply_content(message: Assistant) -> Any:
    """One block, or a list where there are several."""
    blocks: list[dict[str, Any]] = []
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
        for call in message.calls
    ]
    if not blocks:
        return {"type": "text", "text": ""}
    return blocks if message.calls else blocks[0]


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _assistant(said: Said) -> list[Message]:
    parts: list[AssistantPart] = []
    for block in said.blocks:
        if block.type == "tool_use":
            arguments = msgspec.json.encode(block.input).decode()
            parts.append(ToolCall(block.id, block.name, arguments))
        else:
            parts.append(Text(_text(block)))
    calls = any(isinstance(part, ToolCall) for part in parts)
    return [Assistant(tuple(parts), "tool_calls" if calls else "stop")]


def _user(said: Said, names: dict[str, str]) -> list[Message]:
    results: list[Message] = []
    parts: list[UserPart] = []
    for block in said.blocks:
        if block.type == "tool_result":
            text = "\n".join(_text(each) for each in block.content)
            name = names.get(block.tool_use_id, "")
            results.append(ToolResult(block.tool_use_id, name, text, block.is_error))
        elif block.type == "image" and block.data:
            parts.append(Image(f"data:{block.mime_type or 'image/png'};base64,{block.data}"))
        else:
            parts.append(Text(_text(block)))
    return [*results, User(tuple(parts))] if parts else results


def _text(block: Block) -> str:
    return clean(block.text) if block.type == "text" else f"[{block.type} left out]"
