"""A session with a server: handshake, requests with a timeout, lists in pages, notifications; and
the session of Hermes behind a call, with its user and its model."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple, Protocol

import msgspec

from hermes import __version__
from hermes.core.errors import HermesError, ToolTimedOut
from hermes.core.model import ModelRequest, Reply
from hermes.core.ports import Clarifier
from hermes.core.tool import ToolContext
from hermes.mcp.transport import (
    MODERN_VERSION,
    UNSUPPORTED_VERSION,
    VERSIONS,
    ConnectionLostError,
    HttpStatusError,
    McpError,
    McpLimits,
    McpTransport,
    ProbeFailedError,
    ServerLog,
    ServerRefused,
    ServerUnauthorized,
    ServerUnavailable,
    SessionExpiredError,
    one_line,
)
from hermes.util.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    JsonRpcConnection,
    JsonRpcMessage,
    RpcError,
    RpcResultMissing,
)

log = logging.getLogger(__name__)
CLIENT_INFO = {"name": "hermes", "title": "Hermes", "version": __version__}

MAX_PAGES, MAX_ITEMS = 50, 1_000  #: Bounds of a list; further items are left out.
MAX_PROGRESS_LINES, PROGRESS_CHARS = 200, 300  #: Bounds of the displayed progress of one call.
LOG_LEVELS = {
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.ERROR,
    "alert": logging.ERROR,
    "emergency": logging.ERROR,
}
NOISE_CHARS = 100
PROBE_SECONDS = 3.0  #: How long a server may take to answer `server/discover`.
TASKS = "io.modelcontextprotocol/tasks"  #: Name of the extension.
MAX_ROUNDS, MAX_QUESTIONS = 10, 8
"""How often one call may ask for input, and how many questions it may ask each time."""
FIRST_POLL_PAUSE, MIN_POLL_PAUSE, MAX_POLL_PAUSE = 0.5, 0.1, 30.0
POLL_RETRY_PAUSES = (0.5, 2.0, 8.0)
MAX_TASK_ID_CHARS = 1_000
MAX_MILLISECONDS = 365 * 86_400_000
FIRST_LISTEN_PAUSE, MAX_LISTEN_PAUSE, MAX_LISTEN_FAILURES = 1.0, 60.0, 5
WITH_INPUT = ("tools/call", "prompts/get", "resources/read")
"""Methods whose result may be `input_required`."""
MAX_PAUSE_SECONDS = 900.0
"""Total time for which a call may be paused, so that a server cannot ask endlessly."""


class Sampler(Protocol):
    """Asks a model on behalf of a server."""

    async def ask(self, request: ModelRequest, wishes: tuple[str, ...]) -> Reply:
        """Ask the first known model of `wishes` (best first), or the default model.

        Raises `ProviderError`.
        """
        ...


class Caller(msgspec.Struct, frozen=True, eq=False):
    """The session behind some tools."""

    clarifier: Clarifier | None = None  #: None without a user: questions of servers are declined.
    sampler: Sampler | None = None
    asking: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held during a question, because a user answers one at a time."""


NO_CALLER = Caller()


class CallTicket:
    """One call in progress. Its `deadline` is suspended while the user answers a question."""

    def __init__(self, call: ToolContext, caller: Caller) -> None:
        self.call, self.caller = call, caller
        self.deadline: asyncio.Timeout | None = None
        self._patience = MAX_PAUSE_SECONDS

    @contextmanager
    def paused(self) -> Iterator[None]:
        deadline = self.deadline
        when = deadline.when() if deadline is not None else None
        if deadline is None or when is None:
            yield
            return
        loop = asyncio.get_running_loop()
        began, left = loop.time(), when - loop.time()
        deadline.reschedule(when + self._patience)
        try:
            yield
        finally:
            self._patience = max(0.0, self._patience - (loop.time() - began))
            if self.deadline is deadline:  # the call has not ended meanwhile
                deadline.reschedule(loop.time() + left)


