"""/v1/responses: the server stores the conversation and can continue from any of its answers."""

import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field
from msgspec.structs import replace
from starlette.responses import Response

from hermes.core.errors import SessionNotFound, StoreError
from hermes.core.events import Event, TextFinished, ToolFinished, ToolStarted, TurnFinished
from hermes.core.messages import Assistant, Message, ToolCall, User
from hermes.gateway.platforms.api_server.app import STREAMED_TURN, operation
from hermes.gateway.platforms.api_server.chat import (
    UNSUPPORTED,
    ChatMessage,
    ClientConversation,
    ContentPart,
    Role,
    format_instructions,
    join_texts,
    split_conversation,
    to_message,
)
from hermes.gateway.platforms.api_server.http import (
    JSON,
    KEY_HEADER,
    SESSION_HEADER,
    ApiError,
    ApiRequest,
    EventStream,
    bad_request,
    json_response,
    not_found,
    sse_event,
    turn_error,
)
from hermes.gateway.platforms.api_server.turns import (
    ApiClaim,
    ApiTurn,
    ApiTurns,
    AppendOnlyText,
    ConversationDigest,
    TurnRequest,
)
from hermes.store import SessionStore, StoredResponse, repair_history

Status = Literal["in_progress", "completed", "incomplete", "failed"]


class InputItem(msgspec.Struct, frozen=True):
    """A message, a function call or its result, or an item of an earlier response: the item itself,
    or a reference to it."""

    type: str | None = None
    role: Role | None = None
    content: str | list[ContentPart] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | list[ContentPart] | None = None
    id: str | None = None
    error: Any = None


InputItems = list[InputItem]


class ConversationRef(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=200)]


class ResponseRequest(msgspec.Struct, frozen=True):
    input: str | Annotated[list[InputItem], Meta(min_length=1)]
    model: str | None = None  #: Ignored and returned: the settings choose the model.
    instructions: str | None = None  #: Only for this answer.
    previous_response_id: str | None = None
    conversation: Annotated[str, Meta(min_length=1, max_length=200)] | ConversationRef | None = None
    """The name of a conversation to continue or start."""
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    metadata: dict[str, str] | None = None
    text: Any = None  #: Its `format` works like `response_format` of chat completions.


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


class ToolCallError(msgspec.Struct, frozen=True):
    content: list[dict[str, str]]
    type: Literal["mcp_tool_execution_error"] = "mcp_tool_execution_error"


class ToolCallItem(msgspec.Struct, frozen=True, tag_field="type", tag="mcp_call"):
    """A call of a tool of this server. Clients execute a `function_call` or fail without such a
    tool; an `mcp_call` is the item for calls that the server has made itself."""

    id: str
    name: str
    arguments: str
    status: Status = "completed"
    output: str | None = None
    error: ToolCallError | None = None
    server_label: Literal["hermes"] = "hermes"
    approval_request_id: None = None


Item = MessageItem | ToolCallItem


class ResponseUsage(msgspec.Struct, frozen=True):
    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponseError(msgspec.Struct, frozen=True):
    code: str
    message: str


class SessionPosition(msgspec.Struct, frozen=True):
    """Where the conversation is stored."""

    session_id: str
    messages: int = 0  #: Number of messages up to this answer.


class ResponseObject(msgspec.Struct, frozen=True):
    id: str
    created_at: int
    model: str
    hermes: SessionPosition
    status: Status = "in_progress"
    output: list[Item] = []
    usage: ResponseUsage | None = None
    error: ResponseError | None = None
    incomplete_details: dict[str, str] | None = None
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
    text: dict[str, dict[str, str]] = field(default_factory=lambda: {"format": {"type": "text"}})
    truncation: Literal["disabled"] = "disabled"


class ResponseDeleted(msgspec.Struct, frozen=True):
    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


IGNORED = frozenset({"reasoning", "mcp_list_tools"})
CALL, SERVER_CALL, REFERENCE = "function_call", "mcp_call", "item_reference"


