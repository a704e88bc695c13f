"""/v1/responses: the server stores the conversation and can continue from any of its answers."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from hermes.core.errors import SessionNotFound, StoreError
from hermes.core.events import Event, TextFinished, ToolFinished, ToolStarted, TurnFinished
from hermes.core.messages import Assistant, Message, ToolCall, User
from hermes.core.model import Usage
from hermes.gateway.platforms.api_server.http import (
    SSE,
    Refused,
    Reply,
    Request,
    answered,
    event_bytes,
    failure_of,
    form_wanted,
    invalid,
    joined,
    missing,
)
from hermes.gateway.platforms.api_server.reading import (
    UNSUPPORTED,
    ChatMessage,
    Conversation,
    Part,
    Role,
    conversation,
    message_of,
)
from hermes.gateway.platforms.api_server.turns import Ask, Running, Speech, Turns
from hermes.store.records import StoredResponse
from hermes.store.rows import repair_history
from hermes.store.session_store import SessionStore

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class InputItem(msgspec.Struct, frozen=True):
    """A message, or a function call and its result."""

    type: str | None = None
    role: Role | None = None
    content: str | list[Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[Part] | None = None


class ConversationRef(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=200)]


class ResponseRequest(msgspec.Struct, frozen=True):
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    model: str | None = None
    """Ignored and returned: the settings choose the model."""
    instructions: str | None = None
    """Only for this answer."""
    previous_response_id: str | None = None
    conversation: Annotated[str, Meta(min_length=1, max_length=200)] | ConversationRef | None = None
    """The name of a conversation to continue or start."""
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    metadata: dict[str, str] | None = None
    text: Any = None
    """Its `format` works like `response_format` of chat completions."""


class OutputText(msgspec.Struct, frozen=True):
    text: str
    type: Literal["output_text"] = "output_text"
    annotations: list[Any] = []
    logprobs: list[Any] = []


class MessageItem(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    id: str
    content: list[OutputText]
    status: Status = "completed"
    role: Literal["assistant"] = "assistant"


class CallItem(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    """A call of a server-side tool that has already been made; the client has nothing to do."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status = "completed"


class ResultItem(msgspec.Struct, frozen=True, tag_field="type", tag="function_call_output"):
    id: str
    call_id: str
    output: str
    status: Status = "completed"


Item = MessageItem | CallItem | ResultItem


class InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int
    cache_write_tokens: int


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseError(msgspec.Struct, frozen=True):
    code: str
    message: str


class Incomplete(msgspec.Struct, frozen=True):
    reason: str


class TextFormat(msgspec.Struct, frozen=True):
    type: str = "text"


class TextSettings(msgspec.Struct, frozen=True):
    format: TextFormat = TextFormat()


class Where(msgspec.Struct, frozen=True):
    """Where the conversation is stored."""

    session_id: str
    messages: int = 0
    """Number of messages up to this answer."""


class ResponseObject(msgspec.Struct, frozen=True):
    id: str
    created_at: int
    model: str
    hermes: Where
    status: Status = "in_progress"
    output: list[Item] = []
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    incomplete_details: Incomplete | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: ConversationRef | None = None
    store: bool = True
    metadata: dict[str, str] = {}
    object: Literal["response"] = "response"
    parallel_tool_calls: bool = True
    tool_choice: Literal["auto"] = "auto"
    tools: list[Any] = []
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    text: TextSettings = TextSettings()
    truncation: Literal["disabled"] = "disabled"


class ResponseDeleted(msgspec.Struct, frozen=True):
    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


def usage_of(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        usage.prompt,
        InputDetails(usage.cache_read, usage.cache_write),
        usage.output,
        OutputDetails(usage.reasoning),
        usage.total,
    )


IGNORED = frozenset({"reasoning"})
CALL = "function_call"


