"""/v1/responses: the server keeps the conversation, and goes on from any answer of it."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from hermes.core.errors import SessionNotFound, StoreError
from hermes.core.events import TurnFinished
from hermes.core.messages import Message
from hermes.gateway.platforms.api_server.exchange import SSE, Reply, Request, answered, event_bytes
from hermes.gateway.platforms.api_server.forms import form_wanted, joined
from hermes.gateway.platforms.api_server.reading import Conversation, conversation
from hermes.gateway.platforms.api_server.refusals import Refused, failure_of, invalid, missing
from hermes.gateway.platforms.api_server.responses.reading import input_messages
from hermes.gateway.platforms.api_server.responses.unfolding import Told, Unfolding
from hermes.gateway.platforms.api_server.responses.wire import (
    ConversationRef,
    ResponseDeleted,
    ResponseError,
    ResponseObject,
    ResponseRequest,
    Where,
)
from hermes.gateway.platforms.api_server.turns import Ask, Running, Turns
from hermes.store.records import StoredResponse
from hermes.store.rows import repair
from hermes.store.session_store import SessionStore

SESSION = "X-Hermes-Session-Id"


class _Kept(msgspec.Struct, frozen=True):
    """What is read of a stored response to go on from it."""

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
        """Conversations that an answer is made in; each goes on once at a time."""

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
        running.on_close(lambda *, failed: leave())  # noqa: ARG005 - the name is Closed's
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
        """Wait for one's turn in a named conversation; the result ends it."""
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
        """The answer to go on from; None when there is none. Raises `Refused`."""
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
        """The conversation up to an answer, and whether it has not gone on since."""
        count = msgspec.json.decode(past.body, type=_Kept).hermes.messages
        try:
            messages = repair(await self._store.messages(past.session_id))
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
        """What came of it is stored before the client hears of it."""
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