def input_messages(given: str | Sequence[InputItem]) -> list[Message]:
    """Convert the input of a response. Raises `ApiError` for unsupported content."""
    if isinstance(given, str):
        return [User.say(given)]
    messages: list[Message] = []
    for number, item in enumerate(given):
        if item.type in IGNORED:
            continue
        message = _convert_item(item, f"input[{number}]")
        before, is_call = messages[-1] if messages else None, item.type in (CALL, SERVER_CALL)
        if is_call and isinstance(before, Assistant) and isinstance(message, Assistant):
            # The text and the calls of one reply arrive as separate items.
            messages[-1] = Assistant((*before.parts, *message.parts), message.finish_reason)
        else:
            messages.append(message)
        if item.type == SERVER_CALL:
            output = item.output if item.error is None else _error_text(item.error)
            result = ChatMessage("tool", output, tool_call_id=item.id, name=item.name)
            messages.append(to_message(result, f"input[{number}]"))
    return messages


def _error_text(error: Any) -> str:
    """Return the text of the error of a call, in our form or another."""
    try:
        return "\n".join(part["text"] for part in error["content"])
    except (KeyError, TypeError):
        return error if isinstance(error, str) else msgspec.json.encode(error).decode()


def _convert_item(item: InputItem, param: str) -> Message:
    match item.type:
        case None | "message":
            if item.role is None:
                raise bad_request("a message needs a role", param=param)
            return to_message(ChatMessage(item.role, item.content), param)
        case "function_call" | "mcp_call":
            call_id = item.id if item.type == SERVER_CALL else item.call_id
            call = ToolCall(call_id or "", item.name or "", item.arguments or "{}")
            return Assistant((call,), "tool_calls")
        case "function_call_output":
            result = ChatMessage("tool", item.output, tool_call_id=item.call_id)
            return to_message(result, param)
        case other:
            message = f"an item of the type {other[:100]!r} cannot be used"
            raise bad_request(message, param=param, code=UNSUPPORTED)


Fields = dict[str, Any]


