"""Messages without characters that some endpoints refuse.

Replaced by U+FFFD: halves of surrogate pairs (two halves that belong together become their
character), control characters other than tab and line ends, and the code points that Unicode
reserves as no characters. What has none of them is given back as the same object.
"""

import json
import re
from typing import Any, TypeVar, assert_never

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

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_PLANE_ENDS = "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_REFUSED = re.compile(f"[{_CONTROLS}\ufdd0-\ufdef{_PLANE_ENDS}]")
_SURROGATE = re.compile("[\ud800-\udfff]")

Part = TypeVar("Part", bound=Text | Image | Thinking | ToolCall)


def clean_text(text: str) -> str:
    if _SURROGATE.search(text):
        units = text.encode("utf-16-le", "surrogatepass")
        text = units.decode("utf-16-le", "replace")
    return _REFUSED.sub(REPLACEMENT, text)


def clean_json(value: Any) -> Any:
    """Decoded JSON with clean strings and keys."""
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(key): clean_json(held) for key, held in value.items()}
        case list() | tuple():
            return type(value)(clean_json(held) for held in value)
        case _:
            return value


def clean_arguments(arguments: str) -> str:
    """JSON text in which escapes such as `\\ud800` count too; left as text when it is no JSON."""
    arguments = clean_text(arguments)
    if "\\u" not in arguments:
        return arguments
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    cleaned = clean_json(value)
    return arguments if cleaned == value else json.dumps(cleaned, ensure_ascii=False)


def clean_message(message: Message) -> Message:
    match message:
        case System() | ToolResult():
            cleaned: Message = msgspec.structs.replace(message, text=clean_text(message.text))
        case User():
            cleaned = User(tuple([_clean_part(part) for part in message.parts]))
        case Assistant():
            parts: tuple[AssistantPart, ...] = tuple([_clean_part(part) for part in message.parts])
            cleaned = Assistant(parts, message.finish_reason)
        case _:
            assert_never(message)
    return message if cleaned == message else cleaned


def clean_tool(tool: ToolSpec) -> ToolSpec:
    cleaned = ToolSpec(tool.name, clean_text(tool.description), clean_json(tool.parameters))
    return tool if cleaned == tool else cleaned


def _clean_part(part: Part) -> Part:
    replace = msgspec.structs.replace
    match part:
        case Text():
            return replace(part, text=clean_text(part.text))
        case Thinking():
            return replace(
                part,
                text=clean_text(part.text),
                details=clean_json(part.details),
                items=clean_json(part.items),
            )
        case ToolCall():
            return replace(
                part, arguments=clean_arguments(part.arguments), extra=clean_json(part.extra)
            )
        case _:
            return part
