"""POST /v1/chat/completions: the client sends the whole conversation each time. Unknown fields of
its messages are ignored."""

import binascii
import re
import secrets
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from hermes.core.events import ToolFinished, ToolStarted, TurnFinished
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
from hermes.gateway.platforms.api_server.app import TURN_ERRORS, operation
from hermes.gateway.platforms.api_server.http import (
    EVENT_STREAM,
    SESSION_HEADER,
    ApiError,
    ApiRequest,
    EventStream,
    bad_request,
    json_response,
    sse_event,
    turn_error,
)
from hermes.gateway.platforms.api_server.idempotency import KEY_HEADER
from hermes.gateway.platforms.api_server.turns import (
    ApiTurn,
    ApiTurns,
    AppendOnlyText,
    ConversationDigest,
    TurnRequest,
)
from hermes.store import repair_history

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


PROGRESS = "hermes.tool.progress"
DONE = b"data: [DONE]\n\n"

INCOMPLETE_REASONS = frozenset({"truncated", "max_iterations", "iteration_budget"})
"""Exit reasons of a turn whose answer is incomplete."""


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    model: str | None = None  #: Ignored and returned: the settings choose the model.
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None
    user: str | None = None
    response_format: Any = None
    """`json_object` and `json_schema` become instructions for the agent; its answer is not
    validated."""


class PromptTokenDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class CompletionTokenDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class ChatUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokenDetails
    completion_tokens_details: CompletionTokenDetails


class AnswerMessage(msgspec.Struct, frozen=True):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None


class CompletionChoice(msgspec.Struct, frozen=True):
    message: AnswerMessage
    finish_reason: Literal["stop", "length"]
    index: int = 0
    logprobs: None = None


