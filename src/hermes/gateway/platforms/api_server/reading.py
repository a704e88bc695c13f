"""The JSON of /v1/chat/completions and its conversion into messages. Unknown fields are ignored."""

import asyncio
import binascii
import re
from base64 import b64decode
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

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
from hermes.core.model import Usage
from hermes.gateway.platforms.api_server.http import Refused, invalid, joined, to_the_end
from hermes.store.rows import repair_history

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]


class ImageUrl(msgspec.Struct, frozen=True):
    url: str


class Part(msgspec.Struct, frozen=True):
    """A part of a message."""

    type: str
    """`text` or `image_url`; in responses `input_text`, `output_text` or `input_image`."""
    text: str | None = None
    image_url: ImageUrl | str | None = None
    refusal: str | None = None


class Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str = "{}"


class Call(msgspec.Struct, frozen=True):
    id: str
    function: Function | None = None


class ChatMessage(msgspec.Struct, frozen=True):
    role: Role
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    model: str | None = None
    """Ignored and returned: the settings choose the model."""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None
    user: str | None = None
    response_format: Any = None
    """`json_object` and `json_schema` become instructions for the agent; its answer is not
    validated."""


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class ChatUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails
    completion_tokens_details: CompletionDetails


class AnswerMessage(msgspec.Struct, frozen=True):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None


class Choice(msgspec.Struct, frozen=True):
    message: AnswerMessage
    finish_reason: Literal["stop", "length"]
    index: int = 0
    logprobs: None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: ChatUsage
    object: Literal["chat.completion"] = "chat.completion"


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    delta: Delta
    finish_reason: str | None = None
    index: int = 0
    logprobs: None = None


class ToolProgress(msgspec.Struct, frozen=True):
    """The event `hermes.tool.progress`: a chunk without content, so that clients which do not
    know it can ignore it."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    tool: str
    call_id: str
    status: str
    """`started`, `finished` or `failed`."""
    object: str = "chat.completion.chunk"
    label: str = ""
    """The subject of the call in a few words."""
    seconds: float | None = None


class Chunk(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    object: str = "chat.completion.chunk"
    usage: ChatUsage | msgspec.UnsetType | None = msgspec.UNSET


def usage_of(usage: Usage) -> ChatUsage:
    return ChatUsage(
        usage.prompt,
        usage.output,
        usage.total,
        PromptDetails(usage.cache_read),
        CompletionDetails(usage.reasoning),
    )


def label_of(arguments: str) -> str:
    """Return the first text in the arguments of a call, shortened."""
    try:
        found: Any = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return ""
    values = found.values() if isinstance(found, dict) else ()
    text = next((value for value in values if isinstance(value, str) and value), "")
    return " ".join(text.split())[:80]


TEXTS = frozenset({"text", "input_text", "output_text"})
IMAGES = frozenset({"image_url", "input_image"})
UNSUPPORTED = "unsupported_content_type"
GO_ON = "Go on."
"""The message for clients whose conversation ends with an answer or a tool result."""
_DATA = re.compile(r"data:image/[a-z0-9.+-]+;base64,", re.ASCII | re.IGNORECASE)


class Conversation(msgspec.Struct, frozen=True):
    manner: str
    """The text of its system messages."""
    history: tuple[Message, ...]
    message: User
    """The message to answer."""


def conversation(messages: Iterable[Message], param: str = "messages") -> Conversation:
    """Split messages into instructions, history and the message to answer.

    Clients ask for a summary with a system message at the end, and for more text by ending with the
    answer itself. Raises `Refused` if there is nothing to answer.
    """
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
    """Return a history that providers accept. Many clients keep an answer that was stopped
    before its first word as an empty message."""
    filled = (each for each in spoken if not (isinstance(each, User) and _is_empty(each)))
    return repair_history(filled)


def _is_empty(message: User) -> bool:
    return not message.text.strip() and not any(isinstance(part, Image) for part in message.parts)


def chat_messages(messages: Sequence[ChatMessage]) -> list[Message]:
    """Convert messages. Raises `Refused` for unsupported content."""
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


class Recording:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self.complete = False
        self.size = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)
        self._wake()

    def end(self) -> None:
        self.complete = True
        self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def play(self, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the pieces from number `start` on, until the end."""
        while True:
            while start < len(self._pieces):
                yield self._pieces[start]
                start += 1
            if self.complete:
                return
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    async def take(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Record all of `pieces`."""
        try:
            async with aclosing(to_the_end(pieces)) as whole:
                async for piece in whole:
                    self.add(piece)
        finally:
            self.end()
