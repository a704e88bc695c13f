"""A JSON-RPC connection over a transport; both sides send requests and notifications."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from hermes.core.errors import HermesError
from hermes.mcp.caller import CallTicket
from hermes.mcp.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ConnectionLostError,
    McpError,
    ServerRefused,
    SessionExpiredError,
)
from hermes.mcp.transport import (
    JsonRpcMessage,
    McpLimits,
    McpTransport,
    ServerLog,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    one_line,
)

MAX_INCOMING_REQUESTS = 8
"""Number of requests of the server that are handled at the same time."""
NOISE_CHARS = 100

NotificationHandler = Callable[[str, Any], None]
RequestHandler = Callable[[dict[str, Any], CallTicket | None], Awaitable[Any]]
"""Answers a request of the server. The ticket is that of the call the request belongs to, if it is
known. Raises `ServerRefused`."""

log = logging.getLogger(__name__)


class _PendingRequest(msgspec.Struct, frozen=True, eq=False):
    future: asyncio.Future[Any]
    ticket: CallTicket | None = None
    progress: Callable[[dict[str, Any]], None] | None = None


class JsonRpcConnection:
    """`on_notification` gets the notifications, `asked` the answers to give by method."""

    def __init__(
        self,
        name: str,
        transport: McpTransport,
        on_notification: NotificationHandler,
        handlers: dict[str, RequestHandler],
        limits: McpLimits,
        server_log: ServerLog,
    ) -> None:
        self._name, self._transport = name, transport
        self._on_notification, self._handlers, self._server_log = (
            on_notification,
            handlers,
            server_log,
        )
        self._numbers = itertools.count(1)
        self._pending: dict[int, _PendingRequest] = {}
        self._incoming: dict[int | str, asyncio.Task[None]] = {}
        self._background_sends: set[asyncio.Task[None]] = set()
        self._flood = _FloodGuard(limits)
        self.noise = ""
        """The first received text that was not a message."""
        self.lost_error: McpError | None = None
        """Why the connection ended; None while it exists."""
        self.on_lost: Callable[[McpError], None] = lambda _error: None

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        *,
        ticket: CallTicket | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> Any:
        """Send a request and return its result. If cancelled, the server is notified.

        Raises `ServerRefused`, or `ConnectionLostError` when the connection ends.
        """
        if self.lost_error is not None:
            # Nothing was sent, so the caller may repeat the request in another session.
            raise SessionExpiredError(str(self.lost_error))
        number = next(self._numbers)
        if progress is not None:
            params = {**params, "_meta": {"progressToken": number}}
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = _PendingRequest(future, ticket, progress)
        try:
            await self._transport.send(encode_request(number, method, params), number)
            return await future
        except asyncio.CancelledError:
            self._abandon(number, method)
            raise
        finally:
            del self._pending[number]
            if future.done() and not future.cancelled():
                future.exception()  # mark as retrieved, in case the caller was cancelled

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        await self._transport.send(encode_notification(method, params))

    async def close(self) -> None:
        tasks = [*self._incoming.values(), *self._background_sends]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def received(self, message: JsonRpcMessage, origin: int | None) -> None:
        pending = self._pending.get(message.id) if isinstance(message.id, int) else None
        if message.is_answer and pending is not None and not pending.future.done():
            self._resolve(pending.future, message)
        elif self._flood.over():
            self.lost(
                ConnectionLostError(f"{self._name} sends messages without an end and was stopped")
            )
        elif not message.method:
            text = message.result or message.error or "JSON of another kind"
            if message.is_answer:
                text = "an answer without a request"
            elif not self.noise:
                self.noise = one_line(str(text), NOISE_CHARS)
            self._server_log.write(f"not a valid message: {text}")
        elif message.id is None:
            self._handle_notification(message.method, message.params)
        else:
            self._handle_request(message.id, message, origin)

    def failed(self, request: int, error: McpError) -> None:
        pending = self._pending.get(request)
        if pending is not None and not pending.future.done():
            pending.future.set_exception(error)

    def lost(self, error: McpError) -> None:
        if self.lost_error is not None:
            return
        self.lost_error = error
        for number in tuple(self._pending):
            self.failed(number, error)
        for task in self._incoming.values():
            task.cancel()
        self.on_lost(error)

    def _resolve(self, future: asyncio.Future[Any], message: JsonRpcMessage) -> None:
        if message.error is not None:
            future.set_exception(_refusal(self._name, message.error))
        elif message.result is msgspec.UNSET:
            future.set_exception(ConnectionLostError(f"{self._name} answered without a result"))
        else:
            future.set_result(message.result)

    def _abandon(self, number: int, method: str) -> None:
        self._transport.forget(number)
        if self.lost_error is None and method != "initialize":
            cancelled = encode_notification(
                "notifications/cancelled", {"requestId": number, "reason": "nobody waits for it"}
            )
            self._send_in_background(cancelled)

    def _handle_notification(self, method: str, params: Any) -> None:
        known = params if isinstance(params, dict) else {}
        if method == "notifications/progress":
            token = known.get("progressToken")
            pending = self._pending.get(token) if isinstance(token, int) else None
            if pending is not None and pending.progress is not None:
                pending.progress(known)
        elif method == "notifications/cancelled":
            number = known.get("requestId")
            if isinstance(number, int | str) and number in self._incoming:
                self._incoming[number].cancel()
        else:
            self._on_notification(method, known)

    def _handle_request(
        self, number: int | str, message: JsonRpcMessage, origin: int | None
    ) -> None:
        answer = self._handlers.get(message.method)
        if answer is None:
            text = f"not offered: {message.method[:100]}"
            self._send_in_background(encode_error(number, METHOD_NOT_FOUND, text))
        elif len(self._incoming) >= MAX_INCOMING_REQUESTS or number in self._incoming:
            self._send_in_background(
                encode_error(number, INTERNAL_ERROR, "too many requests at once")
            )
        else:
            task = asyncio.create_task(self._answer(number, answer, message, origin))
            self._incoming[number] = task
            task.add_done_callback(lambda _: self._incoming.pop(number, None))

    async def _answer(
        self, number: int | str, answer: RequestHandler, message: JsonRpcMessage, origin: int | None
    ) -> None:
        params = message.params if isinstance(message.params, dict) else {}
        try:
            data = encode_result(number, await answer(params, self._ticket_for(origin)))
        except ServerRefused as refusal:
            data = encode_error(number, refusal.code, str(refusal))
        except (msgspec.ValidationError, RecursionError) as error:
            data = encode_error(number, INVALID_PARAMS, str(error))
        except HermesError as error:
            data = encode_error(number, INTERNAL_ERROR, str(error))
        await self._send(data)

    def _ticket_for(self, origin: int | None) -> CallTicket | None:
        """Return the ticket of the call that a request of the server belongs to.

        That is the call in whose response it arrived, else the last one if all calls in progress
        belong to one session. Otherwise it is unknown which user the request concerns.
        """
        pending = self._pending.get(origin) if origin is not None else None
        if pending is not None and pending.ticket is not None:
            return pending.ticket
        tickets = [each.ticket for each in self._pending.values() if each.ticket is not None]
        if len({ticket.call.session_id for ticket in tickets}) == 1:
            return tickets[-1]
        return None

    def _send_in_background(self, data: bytes) -> None:
        if len(self._background_sends) >= 100:  # the server does not read its input
            return
        task = asyncio.create_task(self._send(data))
        self._background_sends.add(task)
        task.add_done_callback(self._background_sends.discard)

    async def _send(self, data: bytes) -> None:
        try:
            await self._transport.send(data)
        except McpError as error:
            log.info("message to %s could not be sent: %s", self._name, error)


class _FloodGuard:
    """Counts unsolicited messages (a leaky bucket)."""

    def __init__(self, limits: McpLimits) -> None:
        self._limits = limits
        self._count, self._since = 0.0, time.monotonic()

    def over(self) -> bool:
        now = time.monotonic()
        free = (now - self._since) * self._limits.messages_per_second
        self._count, self._since = max(0.0, self._count - free) + 1, now
        return self._count > self._limits.messages


def _refusal(name: str, error: Any) -> ServerRefused:
    known = error if isinstance(error, dict) else {"message": error}
    code = known.get("code")
    text = str(known.get("message") or "no reason given")
    return ServerRefused(
        f"{name}: {text[:2_000]}", code if isinstance(code, int) else 0, known.get("data")
    )