class ResponseBuilder:
    """Turns the events of a turn into the events and the final object of a response."""

    def __init__(self, response: ResponseObject) -> None:
        self.response = response
        self._items: list[Item] = []
        self._text = AppendOnlyText()
        self._message: int | None = None
        """The index of the message whose text is being received."""
        self._calls: dict[str, int] = {}  #: The index of each running call, by its id.
        self._next_number = 0
        self.error: ApiError | None = None  #: Why the turn has no answer, after `finish`.

    def start(self) -> Iterator[Fields]:
        yield self._event("response.created", response=self.response)
        yield self._event("response.in_progress", response=self.response)

    def feed(self, event: Event) -> Iterator[Fields]:
        if text := self._text.feed(event):
            if self._message is None:
                self._message = len(self._items)
                yield self._item_added(MessageItem(self._new_id("msg"), [], "in_progress"))
                part = OutputText("")
                yield self._event("response.content_part.added", self._message, 0, part=part)
            more: Fields = {"delta": text, "logprobs": []}
            yield self._event("response.output_text.delta", self._message, 0, **more)
        match event:
            case TextFinished() | TurnFinished() if self._message is not None:
                index, part = self._message, OutputText(self._text.text)
                more = {"text": part.text, "logprobs": []}
                yield self._event("response.output_text.done", index, 0, **more)
                yield self._event("response.content_part.done", index, 0, part=part)
                yield self._item_done(index, content=[part], status="completed")
                self._message, self._text = None, AppendOnlyText()
            case ToolStarted():
                call, index = event.call, len(self._items)
                self._calls[call.id] = index
                item = ToolCallItem(self._new_id("mcp"), call.name, "", "in_progress")
                yield self._item_added(item)
                yield self._event("response.mcp_call.in_progress", index)
                self._items[index] = replace(item, arguments=call.arguments)
                kind = "response.mcp_call_arguments"
                yield self._event(f"{kind}.delta", index, delta=call.arguments)
                yield self._event(f"{kind}.done", index, arguments=call.arguments)
            case ToolFinished() if event.call_id in self._calls:
                index = self._calls.pop(event.call_id)
                if event.failed:
                    error = ToolCallError([{"type": "text", "text": event.result}])
                    yield self._event("response.mcp_call.failed", index)
                    yield self._item_done(index, status="failed", error=error)
                else:
                    yield self._event("response.mcp_call.completed", index)
                    yield self._item_done(index, status="completed", output=event.result)
            case _:
                pass
        if isinstance(event, TurnFinished):  # calls that a stopped turn left behind
            for index in self._calls.values():
                yield self._item_done(index, status="incomplete")

    def finish(self, end: TurnFinished, *, messages: int) -> ResponseObject:
        """Return the final response; `messages` is the length of the conversation."""
        error, usage = turn_error(end), end.usage
        self.error = error
        cut = end.exit_reason == "truncated"
        self.response = replace(
            self.response,
            status="failed" if error else "incomplete" if cut else "completed",
            output=list(self._items),
            usage=ResponseUsage(
                usage.prompt,
                {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
                usage.output,
                {"reasoning_tokens": usage.reasoning},
                usage.total,
            ),
            error=ResponseError(error.code, str(error)) if error else None,
            incomplete_details={"reason": "max_output_tokens"} if cut and not error else None,
            hermes=replace(self.response.hermes, session_id=end.session_id, messages=messages),
        )
        return self.response

    def final_event(self) -> Fields:
        """Return the last event, after `finish`."""
        return self._event(f"response.{self.response.status}", response=self.response)

    def _item_added(self, item: Item) -> Fields:
        self._items.append(item)
        index = len(self._items) - 1
        return self._event("response.output_item.added", output_index=index, item=item)

    def _item_done(self, index: int, **changes: Any) -> Fields:
        item = self._items[index] = replace(self._items[index], **changes)
        return self._event("response.output_item.done", output_index=index, item=item)

    def _event(
        self, kind: str, index: int | None = None, content_index: int | None = None, **more: Any
    ) -> Fields:
        """Return an event, about the item with `index` if that is given."""
        fields: Fields = {"type": kind, "sequence_number": self._next_number}
        self._next_number += 1
        if index is not None:
            fields |= {"item_id": self._items[index].id, "output_index": index}
        if content_index is not None:
            fields["content_index"] = content_index
        return fields | more

    def _new_id(self, prefix: str) -> str:
        """Return the id of the next item. It names its response, so that `parse_item_id` can find
        an item to which a client refers."""
        return f"{prefix}_{self.response.id.removeprefix(RESPONSE_PREFIX)}_{len(self._items)}"


RESPONSE_PREFIX = "resp_"
_ITEM_ID = re.compile(r"(?:msg|mcp)_([0-9a-f]{32})_([0-9]{1,6})", re.ASCII)


def parse_item_id(item_id: str) -> tuple[str, int]:
    """Return the id of the response of an item and the index of the item; ("", 0) if the id is not
    one of ours."""
    found = _ITEM_ID.fullmatch(item_id)
    return (f"{RESPONSE_PREFIX}{found[1]}", int(found[2])) if found else ("", 0)


class _StoredPosition(msgspec.Struct, frozen=True):
    """The part of a stored response that is needed to continue from it."""

    hermes: SessionPosition


class _StoredOutput(msgspec.Struct, frozen=True):
    """The part of a stored response that is needed to refer to its items."""

    output: list[InputItem]


class ResponsesEndpoint:
    def __init__(
        self, turns: ApiTurns, store: SessionStore, model_name: str, now: Callable[[], float]
    ) -> None:
        self._turns, self._store, self._model_name, self._now = turns, store, model_name, now

    @operation(
        "POST /v1/responses", ResponseObject, ResponseRequest, (KEY_HEADER,), **STREAMED_TURN
    )
    async def create(self, request: ApiRequest) -> Response:
        wanted = request.decode(ResponseRequest)
        given = wanted.conversation
        name = given.id if isinstance(given, ConversationRef) else given or ""
        if wanted.background:
            message = "answers in the background are not possible; POST /v1/runs can do that"
            raise bad_request(message, param="background", code="unsupported_parameter")
        if name and wanted.previous_response_id:
            message = "give previous_response_id or conversation, not both"
            raise bad_request(message, param="conversation", code="mutually_exclusive_parameters")
        items = await self._resolve_items(wanted.input)
        talk = split_conversation(input_messages(items), "input")
        request.on_disconnect(lambda: None)  # from now on it is known whether the client waits
        claims = [await self._turns.claim_conversation(name)] if name else []
        try:
            if request.has_left:
                raise ApiError(400, "the client left")
            previous = await self._previous(name, wanted.previous_response_id)
            turn_request = await self._turn_request(wanted, talk, previous, claims)
        except BaseException:
            await self._turns.release(claims)
            raise
        turn = await self._turns.begin(turn_request, request.on_disconnect, claims)
        return await self._answer(request, wanted, turn, previous, name)

    @operation("GET /v1/responses/{response_id}", ResponseObject)
    async def get(self, request: ApiRequest) -> Response:
        response_id = request.path_params["response_id"]
        stored = await self._store.responses.get(response_id, self._now())
        if stored is None:
            raise _not_stored(response_id)
        return Response(stored.body, media_type=JSON)

    @operation("DELETE /v1/responses/{response_id}", ResponseDeleted)
    async def delete(self, request: ApiRequest) -> Response:
        response_id = request.path_params["response_id"]
        if not await self._store.responses.delete(response_id):
            raise _not_stored(response_id)
        return json_response(ResponseDeleted(response_id))

    async def _resolve_items(self, given: str | list[InputItem]) -> str | list[InputItem]:
        """Replace references to items of stored responses, and calls of our tools that a client
        returns without their output, by the stored items. Raises `ApiError`."""
        if isinstance(given, str):
            return given
        outputs: dict[str, list[InputItem]] = {}
        items: list[InputItem] = []
        seen: set[str] = set()
        for number, item in enumerate(given):
            is_reference = item.type == REFERENCE
            if is_reference and item.id in seen:
                continue  # some clients refer to a call and to its result, which are one item
            if item.id:
                seen.add(item.id)
            has_result = item.output is not None or item.error is not None
            if not is_reference and (item.type != SERVER_CALL or has_result):
                items.append(item)
                continue
            response_id, index = parse_item_id(item.id or "")
            if response_id and response_id not in outputs:
                stored = await self._store.responses.get(response_id, self._now())
                body = stored.body if stored else b'{"output":[]}'
                outputs[response_id] = msgspec.json.decode(body, type=_StoredOutput).output
            output = outputs.get(response_id, [])
            if index < len(output):
                items.append(output[index])
            elif is_reference:
                message = f"there is no stored item {(item.id or '')[:200]!r}"
                raise bad_request(message, param=f"input[{number}].id", code="item_not_found")
        return items

    async def _previous(self, name: str, response_id: str | None) -> StoredResponse | None:
        """Return the answer to continue from; None if there is none. Raises `ApiError`."""
        if name:
            return await self._store.responses.last(name, self._now())
        stored = None
        if response_id:
            stored = await self._store.responses.get(response_id, self._now())
            if stored is None:
                raise _no_previous(response_id)
        return stored

    async def _turn_request(
        self,
        wanted: ResponseRequest,
        talk: ClientConversation,
        previous: StoredResponse | None,
        claims: list[ApiClaim],
    ) -> TurnRequest:
        """Return what to run. If it continues the session of the previous answer, the claim of that
        session is added to `claims`; a session that has gone on since is continued in a new one."""
        text_format = wanted.text.get("format") if isinstance(wanted.text, dict) else None
        instructions = join_texts(
            wanted.instructions, talk.instructions, format_instructions(text_format)
        )
        request = TurnRequest(talk.message, instructions, history=talk.history)
        if previous is None:
            key = _conversation_key(instructions, talk.history) if talk.history else ""
            return replace(request, key=key)
        count = msgspec.json.decode(previous.body, type=_StoredPosition).hermes.messages
        claim = None
        try:
            if not talk.history:
                claim = await self._turns.claim_session(previous.session_id)
            if claim is not None:
                claims.append(claim)
                kept = self._turns.agents.get(_agent_key(previous.id))
                if kept is not None and await self._turns.is_current(kept):
                    return replace(request, session_id=claim.name)
            messages = repair_history(await self._store.messages(previous.session_id))
        except SessionNotFound:
            raise _no_previous(previous.id) from None
        if claim is not None and len(messages) == count and claim.name == previous.session_id:
            return replace(request, session_id=claim.name)
        if claim is not None:
            await self._turns.release([claims.pop()])
        return replace(request, history=(*messages[:count], *talk.history))

    async def _answer(
        self,
        request: ApiRequest,
        wanted: ResponseRequest,
        turn: ApiTurn,
        previous: StoredResponse | None,
        name: str,
    ) -> Response:
        builder = ResponseBuilder(
            ResponseObject(
                f"{RESPONSE_PREFIX}{secrets.token_hex(16)}",
                int(self._now()),
                wanted.model or self._model_name,
                SessionPosition(turn.session_id),
                instructions=wanted.instructions,
                previous_response_id=previous.id if previous and not name else None,
                conversation=ConversationRef(name) if name else None,
                store=wanted.store is not False,
                metadata=wanted.metadata or {},
            )
        )
        headers = {SESSION_HEADER: turn.session_id}
        if wanted.stream:
            stream = self._stream(turn, builder, previous)
            return EventStream(request, stream, headers, turn.close)
        async with aclosing(self._run(turn, builder, previous)) as events:
            async for _event in events:
                pass
        if builder.error is not None:
            builder.error.headers |= headers
            raise builder.error
        return json_response(builder.response, headers=headers)

    async def _stream(
        self, turn: ApiTurn, builder: ResponseBuilder, previous: StoredResponse | None
    ) -> AsyncGenerator[bytes, None]:
        for fields in builder.start():
            yield sse_event(fields, fields["type"])
        try:
            async with aclosing(self._run(turn, builder, previous)) as events:
                async for fields in events:
                    yield sse_event(fields, fields["type"])
        except StoreError as error:
            failed = ResponseError("store_failed", str(error))
            builder.response = replace(builder.response, status="failed", error=failed)
        last = builder.final_event()
        yield sse_event(last, last["type"])

    async def _run(
        self, turn: ApiTurn, builder: ResponseBuilder, previous: StoredResponse | None
    ) -> AsyncGenerator[Fields, None]:
        """Run the turn and yield its events. The result is stored before the client gets it."""
        async with aclosing(turn.events()) as events:
            async for event in events:
                for fields in builder.feed(event):
                    yield fields
                if not isinstance(event, TurnFinished):
                    continue
                response = builder.finish(event, messages=len(turn.agent.history))
                if response.status != "failed" and response.store:
                    turn.keep_as(_agent_key(response.id))
                    if previous is None:  # the client may continue with the whole conversation
                        given = turn.request
                        output = msgspec.convert(msgspec.to_builtins(response.output), InputItems)
                        said = (*given.history, given.message, *input_messages(output))
                        turn.keep_as(_conversation_key(given.instructions, repair_history(said)))
                    stored = StoredResponse(
                        response.id,
                        msgspec.json.encode(response),
                        event.session_id,
                        response.conversation.id if response.conversation else "",
                        previous.id if previous else "",
                        response.created_at,
                    )
                    await self._store.responses.save(stored, self._now())


def _conversation_key(instructions: str, messages: Sequence[Message]) -> str:
    digest = ConversationDigest("responses", instructions)
    digest.add_messages(messages)
    return digest.key


def _agent_key(response_id: str) -> str:
    return f"response:{response_id}"


def _not_stored(response_id: str) -> ApiError:
    return not_found(f"there is no response {response_id[:200]}", "response_not_found")


def _no_previous(response_id: str) -> ApiError:
    return bad_request(
        f"there is no response {response_id[:200]} to go on from",
        param="previous_response_id",
        code="previous_response_not_found",
    )