class ChatCompletion(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: ChatUsage
    object: Literal["chat.completion"] = "chat.completion"


class CompletionDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    delta: CompletionDelta
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
    status: str  #: `started`, `finished` or `failed`.
    object: str = "chat.completion.chunk"
    label: str = ""  #: The subject of the call in a few words.
    seconds: float | None = None


class CompletionChunk(msgspec.Struct, frozen=True):
    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    object: str = "chat.completion.chunk"
    usage: ChatUsage | msgspec.UnsetType | None = msgspec.UNSET


def to_chat_usage(usage: Usage) -> ChatUsage:
    return ChatUsage(
        usage.prompt,
        usage.output,
        usage.total,
        PromptTokenDetails(usage.cache_read),
        CompletionTokenDetails(usage.reasoning),
    )


def call_label(arguments: str) -> str:
    """Return the first text in the arguments of a call, shortened."""
    try:
        found: Any = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return ""
    values = found.values() if isinstance(found, dict) else ()
    text = next((value for value in values if isinstance(value, str) and value), "")
    return " ".join(text.split())[:80]


class ChatCompletions:
    def __init__(self, turns: ApiTurns, model_name: str, now: Callable[[], float]) -> None:
        self._turns, self._model_name, self._now = turns, model_name, now

    @operation(
        "POST /v1/chat/completions",
        "chat_completion",
        "Answer a conversation",
        result=ChatCompletion,
        media_type=EVENT_STREAM,
        errors=TURN_ERRORS,
        body=ChatRequest,
        headers=(KEY_HEADER, SESSION_HEADER),
    )
    async def create(self, request: ApiRequest) -> Response:
        wanted = request.decode(ChatRequest)
        talk = split_conversation(
            to_message(each, f"messages[{number}]") for number, each in enumerate(wanted.messages)
        )
        session_id = request.headers.get(SESSION_HEADER, "")
        instructions = join_texts(talk.instructions, format_instructions(wanted.response_format))
        digest = ConversationDigest(wanted.user or "", instructions)
        digest.add_messages(talk.history)
        if session_id:
            await self._turns.check_session(session_id)
        key = digest.key if talk.history else ""
        turn = await self._turns.begin(
            TurnRequest(talk.message, instructions, key, session_id, talk.history),
            request.on_disconnect,
        )
        digest.add_messages((talk.message,))
        completion_id, created = f"chatcmpl-{secrets.token_hex(12)}", int(self._now())
        writer = _CompletionWriter(completion_id, created, wanted.model or self._model_name)
        headers = {SESSION_HEADER: turn.session_id}
        if not wanted.stream:
            return await _complete(turn, writer, digest, headers)
        options = wanted.stream_options
        has_usage = bool(options and options.include_usage)
        stream = _stream(turn, writer, digest, has_usage=has_usage)
        return EventStream(request, stream, headers, turn.close)


async def _complete(
    turn: ApiTurn, writer: "_CompletionWriter", digest: ConversationDigest, headers: dict[str, str]
) -> Response:
    end = await turn.run_to_end(lambda end: digest.key_after("assistant", answer_text(end)))
    error = turn_error(end)
    if error is not None:
        error.headers |= headers
        raise error
    return json_response(writer.completion(end), headers=headers)


async def _stream(
    turn: ApiTurn, writer: "_CompletionWriter", digest: ConversationDigest, *, has_usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the role, the text, the finish reason, and the usage if the client asked for it."""
    usage = None if has_usage else msgspec.UNSET
    text = AppendOnlyText()
    yield writer.chunk(CompletionDelta("assistant", ""), usage=usage)
    async with aclosing(turn.events()) as events:
        async for event in events:
            if piece := text.feed(event):
                yield writer.chunk(CompletionDelta(content=piece), usage=usage)
            elif isinstance(event, ToolStarted | ToolFinished):
                yield writer.progress(event)
            elif isinstance(event, TurnFinished):
                turn.keep_as(
                    digest.key_after("assistant", answer_text(event)),
                    digest.key_after("assistant", text.text),
                )
                for last in writer.end(event, usage):
                    yield last
    yield DONE


class _CompletionWriter:
    """Creates the JSON of one completion."""

    def __init__(self, completion_id: str, created: int, model: str) -> None:
        self._common = (completion_id, created, model)

    def completion(self, end: TurnFinished) -> ChatCompletion:
        choice = CompletionChoice(AnswerMessage(answer_text(end)), _finish_reason(end))
        return ChatCompletion(*self._common, [choice], to_chat_usage(end.usage))

    def chunk(
        self,
        delta: CompletionDelta,
        finish: str | None = None,
        usage: msgspec.UnsetType | None = None,
    ) -> bytes:
        return sse_event(CompletionChunk(*self._common, [ChunkChoice(delta, finish)], usage=usage))

    def progress(self, event: ToolStarted | ToolFinished) -> bytes:
        empty = [ChunkChoice(CompletionDelta())]
        if isinstance(event, ToolStarted):
            call = event.call
            label = call_label(call.arguments)
            progress = ToolProgress(
                *self._common, empty, call.name, call.id, "started", label=label
            )
        else:
            status = "failed" if event.failed else "finished"
            seconds = round(event.seconds, 3)
            progress = ToolProgress(
                *self._common, empty, event.name, event.call_id, status, seconds=seconds
            )
        return sse_event(progress, PROGRESS)

    def end(self, end: TurnFinished, usage: msgspec.UnsetType | None) -> list[bytes]:
        error = turn_error(end)
        if error is not None:
            return [sse_event(error.body)]
        pieces = [self.chunk(CompletionDelta(), _finish_reason(end), usage)]
        if usage is None:
            pieces.append(
                sse_event(CompletionChunk(*self._common, [], usage=to_chat_usage(end.usage)))
            )
        return pieces


def answer_text(end: TurnFinished) -> str:
    return "" if end.exit_reason == "empty" else end.text


def _finish_reason(end: TurnFinished) -> Literal["stop", "length"]:
    return "length" if end.exit_reason in INCOMPLETE_REASONS else "stop"
