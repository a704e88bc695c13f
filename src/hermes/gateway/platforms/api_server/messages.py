"""Messages as clients send them, and their conversion. Unknown fields are ignored."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable
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
from hermes.gateway.platforms.api_server.errors import ApiError, bad_request
from hermes.store.rows import repair_history

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class ImageUrl(msgspec.Struct, frozen=True):
    url: str


class ContentPart(msgspec.Struct, frozen=True):
    """A part of a message."""

    type: str  #: `text` or `image_url`; in responses `input_text`, `output_text` or `input_image`.
    text: str | None = None
    image_url: ImageUrl | str | None = None
    refusal: str | None = None


class CalledFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: str = "{}"


class ChatToolCall(msgspec.Struct, frozen=True):
    id: str
    function: CalledFunction | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    role: Role
    content: str | list[ContentPart] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


TEXTS = frozenset({"text", "input_text", "output_text"})
IMAGES = frozenset({"image_url", "input_image"})
UNSUPPORTED = "unsupported_content_type"
CONTINUE = "Go on."
"""The message for clients whose conversation ends with an answer or a tool result."""
_DATA = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.ASCII | re.IGNORECASE)


class ClientConversation(msgspec.Struct, frozen=True):
    instructions: str  #: The text of its system messages.
    history: tuple[Message, ...]
    message: User  #: The message to answer.


def split_conversation(messages: Iterable[Message], param: str = "messages") -> ClientConversation:
    """Split messages into instructions, history and the message to answer.

    Clients ask for a summary with a system message at the end, and for more text by ending with the
    answer itself. Raises `ApiError` if there is nothing to answer.
    """
    given = list(messages)
    if given and isinstance(given[-1], System):
        given[-1] = User.say(given[-1].text)
    instructions = join_texts(*[each.text for each in given if isinstance(each, System)])
    turns = [each for each in given if not isinstance(each, System)]
    last = turns.pop() if turns and isinstance(turns[-1], User) else None
    # Many clients keep an answer that was stopped before its first word as an empty message.
    filled = (each for each in turns if not (isinstance(each, User) and _is_empty(each)))
    history = repair_history(filled)
    if last is None and history:
        last = User.say(CONTINUE)
    if not isinstance(last, User) or _is_empty(last):
        raise bad_request("there is no message, or the last one is empty", param=param)
    return ClientConversation(instructions, history, last)


def _is_empty(message: User) -> bool:
    return not message.text.strip() and not any(isinstance(part, Image) for part in message.parts)


def to_message(message: ChatMessage, param: str) -> Message:
    match message.role:
        case "system" | "developer":
            return System(_text(message.content, param))
        case "user":
            return User(_parts(message.content, param))
        case "assistant":
            return _assistant(message, param)
        case "tool" | "function":
            name = message.name or ""
            return ToolResult(message.tool_call_id or name, name, _text(message.content, param))


def _assistant(message: ChatMessage, param: str) -> Assistant:
    parts: list[AssistantPart] = []
    if text := _text(message.content, param):
        parts.append(Text(text))
    parts.extend(
        ToolCall(call.id, call.function.name, call.function.arguments)
        for call in message.tool_calls or ()
        if call.function is not None
    )
    return Assistant(tuple(parts))


def _text(content: str | list[ContentPart] | None, param: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in TEXTS and part.type != "refusal":
            where = f"{param}.content[{number}]"
            raise _unsupported(f"{part.type[:100]} is not possible here", where)
    return "\n".join(part.text or part.refusal or "" for part in content)


def _parts(content: str | list[ContentPart] | None, param: str) -> tuple[UserPart, ...]:
    if content is None or isinstance(content, str):
        return (Text(content or ""),)
    return tuple(
        _convert_part(part, f"{param}.content[{number}]") for number, part in enumerate(content)
    )


def _convert_part(part: ContentPart, param: str) -> UserPart:
    if part.type in TEXTS:
        return Text(part.text or "")
    if part.type not in IMAGES:
        raise _unsupported(f"content of the type {part.type[:100]!r} cannot be used", param)
    given = part.image_url
    url = given if isinstance(given, str) else given.url if given else ""
    start = _DATA.match(url)
    if start is None:
        raise _unsupported("an image must come inline, as data:image/…;base64,…", param)
    try:
        b64decode(url[start.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("the image is not valid base64", param=param) from None
    return Image(url)


def _unsupported(message: str, param: str) -> ApiError:
    return bad_request(message, param=param, code=UNSUPPORTED)


ONLY_JSON = "Your last answer must be valid JSON and nothing else: no words around it, no fences."


def format_instructions(response_format: Any) -> str:
    """Return the instruction for a requested response format (`response_format`, `text.format`);
    "" for plain text."""
    given = response_format
    if not isinstance(given, dict) or given.get("type") not in ("json_object", "json_schema"):
        return ""
    inner = given.get("json_schema", given)
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not schema:
        return ONLY_JSON
    return f"{ONLY_JSON} It must fit this JSON schema: {msgspec.json.encode(schema).decode()}"


def join_texts(*texts: str | None) -> str:
    """Join instructions from several places."""
    return "\n\n".join(filter(None, texts))
