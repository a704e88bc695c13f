"""POST /v1/chat/completions: the client sends the whole conversation each time."""

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
from hermes.gateway.platforms.api_server.app import STREAMED_TURN, operation
from hermes.gateway.platforms.api_server.http import (
    KEY_HEADER,
    SESSION_HEADER,
    ApiRequest,
    EventStream,
    bad_request,
    json_response,
    sse_event,
    turn_error,
)
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
            content = message.content
            if content is None or isinstance(content, str):
                return User.say(content or "")
            parts = (
                _convert_part(part, f"{param}.content[{number}]")
                for number, part in enumerate(content)
            )
            return User(tuple(parts))
        case "assistant":
            text = _text(message.content, param)
            calls = (
                ToolCall(call.id, call.function.name, call.function.arguments)
                for call in message.tool_calls or ()
                if call.function is not None
            )
            return Assistant((*((Text(text),) if text else ()), *calls))
        case "tool" | "function":
            name = message.name or ""
            return ToolResult(message.tool_call_id or name, name, _text(message.content, param))


def _text(content: str | list[ContentPart] | None, param: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for number, part in enumerate(content):
        if part.type not in TEXTS and part.type != "refusal":
            where = f"{param}.content[{number}]"
            message = f"{part.type[:100]} is not possible here"
            raise bad_request(message, param=where, code=UNSUPPORTED)
    return "\n".join(part.text or part.refusal or "" for part in content)


def _convert_part(part: ContentPart, param: str) -> UserPart:
    if part.type in TEXTS:
        return Text(part.text or "")
    if part.type not in IMAGES:
        message = f"content of the type {part.type[:100]!r} cannot be used"
        raise bad_request(message, param=param, code=UNSUPPORTED)
    given = part.image_url
    url = given if isinstance(given, str) else given.url if given else ""
    start = _DATA.match(url)
    if start is None:
        message = "an image must come inline, as data:image/…;base64,…"
        raise bad_request(message, param=param, code=UNSUPPORTED)
    try:
        b64decode(url[start.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise bad_request("the image is not valid base64", param=param) from None
    return Image(url)


ONLY_JSON = "Your last answer must be valid JSON and nothing else: no words around it, no fences."


def format_instructions(response_format: Any) -> str:
    """Return the instruction for a requested response format; "" for plain text."""
    given = response_format if isinstance(response_format, dict) else {}
    if given.get("type") not in ("json_object", "json_schema"):
        return ""
    inner = given.get("json_schema", given)
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not schema:
        return ONLY_JSON
    return f"{ONLY_JSON} It must fit this JSON schema: {msgspec.json.encode(schema).decode()}"


def join_texts(*texts: str | None) -> str:
    return "\n\n".join(filter(None, texts))


PROGRESS = "hermes.tool.progress"
HEADERS = (KEY_HEADER, SESSION_HEADER)
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
    """`json_object` and `json_schema` become instructions; the answer is not validated."""


class ChatUsage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    completion_tokens_details: dict[str, int]


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

    @operation("POST /v1/chat/completions", ChatCompletion, ChatRequest, HEADERS, **STREAMED_TURN)
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
        common: dict[str, Any] = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "created": int(self._now()),
            "model": wanted.model or self._model_name,
        }
        headers = {SESSION_HEADER: turn.session_id}
        if wanted.stream:
            options = wanted.stream_options
            with_usage = bool(options and options.include_usage)
            stream = _stream(turn, common, digest, with_usage=with_usage)
            return EventStream(request, stream, headers, turn.close)
        end = await turn.run(lambda end: digest.key_after("assistant", answer_text(end)))
        if error := turn_error(end):
            error.headers |= headers
            raise error
        choice = CompletionChoice(AnswerMessage(answer_text(end)), _finish_reason(end))
        completion = ChatCompletion(**common, choices=[choice], usage=_usage(end.usage))
        return json_response(completion, headers=headers)


async def _stream(
    turn: ApiTurn, common: dict[str, Any], digest: ConversationDigest, *, with_usage: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the role, the text, the finish reason, and the usage if the client asked for it."""
    common = {**common, "object": "chat.completion.chunk"}
    usage = {"usage": None} if with_usage else {}

    def chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
        return sse_event({**common, "choices": [_choice(delta, finish)], **usage})

    text = AppendOnlyText()
    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(turn.events()) as events:
        async for event in events:
            if piece := text.feed(event):
                yield chunk({"content": piece})
            elif isinstance(event, ToolStarted | ToolFinished):
                yield sse_event({**common, **_tool_progress(event)}, PROGRESS)
            elif isinstance(event, TurnFinished):
                turn.keep_as(
                    digest.key_after("assistant", answer_text(event)),
                    digest.key_after("assistant", text.text),
                )
                if error := turn_error(event):
                    yield sse_event(error.body)
                    continue
                yield chunk({}, _finish_reason(event))
                if with_usage:
                    yield sse_event({**common, "choices": [], "usage": _usage(event.usage)})
    yield DONE


def _choice(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {"delta": delta, "finish_reason": finish, "index": 0, "logprobs": None}


def _tool_progress(event: ToolStarted | ToolFinished) -> dict[str, Any]:
    """Return the fields of the event `hermes.tool.progress`: a chunk without content, so that
    clients which do not know it can ignore it."""
    fields: dict[str, Any] = {"choices": [_choice({})], "label": "", "seconds": None}
    if isinstance(event, ToolStarted):
        call = event.call
        fields |= {"tool": call.name, "call_id": call.id, "status": "started"}
        return fields | {"label": call_label(call.arguments)}
    fields |= {"tool": event.name, "call_id": event.call_id, "seconds": round(event.seconds, 3)}
    return fields | {"status": "failed" if event.failed else "finished"}


def _usage(usage: Usage) -> ChatUsage:
    return ChatUsage(
        usage.prompt,
        usage.output,
        usage.total,
        {"cached_tokens": usage.cache_read},
        {"reasoning_tokens": usage.reasoning},
    )


def answer_text(end: TurnFinished) -> str:
    return "" if end.exit_reason == "empty" else end.text


def _finish_reason(end: TurnFinished) -> Literal["stop", "length"]:
    return "length" if end.exit_reason in INCOMPLETE_REASONS else "stop"
