"""POST /v1/chat/completions: the client sends the whole conversation each time."""

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hermes.core.events import ToolFinished, ToolStarted, TurnFinished
from hermes.core.model import Usage
from hermes.gateway.platforms.api_server.errors import Headers, turn_error
from hermes.gateway.platforms.api_server.http import (
    SESSION_HEADER,
    SSE,
    ApiReply,
    ApiRequest,
    json_reply,
    sse_event,
)
from hermes.gateway.platforms.api_server.idempotency import KEY_HEADER
from hermes.gateway.platforms.api_server.messages import (
    ChatMessage,
    format_instructions,
    join_texts,
    split_conversation,
    to_message,
)
from hermes.gateway.platforms.api_server.operations import EVENT_STREAM, TURN_ERRORS, operation
from hermes.gateway.platforms.api_server.turns import (
    ApiTurn,
    ApiTurns,
    AppendOnlyText,
    ConversationDigest,
    TurnRequest,
)

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
        "POST",
        "/v1/chat/completions",
        "chat_completion",
        "Answer a conversation",
        result=ChatCompletion,
        media_type=EVENT_STREAM,
        errors=TURN_ERRORS,
        body=ChatRequest,
        headers=(KEY_HEADER, SESSION_HEADER),
    )
    async def create(self, request: ApiRequest) -> ApiReply:
        wanted = request.decode(ChatRequest)
        talk = split_conversation(
            to_message(each, f"messages[{number}]") for number, each in enumerate(wanted.messages)
        )
        session_id = request.headers.get(SESSION_HEADER.lower(), "")
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
        headers = ((SESSION_HEADER, turn.session_id),)
        if not wanted.stream:
            return await _complete(turn, writer, digest, headers)
        options = wanted.stream_options
        has_usage = bool(options and options.include_usage)
        stream = _stream(turn, writer, digest, has_usage=has_usage)
        return ApiReply(headers=headers, media_type=SSE, stream=stream, close=turn.close)


async def _complete(
    turn: ApiTurn, writer: "_CompletionWriter", digest: ConversationDigest, headers: Headers
) -> ApiReply:
    end = await turn.run_to_end(lambda end: digest.key_after("assistant", answer_text(end)))
    error = turn_error(end)
    if error is not None:
        error.headers += headers
        raise error
    return json_reply(writer.completion(end), headers=headers)


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