def input_messages(given: str | Sequence[InputItem]) -> list[Message]:
    """Convert the input of a response. Raises `Refused` for unsupported content."""
    if isinstance(given, str):
        return [User.say(given)]
    messages: list[Message] = []
    for number, item in enumerate(given):
        if item.type in IGNORED:
            continue
        message = _message(item, f"input[{number}]")
        before = messages[-1] if messages else None
        if item.type == CALL and isinstance(before, Assistant) and isinstance(message, Assistant):
            # The text and the calls of one reply arrive as separate items.
            messages[-1] = Assistant((*before.parts, *message.parts), message.finish_reason)
        else:
            messages.append(message)
    return messages


def _message(item: InputItem, param: str) -> Message:
    match item.type:
        case None | "message":
            if item.role is None:
                raise invalid("a message needs a role", param=param)
            return message_of(ChatMessage(item.role, item.content), param)
        case "function_call":
            call = ToolCall(item.call_id or "", item.name or "", item.arguments or "{}")
            return Assistant((call,), "tool_calls")
        case "function_call_output":
            result = ChatMessage("tool", item.output, tool_call_id=item.call_id)
            return message_of(result, param)
        case other:
            message = f"an item of the type {other[:100]!r} cannot be used"
            raise invalid(message, param=param, code=UNSUPPORTED)


Told = dict[str, Any]


class Unfolding:
    def __init__(self, response: ResponseObject) -> None:
        self.response = response
        self._items: list[Item] = []
        self._speech = Speech()
        self._message: MessageItem | None = None
        """The message whose text is being received."""
        self._number = 0

    def begin(self) -> Iterator[Told]:
        yield self._event("response.created", response=self.response)
        yield self._event("response.in_progress", response=self.response)

    def hear(self, event: Event) -> Iterator[Told]:
        if text := self._speech.hear(event):
            yield from self._said(text)
        match event:
            case TextFinished() | TurnFinished():
                yield from self._finished()
            case ToolStarted():
                call = event.call
                item = CallItem(_id("fc"), call.id, call.name, call.arguments)
                yield from self._called(item)
            case ToolFinished():
                result = ResultItem(_id("fco"), event.call_id, event.result)
                yield self._added(result)
                yield self._done(result)
            case _:
                pass

    def end(self, end: TurnFinished, *, messages: int) -> ResponseObject:
        """Return the final response; `messages` is the length of the conversation."""
        failure = failure_of(end)
        cut = end.exit_reason == "truncated"
        self.response = replace(
            self.response,
            status="failed" if failure else "incomplete" if cut else "completed",
            output=list(self._items),
            usage=usage_of(end.usage),
            error=ResponseError(failure.code, str(failure)) if failure else None,
            incomplete_details=Incomplete("max_output_tokens") if cut and not failure else None,
            hermes=replace(self.response.hermes, session_id=end.session_id, messages=messages),
        )
        return self.response

    def fail(self, error: ResponseError) -> None:
        self.response = replace(self.response, status="failed", error=error)

    def last(self) -> Iterator[Told]:
        """Yield the last event, after `end`."""
        yield self._event(f"response.{self.response.status}", response=self.response)

    def _said(self, text: str) -> Iterator[Told]:
        if self._message is None:
            self._message = MessageItem(_id("msg"), [], "in_progress")
            yield self._added(self._message)
            yield self._part("response.content_part.added", part=OutputText(""))
        yield self._part("response.output_text.delta", delta=text, logprobs=[])

    def _finished(self) -> Iterator[Told]:
        if self._message is None:
            return
        text = OutputText(self._speech.text)
        yield self._part("response.output_text.done", text=text.text, logprobs=[])
        yield self._part("response.content_part.done", part=text)
        yield self._done(replace(self._message, content=[text], status="completed"))
        self._message, self._speech = None, Speech()

    def _called(self, item: CallItem) -> Iterator[Told]:
        yield self._added(replace(item, arguments="", status="in_progress"))
        place = {"item_id": item.id, "output_index": len(self._items)}
        given = item.arguments
        yield self._event("response.function_call_arguments.delta", **place, delta=given)
        yield self._event("response.function_call_arguments.done", **place, arguments=given)
        yield self._done(item)

    def _added(self, item: Item) -> Told:
        place = len(self._items)
        return self._event("response.output_item.added", output_index=place, item=item)

    def _done(self, item: Item) -> Told:
        self._items.append(item)
        place = len(self._items) - 1
        return self._event("response.output_item.done", output_index=place, item=item)

    def _part(self, kind: str, **more: Any) -> Told:
        """Return an event about the message that is being received."""
        name = self._message.id if self._message else ""
        place = len(self._items)
        return self._event(kind, item_id=name, output_index=place, content_index=0, **more)

    def _event(self, kind: str, **more: Any) -> Told:
        number = self._number
        self._number += 1
        return {"type": kind, "sequence_number": number, **more}


