"""Requests, answers and notifications over a transport; either side may ask."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hermes.core.errors import HermesError
from hermes.mcp import transport
from hermes.mcp.caller import CallTicket
from hermes.mcp.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConnectionLostError,
    McpError,
    RequestRefused,
    SessionExpiredError,
)
from hermes.mcp.transport import JsonRpcMessage, McpLimits, McpTransport, ServerLog, one_line

MAX_INCOMING_REQUESTS = 8
"""Requests of the server that are worked on at a time."""
NOISE_CHARS = 100

NotificationHandler = Callable[[str, Any], None]
RequestHandler = Callable[[dict[str, Any], CallTicket | None], Awaitable[Any]]
"""Answers a request of the server; the ticket is that of the call it belongs to, if that is
certain. Raises `Refused`."""

log = logging.getLogger(__name__)


class _PendingRequest(msgspec.Struct, frozen=True, eq=False):
    future: asyncio.Future[Any]
    ticket: CallTicket | None = None
    progress: Callable[[dict[str, Any]], None] | None = None


class JsonRpcConnection:
    """`heard` gets the notifications, `asked` the answers to give by method."""

    def __init__(
        self,
        name: str,
        transport: McpTransport,
        heard: NotificationHandler,
        asked: dict[str, RequestHandler],
        limits: McpLimits,
        diary: ServerLog,
    ) -> None:
        self._name, self._transport = name, transport
        self._heard, self._asked, self._diary = heard, asked, diary
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _PendingRequest] = {}
        self._working: dict[int | str, asyncio.Task[None]] = {}
        self._passing: set[asyncio.Task[None]] = set()
        self._flood = _FloodGuard(limits)
        self.noise = ""
        """The first that came and was no message."""
        self.gone: McpError | None = None
        """Why there is no connection any more."""
        self.on_lost: Callable[[McpError], None] = lambda _error: None

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        ticket: CallTicket | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> Any:
        """The result. Raises `Refused`, or `Lost` when the connection ends. When the wait is
        cancelled the server is told so."""
        if self.gone is not None:
            raise SessionExpiredError(
                str(self.gone)
            )  # nothing was sent: another session can be asked
        number = next(self._numbers)
        if progress is not None:
            params = {**params, "_meta": {"progressToken": number}}
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _PendingRequest(future, ticket, progress)
        try:
            await self._transport.send(transport.encode_request(number, method, params), number)
            return await future
        except asyncio.CancelledError:
            self._abandon(number, method)
            raise
        finally:
            del self._waiting[number]
            if future.done() and not future.cancelled():
                future.exception()  # whoever went away meanwhile need not hear of it

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self._transport.send(transport.encode_notification(method, params))

    async def close(self) -> None:
        tasks = [*self._working.values(), *self._passing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def received(self, message: JsonRpcMessage, origin: int | None) -> None:
        waiting = self._waiting.get(message.id) if isinstance(message.id, int) else None
        if message.is_answer and waiting is not None and not waiting.future.done():
            self._settle(waiting.future, message)
        elif self._flood.over():
            self.lost(
                ConnectionLostError(f"{self._name} sends messages without an end and was stopped")
            )
        elif not message.method:
            said = message.result or message.error or "JSON of another kind"
            if message.is_answer:
                said = "an answer to nothing"
            elif not self.noise:
                self.noise = one_line(str(said), NOISE_CHARS)
            self._diary.note(f"this is no message: {said}")
        elif message.id is None:
            self._hear(message.method, message.params)
        else:
            self._work(message.id, message, origin)

    def failed(self, request: int, error: McpError) -> None:
        waiting = self._waiting.get(request)
        if waiting is not None and not waiting.future.done():
            waiting.future.set_exception(error)

    def lost(self, error: McpError) -> None:
        if self.gone is not None:
            return
        self.gone = error
        for number in tuple(self._waiting):
            self.failed(number, error)
        for task in self._working.values():
            task.cancel()
        self.on_lost(error)

    def _settle(self, future: asyncio.Future[Any], message: JsonRpcMessage) -> None:
        if message.error is not None:
            future.set_exception(_refused(self._name, message.error))
        elif message.result is msgspec.UNSET:
            future.set_exception(ConnectionLostError(f"{self._name} answered without a result"))
        else:
            future.set_result(message.result)

    def _abandon(self, number: int, method: str) -> None:
        self._transport.forget(number)
        if self.gone is None and method != "initialize":
            cancelled = transport.encode_notification(
                "notifications/cancelled", {"requestId": number, "reason": "nobody waits for it"}
            )
            self._in_passing(cancelled)

    def _hear(self, method: str, params: Any) -> None:
        known = params if isinstance(params, dict) else {}
        if method == "notifications/progress":
            token = known.get("progressToken")
            waiting = self._waiting.get(token) if isinstance(token, int) else None
            if waiting is not None and waiting.progress is not None:
                waiting.progress(known)
        elif method == "notifications/cancelled":
            number = known.get("requestId")
            if isinstance(number, int | str) and number in self._working:
                self._working[number].cancel()
        else:
            self._heard(method, known)

    def _work(self, number: int | str, message: JsonRpcMessage, origin: int | None) -> None:
        answer = self._asked.get(message.method)
        if answer is None:
            text = f"not offered: {message.method[:100]}"
            self._in_passing(transport.encode_error(number, METHOD_NOT_FOUND, text))
        elif len(self._working) >= MAX_INCOMING_REQUESTS or number in self._working:
            self._in_passing(
                transport.encode_error(number, INTERNAL_ERROR, "too many requests at once")
            )
        else:
            task = asyncio.create_task(self._answer(number, answer, message, origin))
            self._working[number] = task
            task.add_done_callback(lambda _: self._working.pop(number, None))

    async def _answer(
        self, number: int | str, answer: RequestHandler, message: JsonRpcMessage, origin: int | None
    ) -> None:
        params = message.params if isinstance(message.params, dict) else {}
        try:
            data = transport.encode_result(number, await answer(params, self._whose(origin)))
        except RequestRefused as refusal:
            data = transport.encode_error(number, refusal.code, str(refusal))
        except (msgspec.ValidationError, RecursionError) as error:
            data = transport.encode_error(number, INVALID_PARAMS, str(error))
        except HermesError as error:
            data = transport.encode_error(number, INTERNAL_ERROR, str(error))
        await self._send(data)

    def _whose(self, origin: int | None) -> CallTicket | None:
        """The call a request of the server belongs to: the one it came with, or the last one when
        all that are under way are of one session. Else nobody knows whom it concerns."""
        waiting = self._waiting.get(origin) if origin is not None else None
        if waiting is not None and waiting.ticket is not None:
            return waiting.ticket
        tickets = [each.ticket for each in self._waiting.values() if each.ticket is not None]
        if len({ticket.call.session_id for ticket in tickets}) == 1:
            return tickets[-1]
        return None

    def _in_passing(self, data: bytes) -> None:
        if len(self._passing) >= 100:  # it does not read what we say
            return
        task = asyncio.create_task(self._send(data))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _send(self, data: bytes) -> None:
        try:
            await self._transport.send(data)
        except McpError as error:
            log.info("%s could not be told: %s", self._name, error)


class _FloodGuard:
    """Counts what nobody asked for."""

    def __init__(self, limits: McpLimits) -> None:
        self._limits = limits
        self._count, self._since = 0.0, time.monotonic()

    def over(self) -> bool:
        now = time.monotonic()
        free = (now - self._since) * self._limits.messages_per_second
        self._count, self._since = max(0.0, self._count - free) + 1, now
        return self._count > self._limits.messages


def _refused(name: str, error: Any) -> RequestRefused:
    known = error if isinstance(error, dict) else {"message": error}
    code = known.get("code")
    text = str(known.get("message") or "no reason given")
    return RequestRefused(
        f"{name}: {text[:2_000]}", code if isinstance(code, int) else 0, known.get("data")
    )