TicketHandler = Callable[[dict[str, Any], CallTicket | None], Awaitable[Any]]
"""Answers a request of the server. The ticket is that of the call the request belongs to, if it is
known. Raises `ServerRefused`."""


class ServerInfo(msgspec.Struct, frozen=True):
    """The server's answer to `server/discover` or `initialize`."""

    protocol: str
    name: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = {}
    instructions: str = ""

    def has(self, ability: str) -> bool:
        return ability in self.capabilities


class ListResult(NamedTuple):
    items: list[Any]
    more: bool  #: Whether further items were left out.
    fresh_seconds: float = 0.0  #: For how long the server promises not to change the list.


class McpSession:
    """One session, and the listener of its transport.

    `on_changed` is called with `tools`, `resources` or `prompts` when the server reports that this
    list has changed.
    """

    def __init__(
        self,
        name: str,
        transport: McpTransport,
        *,
        handlers: dict[str, TicketHandler],
        capabilities: Mapping[str, Any],
        limits: McpLimits,
        on_changed: Callable[[str], None],
    ) -> None:
        self.name, self.transport = name, transport
        self._capabilities, self._on_changed = capabilities, on_changed
        self._handlers = handlers
        self._listening: asyncio.Task[None] | None = None
        self.modern = False  #: Whether requests are sent without a handshake.
        self._server_log = ServerLog(name, limits.log_lines)
        self._limits = limits
        self._unsolicited, self._counted_at = 0.0, time.monotonic()  #: A leaky bucket.
        self._rpc = JsonRpcConnection[CallTicket](
            transport.send,
            {method: self._with_ticket(handler) for method, handler in handlers.items()},
            self._on_notification,
            expected=HermesError,
            cancel_method="notifications/cancelled",
            progress_method="notifications/progress",
        )
        self._on_lost: Callable[[McpError], None] = lambda _error: None
        self.noise = ""  #: The first received text that was not a message.
        self.server_info = ServerInfo("")
        self.last_method = ""  #: Method of the last request; empty before the first.

    @property
    def alive(self) -> bool:
        return self._rpc.lost_error is None

    def when_lost(self, call: Callable[[McpError], None]) -> None:
        self._on_lost = call

    # Called by the transport, in the event loop.

    def received(self, message: JsonRpcMessage, origin: int | None) -> None:
        """Handle a message. `origin` is our request in whose response it came, if it is known."""
        if self._rpc.settle(message):
            return
        now = time.monotonic()
        free = (now - self._counted_at) * self._limits.messages_per_second
        self._unsolicited, self._counted_at = max(0.0, self._unsolicited - free) + 1, now
        if self._unsolicited > self._limits.messages:
            self.lost(
                ConnectionLostError(f"{self.name} sends messages without an end and was stopped")
            )
        elif message.method:
            self._rpc.dispatch(message, origin)
        else:
            text = message.result or message.error or "JSON of another kind"
            if message.is_answer:
                text = "an answer without a request"
            elif not self.noise:
                self.noise = one_line(str(text), NOISE_CHARS)
            self._server_log.write(f"not a valid message: {text}")

    def failed(self, request: int, error: McpError) -> None:
        """Let our request fail: it will get no answer."""
        self._rpc.fail(request, error)

    def lost(self, error: McpError) -> None:
        """Let all requests fail, because the connection has ended."""
        if self.alive:
            self._rpc.lost(error)
            self._on_lost(error)

    async def open(self, *, handshake: bool) -> None:
        """Connect, without a timeout of its own. Raises `McpError`.

        The server is asked for its version with `server/discover` unless it is known to need the
        `handshake`. Older servers answer that with an error, with something else, or not at all.
        Raises `ProbeFailedError` if the connection ended at this request.
        """
        await self.transport.start(self)
        if not handshake and await self._discover(PROBE_SECONDS):
            return
        try:
            await self._initialize()
        except (ServerRefused, HttpStatusError) as error:
            # The server was updated since it was known to need the handshake, or started slowly.
            if isinstance(error, ServerRefused):
                again = error.code in (UNSUPPORTED_VERSION, METHOD_NOT_FOUND)
            else:
                again = handshake and self.transport.kind == "http"
            if not again or not await self._discover(PROBE_SECONDS):
                raise

    async def _discover(self, seconds: float) -> bool:
        """Return whether the server supports the version without a handshake, and begin to use it.

        Raises `ServerUnauthorized` or `ProbeFailedError`. The error of the handshake that follows
        says more than any other.
        """
        self.last_method, self.modern, result = "server/discover", True, None
        self.transport.set_version(MODERN_VERSION)
        try:
            async with asyncio.timeout(seconds):
                result = await self._request("server/discover", {})
        except ServerUnauthorized:
            raise
        except (McpError, TimeoutError) as error:
            if not self.alive:
                raise ProbeFailedError(str(error)) from error
            log.debug("%s did not answer `server/discover`: %s", self.name, error)
        versions = result.get("supportedVersions") if isinstance(result, dict) else None
        if isinstance(result, dict) and isinstance(versions, list) and MODERN_VERSION in versions:
            meta = result.get("_meta")
            info = meta.get("io.modelcontextprotocol/serverInfo") if isinstance(meta, dict) else {}
            self.server_info = _parse_server_info(MODERN_VERSION, info, result)
            tools = self.server_info.capabilities.get("tools")
            if isinstance(tools, dict) and tools.get("listChanged") is True:
                self._listening = asyncio.create_task(self._listen())
            return True
        self.modern = False
        self.transport.set_version("")
        return False

    async def _initialize(self) -> None:
        self.last_method = "initialize"
        result = await self._request(
            "initialize",
            {
                "protocolVersion": VERSIONS[0],
                "capabilities": self._capabilities,
                "clientInfo": CLIENT_INFO,
            },
        )
        if not isinstance(result, dict):
            raise ServerUnavailable(
                f"{self.name} does not speak MCP: its greeting is not an object"
            )
        version = result.get("protocolVersion")
        if version not in VERSIONS:
            raise ServerUnavailable(
                f"{self.name} speaks version {str(version)[:40]!r} of MCP, which is not known here",
                hint=f"known are {', '.join((MODERN_VERSION, *VERSIONS))}; update the server or"
                " Hermes",
            )
        self.server_info = _parse_server_info(version, result.get("serverInfo"), result)
        self.transport.set_version(self.server_info.protocol)
        self.last_method = "notifications/initialized"
        await self._rpc.notify(self.last_method)
        self.transport.listen()

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        graceful = self.alive
        if graceful:
            self._on_lost = lambda _error: None
            self.lost(ServerUnavailable(f"the connection to {self.name} was closed"))
        await self._rpc.close()
        await self.transport.close(graceful=graceful)

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        *,
        seconds: float,
        ticket: CallTicket,
        as_task: bool = False,
    ) -> dict[str, Any]:
        """Send a request and return its result, which may take several requests.

        Progress is shown to the user of the ticket and does not extend the timeout. With `as_task`
        a server that needs the handshake is asked to run the call as a task.
        """
        if as_task and not self.modern:
            params = {**params, "task": {"ttl": int(seconds * 1_000) or None}}
        async with self._timeout(seconds) as deadline:
            ticket.deadline = deadline
            try:
                result = await self._result(method, params, ticket)
                try:
                    return await self._complete(method, params, result, ticket)
                except SessionExpiredError as error:
                    # The first request was processed, so the call is not repeated.
                    raise ConnectionLostError(str(error)) from error
            finally:
                ticket.deadline = None

    async def _complete(
        self, method: str, params: dict[str, Any], result: dict[str, Any], ticket: CallTicket
    ) -> dict[str, Any]:
        """Answer the questions of the server and wait for its task until the result is there."""
        if "task" in params:
            task = result.get("task")
            return await self._follow_task(task if isinstance(task, dict) else {}, ticket)
        pause = MIN_POLL_PAUSE
        for _ in range(MAX_ROUNDS):
            match result.get("resultType", "complete") if self.modern else "complete":
                case "input_required" if method in WITH_INPUT:
                    again = dict(params)
                    if isinstance(state := result.get("requestState"), str):
                        again["requestState"] = state
                    if questions := result.get("inputRequests"):
                        again["inputResponses"] = await self._answer(questions, ticket)
                    else:
                        await asyncio.sleep(pause)
                        pause = min(pause * 2, FIRST_POLL_PAUSE)
                    result = await self._result(method, again, ticket)
                case "task" if method == "tools/call":
                    return await self._follow_task(result, ticket)
                case _:
                    return self._checked(method, result)
        raise McpError(f"{self.name} asked for input {MAX_ROUNDS} times and was stopped")

    async def _answer(self, questions: Any, ticket: CallTicket) -> dict[str, Any]:
        """Return the answers to the questions of a result, by key. Raises `ServerRefused`."""
        if not isinstance(questions, dict) or len(questions) > MAX_QUESTIONS:
            raise McpError(f"{self.name} asked for input in a way that is not understood")
        answers: dict[str, Any] = {}
        for key, question in questions.items():
            method = question.get("method") if isinstance(question, dict) else None
            handler = self._handlers.get(method) if isinstance(method, str) else None
            if handler is None:
                raise McpError(f"{self.name} asked for {str(method)[:100]!r}, which is not offered")
            given = question.get("params")
            try:
                answers[key] = await handler(given if isinstance(given, dict) else {}, ticket)
            except (ServerRefused, msgspec.ValidationError) as error:
                code = error.code if isinstance(error, ServerRefused) else INVALID_PARAMS
                text = f"{self.name}: it asked for {method}, which was refused: {error}"
                raise ServerRefused(text, code) from error
        return answers

    async def _follow_task(self, task: dict[str, Any], ticket: CallTicket) -> dict[str, Any]:
        """Poll a task until it ends and return its result; cancel it if the call is cancelled."""
        number = task.get("taskId")
        if not isinstance(number, str) or not 0 < len(number) <= MAX_TASK_ID_CHARS:
            raise McpError(f"{self.name} began a task without an identifier")
        params = {"taskId": number}
        try:
            task = await self._poll(task, params, ticket)
            if not self.modern and task.get("status") != "cancelled":
                # Here such a server also asks its questions.
                return await self._result("tasks/result", params, ticket)
        except (asyncio.CancelledError, McpError):
            if self.alive:
                self._rpc.post("tasks/cancel", self._with_meta(params), as_request=True)
            raise
        result, error = task.get("result"), task.get("error")
        if task.get("status") == "completed" and isinstance(result, dict):
            return self._checked("tools/call", result)
        fault = error if isinstance(error, dict) else {}
        text = fault.get("message") or task.get("statusMessage") or "no reason given"
        code = fault.get("code")
        raise ServerRefused(
            f"{self.name}: the task {task['status']}: {str(text)[:2_000]}",
            code if isinstance(code, int) else 0,
            fault.get("data"),
        )

    async def _poll(
        self, task: dict[str, Any], params: dict[str, Any], ticket: CallTicket
    ) -> dict[str, Any]:
        """Return the task when it has ended, and in the handshake era when it needs input."""
        show, shown, answered = _progress_printer(ticket), "", set[str]()
        pause = FIRST_POLL_PAUSE
        while (status := task.get("status")) not in ("completed", "failed", "cancelled"):
            if status not in ("working", "input_required"):
                raise McpError(f"{self.name} reports a task in an unknown state")
            if isinstance(message := task.get("statusMessage"), str) and message != shown:
                show({"message": message})
                shown = message
            if status == "input_required":
                if not self.modern:
                    break
                await self._update_task(task, params, answered, ticket)
            wish = _seconds(task.get("pollIntervalMs", task.get("pollInterval")))
            await asyncio.sleep(min(max(wish or pause, MIN_POLL_PAUSE), MAX_POLL_PAUSE))
            pause = min(pause * 2, MAX_POLL_PAUSE)
            task = await self._task_state(params)
        return task

    async def _task_state(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the state of a task. A task outlives a connection, so the request is repeated."""
        for pause in POLL_RETRY_PAUSES:
            try:
                return self._checked("tasks/get", await self._result("tasks/get", params))
            except (ServerRefused, ServerUnauthorized):
                raise
            except McpError as error:
                if not self.alive:
                    raise
                log.info("%s: the state of a task is not known: %s", self.name, error)
            await asyncio.sleep(pause)
        return self._checked("tasks/get", await self._result("tasks/get", params))

    async def _update_task(
        self, task: dict[str, Any], params: dict[str, Any], answered: set[str], ticket: CallTicket
    ) -> None:
        """Answer the questions of a task that are not in `answered`, and add them."""
        questions = task.get("inputRequests")
        if isinstance(questions, dict):
            questions = {key: each for key, each in questions.items() if key not in answered}
        if not questions:
            return  # the server has not processed the answers yet
        answers = await self._answer(questions, ticket)
        answered |= set(answers)
        if len(answered) > MAX_ROUNDS:
            raise McpError(f"{self.name} asked for input {MAX_ROUNDS} times and was stopped")
        update = {**params, "inputResponses": answers}
        self._checked("tasks/update", await self._result("tasks/update", update))

    def _checked(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request if it is complete. Raises `McpError`."""
        kind = result.get("resultType", "complete") if self.modern else "complete"
        if kind != "complete":
            raise McpError(
                f"{self.name} answered {method} with a result of the type"
                f" {one_line(str(kind), 50)!r}, which is not expected there"
            )
        return result

    async def _listen(self) -> None:
        """Subscribe to changes of the tools, again whenever the subscription ends.

        Nothing is lost if the server ends it for good: the tools are read again when they are no
        longer fresh.
        """
        failures, pause, filters = 0, FIRST_LISTEN_PAUSE, {"toolsListChanged": True}
        while self.alive and failures < MAX_LISTEN_FAILURES:
            began = time.monotonic()
            try:
                await self._request("subscriptions/listen", {"notifications": filters})
            except ServerRefused as error:
                log.debug("%s offers no subscription: %s", self.name, error)
                return
            except McpError as error:
                log.info("the subscription of %s: %s", self.name, error)
            useful = time.monotonic() - began > MAX_LISTEN_PAUSE
            failures, pause = (0, FIRST_LISTEN_PAUSE) if useful else (failures + 1, pause * 2)
            await asyncio.sleep(min(pause, MAX_LISTEN_PAUSE))
            if useful:
                self._on_changed("tools")  # a change may have been missed

    async def pages(self, method: str, key: str, *, seconds: float) -> ListResult:
        """Return the items of a list in pages, within `seconds` for all pages."""
        items: list[Any] = []
        params: dict[str, Any] = {}
        fresh = math.inf
        async with self._timeout(seconds):
            for _ in range(MAX_PAGES):
                result = self._checked(method, await self._result(method, params))
                ttl = result.get("ttlMs")
                fresh = min(fresh, _seconds(ttl))
                page = result.get(key)
                items += page if isinstance(page, list) else []
                cursor = result.get("nextCursor")
                if not isinstance(cursor, str) or not cursor or {"cursor": cursor} == params:
                    return ListResult(items[:MAX_ITEMS], len(items) > MAX_ITEMS, fresh)
                if len(items) >= MAX_ITEMS:
                    break
                params = {"cursor": cursor}
        return ListResult(items[:MAX_ITEMS], more=True)

    @asynccontextmanager
    async def _timeout(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        try:
            async with asyncio.timeout(seconds or None) as deadline:
                yield deadline
        except TimeoutError:
            raise ToolTimedOut(
                f"{self.name} did not answer within {seconds:g} seconds",
                hint="`timeout` of the server in mcp_servers allows more",
            ) from None

    async def _result(
        self, method: str, params: dict[str, Any], ticket: CallTicket | None = None
    ) -> dict[str, Any]:
        self.last_method = method
        progress = _progress_printer(ticket) if ticket is not None else None
        result = await self._request(method, params, tag=ticket, on_progress=progress)
        if not isinstance(result, dict):
            raise McpError(f"{self.name} answered {method} with something else than an object")
        return result

    async def _request(self, method: str, params: dict[str, Any], **options: Any) -> Any:
        if self._rpc.lost_error is not None:
            # Nothing was sent, so the caller may repeat the request in another session.
            raise SessionExpiredError(str(self._rpc.lost_error))

        def on_cancel(number: int) -> bool:
            self.transport.forget(number)
            # Without a session, the end of an HTTP request is its cancellation.
            closed = self.modern and self.transport.kind == "http"
            return not closed and method not in ("initialize", "server/discover")

        try:
            return await self._rpc.request(
                method, self._with_meta(params), on_cancel=on_cancel, **options
            )
        except RpcResultMissing as error:
            raise ConnectionLostError(f"{self.name} {error}") from None
        except RpcError as error:
            text = f"{self.name}: {str(error)[:2_000]}"
            raise ServerRefused(text, error.code, error.data) from None

    def _with_meta(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters of a request with what a server without a handshake needs."""
        if not self.modern:
            return params
        prefix = "io.modelcontextprotocol/"
        meta = {
            f"{prefix}protocolVersion": MODERN_VERSION,
            f"{prefix}clientInfo": CLIENT_INFO,
            f"{prefix}clientCapabilities": {**self._capabilities, "extensions": {TASKS: {}}},
        }
        return {**params, "_meta": meta}

    def _with_ticket(self, handler: TicketHandler) -> Any:
        """Return a handler that gets the ticket of the call that a request belongs to.

        That is the call in whose response it arrived, else the last one if all calls in progress
        belong to one session. Otherwise it is unknown which user the request concerns.
        """

        async def answer(params: dict[str, Any], origin: int | None) -> Any:
            tickets = self._rpc.tags(origin)
            known = len({ticket.call.session_id for ticket in tickets}) == 1
            return await handler(params, tickets[-1] if known else None)

        return answer

    def _on_notification(self, method: str, params: dict[str, Any]) -> None:
        match method.split("/"):
            case ["notifications", ("tools" | "resources" | "prompts") as what, "list_changed"]:
                self._on_changed(what)
            case ["notifications", "message"]:
                level = LOG_LEVELS.get(str(params.get("level")), logging.INFO)
                self._server_log.write(str(params.get("data")), level)
            case _:
                self._server_log.write(method, logging.DEBUG)


def _parse_server_info(version: str, info: Any, result: dict[str, Any]) -> ServerInfo:
    about = info if isinstance(info, dict) else {}
    capabilities = result.get("capabilities")
    return ServerInfo(
        version,
        str(about.get("name", ""))[:100],
        str(about.get("version", ""))[:50],
        capabilities if isinstance(capabilities, dict) else {},
        str(result.get("instructions") or "")[:5_000],
    )


def _seconds(milliseconds: Any) -> float:
    """Return a duration of the server in seconds, at most a year; 0 if it is not a duration."""
    known = isinstance(milliseconds, int | float) and milliseconds > 0
    return min(milliseconds, MAX_MILLISECONDS) / 1_000 if known else 0.0


def _progress_printer(ticket: CallTicket) -> Callable[[dict[str, Any]], None]:
    left = MAX_PROGRESS_LINES

    def progress(params: dict[str, Any]) -> None:
        nonlocal left
        left -= 1
        message, done, total = (params.get(key) for key in ("message", "progress", "total"))
        text = ""
        if isinstance(message, str) and message.strip():
            text = one_line(message, PROGRESS_CHARS)
        elif isinstance(done, int | float):
            text = f"{done:g} of {total:g}" if isinstance(total, int | float) else f"{done:g}"
        if left >= 0 and text:
            ticket.call.output(f"{text}\n")

    return progress
