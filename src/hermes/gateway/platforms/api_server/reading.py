"""What a client said, as a conversation of ours."""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Sequence

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
from hermes.gateway.platforms.api_server.chat.wire import ChatMessage, Part
from hermes.gateway.platforms.api_server.forms import joined
from hermes.gateway.platforms.api_server.refusals import Refused, invalid
from hermes.store.rows import repair

TEXTS = frozenset({"text", "input_text", "output_text"})
IMAGES = frozenset({"image_url", "input_image"})
UNSUPPORTED = "unsupported_content_type"
GO_ON = "Go on."
"""What a client means that lets a conversation end with an answer, or the result of a tool."""
_DATA = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.ASCII | re.IGNORECASE)


class Conversation(msgspec.Struct, frozen=True):
    manner: str
    """What its system messages say."""
    history: tuple[Message, ...]
    message: User
    """What is to be answered."""


def conversation(messages: Iterable[Message], param: str = "messages") -> Conversation:
    """Raises `Refused` when there is nothing to answer. Front ends ask for a summary by a system
    message at the end, and for more by ending with the answer itself."""
    said = list(messages)
    if said and isinstance(said[-1], System):
        said[-1] = User.say(said[-1].text)
    manner = joined(*[each.text for each in said if isinstance(each, System)])
    spoken = [each for each in said if not isinstance(each, System)]
    last = spoken.pop() if spoken and isinstance(spoken[-1], User) else None
    history = _sound(spoken)
    if last is None and history:
        last = User.say(GO_ON)
    if not isinstance(last, User) or _is_empty(last):
        raise invalid("there is no message, or the last one is empty", param=param)
    return Conversation(manner, history, last)


def _sound(spoken: Iterable[Message]) -> tuple[Message, ...]:
    """What a provider accepts: an answer that was stopped before its first word is kept by many
    front ends as an empty message."""
    filled = (each for each in spoken if not (isinstance(each, User) and _is_empty(each)))
    return repair(filled)


def _is_empty(message: User) -> bool:
    return not message.text.strip() and not any(isinstance(part, Image) for part in message.parts)


def chat_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """Raises `Refused` for content that cannot be used."""
    return [message_of(each, f"messages[{number}]") for number, each in enumerate(messages)]


def message_of(message: ChatMessage, param: str) -> Message:
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


def _text(content: str | list[Part] | None, param: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in TEXTS and part.type != "refusal":
            where = f"{param}.content[{number}]"
            raise _unsupported(f"{part.type[:100]} is not possible here", where)
    return "\n".join(part.text or part.refusal or "" for part in content)


def _parts(content: str | list[Part] | None, param: str) -> tuple[UserPart, ...]:
    if content is None or isinstance(content, str):
        return (Text(content or ""),)
    return tuple(_part(part, f"{param}.content[{number}]") for number, part in enumerate(content))


def _part(part: Part, param: str) -> UserPart:
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
        raise invalid("the image is not valid base64", param=param) from None
    return Image(url)


def _unsupported(message: str, param: str) -> Refused:
    return invalid(message, param=param, code=UNSUPPORTED)