def _id(start: str) -> str:
    return f"{start}_{secrets.token_hex(12)}"


SESSION = "X-Hermes-Session-Id"


class _Kept(msgspec.Struct, frozen=True):
    """The part of a stored response that is needed to continue from it."""

    hermes: Where


class _Queue:
    def __init__(self) -> None:
        self.lock, self.length = asyncio.Lock(), 0


class ResponsesEndpoint:
    def __init__(
        self, turns: Turns, store: SessionStore, model_name: str, now: Callable[[], float]
    ) -> None:
        self._turns, self._store, self._model_name, self._now = turns, store, model_name, now
        self._named: dict[str, _Queue] = {}
        """Locks of named conversations: one answer at a time."""

    async def create(self, request: Request) -> Reply:
        wanted = request.decoded(ResponseRequest)
        name = _conversation_of(wanted)
        if wanted.background:
            message = "answers in the background are not possible; POST /v1/runs can do that"
            raise invalid(message, param="background", code="unsupported_parameter")
        if name and wanted.previous_response_id:
            message = "give previous_response_id or conversation, not both"
            raise invalid(message, param="conversation", code="mutually_exclusive_parameters")
        talk = conversation(input_messages(wanted.input), "input")
        request.on_gone(lambda: None)  # from now on it is known whether the client waits
        leave = await self._enter(name)
        try:
            if request.left:
                raise Refused(400, "the client left")
            past = await self._past(name, wanted.previous_response_id or "")
            ask = await self._ask(wanted, talk, past)
            running = await self._turns.begin(ask, request.on_gone)
        except BaseException:
            leave()
            raise
        running.on_close(lambda *, failed: leave())  # noqa: ARG005 - the parameter name belongs to the Closed protocol
        return await self._answer(wanted, running, past, name)

    async def get(self, request: Request) -> Reply:
        stored = await self._store.responses.get(request.places["response_id"], self._now())
        if stored is None:
            raise _unknown(request.places["response_id"])
        return Reply(stored.body)

    async def delete(self, request: Request) -> Reply:
        name = request.places["response_id"]
        if not await self._store.responses.delete(name):
            raise _unknown(name)
        return answered(ResponseDeleted(name))

    async def _enter(self, name: str) -> Callable[[], None]:
        """Wait until the named conversation is free. Returns a function that frees it."""
        if not name:
            return lambda: None
        queue = self._named.setdefault(name, _Queue())
        queue.length += 1

        def leave(*, entered: bool = True) -> None:
            if entered:
                queue.lock.release()
            queue.length -= 1
            if not queue.length:
                del self._named[name]

        try:
            await queue.lock.acquire()
        except BaseException:
            leave(entered=False)
            raise
        return leave

    async def _past(self, name: str, previous: str) -> StoredResponse | None:
        """Return the answer to continue from; None if there is none. Raises `Refused`."""
        if name:
            return await self._store.responses.last(name, self._now())
        if not previous:
            return None
        stored = await self._store.responses.get(previous, self._now())
        if stored is None:
            raise _no_previous(previous)
        return stored

    async def _ask(
        self, wanted: ResponseRequest, talk: Conversation, past: StoredResponse | None
    ) -> Ask:
        wants = wanted.text.get("format") if isinstance(wanted.text, dict) else None
        manner = joined(wanted.instructions, talk.manner, form_wanted(wants))
        ask = Ask(talk.message, manner, history=talk.history)
        if past is None:
            return ask
        key = _key(past.id)
        if not talk.history and self._turns.live.knows(key):
            return replace(ask, key=key)
        until, whole = await self._messages(past)
        if not talk.history and whole and not self._turns.busy(past.session_id):
            return replace(ask, session_id=past.session_id)
        return replace(ask, history=(*until, *talk.history))

    async def _messages(self, past: StoredResponse) -> tuple[tuple[Message, ...], bool]:
        """Return the messages up to an answer, and whether none follow it."""
        count = msgspec.json.decode(past.body, type=_Kept).hermes.messages
        try:
            messages = repair_history(await self._store.messages(past.session_id))
        except SessionNotFound:
            raise _no_previous(past.id) from None
        return messages[:count], len(messages) == count

    async def _answer(
        self, wanted: ResponseRequest, running: Running, past: StoredResponse | None, name: str
    ) -> Reply:
        unfolding = Unfolding(
            ResponseObject(
                f"resp_{secrets.token_hex(16)}",
                int(self._now()),
                wanted.model or self._model_name,
                Where(running.session_id),
                instructions=wanted.instructions,
                previous_response_id=past.id if past and not name else None,
                conversation=ConversationRef(name) if name else None,
                store=wanted.store is not False,
                metadata=wanted.metadata or {},
            )
        )
        headers = ((SESSION, running.session_id),)
        if wanted.stream:
            stream = self._streamed(running, unfolding, past)
            return Reply(headers=headers, kind=SSE, stream=stream, close=running.close)
        failure: Refused | None = None
        async with aclosing(running.events()) as events:
            async for event in events:
                for _told in unfolding.hear(event):
                    pass
                if isinstance(event, TurnFinished):
                    failure = failure_of(event)
                    await self._ended(running, unfolding, event, past)
        if failure is not None:
            failure.headers += headers
            raise failure
        return answered(unfolding.response, headers=headers)

    async def _streamed(
        self, running: Running, unfolding: Unfolding, past: StoredResponse | None
    ) -> AsyncGenerator[bytes, None]:
        for told in unfolding.begin():
            yield _sent(told)
        async with aclosing(running.events()) as events:
            async for event in events:
                for told in unfolding.hear(event):
                    yield _sent(told)
                if isinstance(event, TurnFinished):
                    try:
                        await self._ended(running, unfolding, event, past)
                    except StoreError as error:
                        unfolding.fail(ResponseError("store_failed", str(error)))
                    for told in unfolding.last():
                        yield _sent(told)

    async def _ended(
        self,
        running: Running,
        unfolding: Unfolding,
        end: TurnFinished,
        past: StoredResponse | None,
    ) -> None:
        """Store the result before the client receives it."""
        response = unfolding.end(end, messages=len(running.agent.history))
        if response.status == "failed" or not response.store:
            return
        running.keep_as(_key(response.id))
        stored = StoredResponse(
            response.id,
            msgspec.json.encode(response),
            end.session_id,
            response.conversation.id if response.conversation else "",
            past.id if past else "",
            response.created_at,
        )
        await self._store.responses.save(stored, self._now())


def _sent(told: Told) -> bytes:
    return event_bytes(msgspec.json.encode(told), told["type"])


def _key(response_id: str) -> str:
    return f"response:{response_id}"


def _conversation_of(wanted: ResponseRequest) -> str:
    given = wanted.conversation
    return given.id if isinstance(given, ConversationRef) else given or ""


def _unknown(name: str) -> Refused:
    return missing(f"there is no response {name[:200]}", "response_not_found")


def _no_previous(name: str) -> Refused:
    return invalid(
        f"there is no response {name[:200]} to go on from",
        param="previous_response_id",
        code="previous_response_not_found",
    )
