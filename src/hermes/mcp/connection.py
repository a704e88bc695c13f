"""The connection to one server: made on demand, restored after failures, closed when idle; and what
the server offers.

`ServerConnection` opens sessions over the transports that `TransportFactory` creates.
"""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.config.environment import is_secret_variable, unset_names, variables
from hermes.config.settings import McpServer
from hermes.core.errors import ToolError, ToolTimedOut
from hermes.core.ports import Clock
from hermes.mcp.catalog import CatalogCache, ServerCatalog, admit_tools
from hermes.mcp.oauth import StoredLoginAuthorizer
from hermes.mcp.requests import Elicitation, Sampling
from hermes.mcp.session import MAX_ITEMS, CallTicket, ListResult, McpSession, TicketHandler
from hermes.mcp.transport import (
    HEADER_MISMATCH,
    VERSIONS,
    ForeignEndpointError,
    HttpStatusError,
    McpError,
    McpLimits,
    McpTransport,
    ProbeFailedError,
    ServerRefused,
    ServerUnauthorized,
    ServerUnavailable,
    SessionExpiredError,
    one_line,
)
from hermes.plugins import describe_error
from hermes.security import REDACTION_MARK, Redactor
from hermes.security.injection import scan
from hermes.terminal import Boundary
from hermes.util.circuit_breaker import CircuitBreaker
from hermes.util.concurrency import in_thread
from hermes.util.text import human_duration, many

BASE_VARIABLES = frozenset({"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR"})
"""Variables that every program gets, in addition to its settings and `XDG_…`."""


class TransportFactory:
    """Creates the transports of a process and owns the lifeline that its programs share."""

    def __init__(self, limits: McpLimits, boundary: Boundary | None = None) -> None:
        """`boundary` keeps programs from Hermes' own files."""
        self.limits, self._boundary = limits, boundary
        self._lifeline: Any = None

    def kinds(self, name: str, settings: McpServer) -> tuple[str, ...]:
        """Return the transports to try, in order. Raises `ServerUnavailable` for bad settings."""
        if bool(settings.command) == bool(settings.url):
            what = "both `command` and `url`" if settings.url else "neither `command` nor `url`"
            raise ServerUnavailable(f"the MCP server {name} has {what}", hint="set one of them")
        if unset := _unset_variables(settings):
            what = "variables that are" if len(unset) > 1 else "a variable that is"
            raise ServerUnavailable(
                f"the settings of {name} name {what} not set: {', '.join(unset)}",
                hint=f"write {unset[0]}=… into .env; `hermes config env-path` says where that is",
            )
        if settings.command:
            return ("stdio",)
        return (settings.transport,) if settings.transport else ("http", "sse")

    def make(
        self, kind: str, name: str, settings: McpServer, authorizer: StoredLoginAuthorizer | None
    ) -> McpTransport:
        if kind == "stdio":
            return self._stdio_transport(name, settings)
        # Imported here: httpx2 is slow to load, and only servers with a `url` need it.
        from hermes.mcp.http import McpHttpClient, SseTransport, StreamableHttpTransport

        client = McpHttpClient(
            name, settings.url, settings.headers, authorizer, self.limits.message_bytes
        )
        return StreamableHttpTransport(client) if kind == "http" else SseTransport(client)

    async def close(self) -> None:
        if self._lifeline is not None:
            await self._lifeline.close()
            self._lifeline = None

    def _stdio_transport(self, name: str, settings: McpServer) -> McpTransport:
        try:
            from hermes.mcp import stdio  # needs fcntl and friends: absent on native Windows
        except ImportError as error:
            raise ServerUnavailable(
                f"the MCP server {name} is a program, and programs cannot be run here",
                hint="Linux, macOS and WSL2 can; or use a server with a `url`",
            ) from error
        if self._lifeline is None:
            try:
                self._lifeline = stdio.make_lifeline(self._boundary)
            except OSError as error:
                raise ServerUnavailable(f"no program can be started: {error.strerror}") from error
        command = (settings.command, *settings.args)
        return stdio.StdioTransport(
            name, command, program_environment(settings.env), self._lifeline, self.limits
        )


def _unset_variables(settings: McpServer) -> list[str]:
    """Return referenced variables without a value: sent literally, they would be taken for one.

    Arguments are not checked, because a shell or the program may expand them.
    """
    values = (settings.command, *settings.env.values(), settings.url, *settings.headers.values())
    return list(dict.fromkeys(name for value in values for name in unset_names(value)))


def program_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server's program, without the agent's own keys."""
    basis = {
        name: value
        for name, value in variables().items()
        if name in BASE_VARIABLES or name.startswith("XDG_")
    }
    return {**basis, **given}


# Broader than the patterns of `security`: in an error message a false positive does no harm.
_LOOSE = re.compile(
    r"(?P<keep>\bghp_|\bsk-|\bbearer\s+|"
    r"(?:token|key|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)"
    r"[^\s\"'&,;<>…]+",
    re.IGNORECASE,
)


class ErrorRedactor:
    """Redacts the secrets of one server's settings, and texts that look like secrets."""

    def __init__(self, settings: McpServer) -> None:
        known = [value for name, value in settings.env.items() if is_secret_variable(name)]
        for value in settings.headers.values():
            known += [value, value.partition(" ")[2]]
        self._redactor = Redactor(known)

    def redact(self, text: str) -> str:
        return _LOOSE.sub(rf"\g<keep>{REDACTION_MARK}", self._redactor.redact(text))


MAX_FAILURES = 3  #: Consecutive failures that open the circuit breaker.
FIRST_PAUSE, MAX_PAUSE = 30.0, 600.0


class McpOptions(msgspec.Struct, frozen=True):
    """Options of the client that are not settings of a server."""

    cache: Path | None = None
    """Folder of cached catalogs, `<home>/cache/mcp`; None disables the cache."""
    start_seconds: float = 5.0  #: How long a new session waits for servers whose tools are unknown.
    folder: str = ""  #: Working folder, for servers with `roots: cwd`.
    question_seconds: float = 120.0
    """How long the user may take to answer a question of a server (`clarify.timeout`)."""
    limits: McpLimits = McpLimits()
    boundary: Boundary | None = None  #: Keeps programs from Hermes' own files.


FIRST_REFRESH_PAUSE, MAX_REFRESH_PAUSE = 1.0, 60.0
"""Delay between a reported change and the refresh; doubles while changes keep coming."""
MAX_FRESH_SECONDS = 86_400.0  #: Longest time for which a server's list of tools is not read again.
MAX_PROBLEMS = 5  #: Rejected tools that a notice names.
NOTICE_CHARS = 2_000
PURPOSE_CHARS = 200
RETRY_PAUSES = (0.5, 1.5)  #: Seconds before the second and third attempt, after transient errors.

log = logging.getLogger(__name__)


T = TypeVar("T")


class ConnectionState(StrEnum):
    UNUSED = "starts at first use"
    IDLE = "not connected"
    CONNECTING = "connecting"
    READY = "connected"
    PAUSED = "left alone after failures"


class ServerConnection:
    """The connection to one server, shared by all calls, over the transport it supports; and the
    catalog of the server, from the cache or from the server itself.

    `tell` shows the user a line; each line is shown once. The user sees the first failure, the
    model sees all of them.
    """

    def __init__(
        self,
        name: str,
        settings: McpServer,
        transports: TransportFactory,
        options: McpOptions,
        *,
        clock: Clock,
        tell: Callable[[str], None],
        authorizer: StoredLoginAuthorizer | None = None,
    ) -> None:
        self.name, self.settings = name, settings
        self._transports, self._options = transports, options
        self._clock, self._authorizer, self._tell = clock, authorizer, tell
        self._cache = CatalogCache(options.cache)
        self.catalog = self._cache.load(name, settings)  #: None while unknown.
        self._handshake = self.catalog is not None and self.catalog.protocol in VERSIONS
        """Whether the server is known to need `initialize`, so that nothing else is tried."""
        self._fresh_until = self.catalog.fresh_until if self.catalog is not None else 0.0
        self._shown: set[str] = set()  #: Lines that the user has seen.
        self._quiet = False
        self._refreshing: asyncio.Task[None] | None = None
        self._changes = 0
        folders = [options.folder if each == "cwd" else each for each in settings.roots]
        self._roots = [Path(each).expanduser().absolute() for each in folders if each]
        self._sampling = Sampling(name, settings.sampling)
        self._elicitation = Elicitation(name, options.question_seconds)
        self.kind = ""  #: The transport that worked; empty before the first connection.
        self._opening: McpSession | None = None
        self._first_error: HttpStatusError | None = None
        """Error of the first transport, while the second one is tried."""
        self.redactor = ErrorRedactor(settings)
        self._breaker = CircuitBreaker(MAX_FAILURES, FIRST_PAUSE, MAX_PAUSE, clock.monotonic)
        self._session: McpSession | None = None
        self._connecting: asyncio.Task[McpSession] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._closed = False
        self._close_when_idle = False  #: The session ends as soon as no call is in progress.
        self._reported = False
        self._idle: asyncio.TimerHandle | None = None

    @property
    def state(self) -> ConnectionState:
        if self._session is not None:
            return ConnectionState.READY
        if self._connecting is not None:
            return ConnectionState.CONNECTING
        if self._breaker.remaining:
            return ConnectionState.PAUSED
        is_new = not self.kind and not self.last_error
        return ConnectionState.UNUSED if is_new else ConnectionState.IDLE

    @property
    def last_error(self) -> str:
        return self._breaker.reason

    def notify(self, text: str) -> None:
        line = one_line(text, NOTICE_CHARS)
        if line not in self._shown:
            self._shown.add(line)
            if not self._quiet:
                self._tell(line)

    async def discover(self) -> ServerCatalog:
        """Return the catalog, connecting if it is unknown. Raises `ToolError`."""
        if self.catalog is None:
            await self.use(_only_connect)  # connecting updates the catalog
        return self.catalog or ServerCatalog()

    async def refresh(self) -> ServerCatalog:
        """Return the present catalog, ignoring the circuit breaker. Raises `ToolError`."""
        self._breaker.record_success()
        self._fresh_until = 0.0
        connected = self.state is ConnectionState.READY
        self._handshake = self._handshake and connected  # the server may be a newer one
        await self.use(self._update_catalog if connected else _only_connect)
        return self.catalog or ServerCatalog()

    async def restart(self) -> ServerCatalog | None:
        """Reconnect and return the catalog; None if calls in progress delay the restart.

        The caller reports the outcome, so notices are suppressed meanwhile. Raises `ToolError`.
        """
        self._quiet = True
        try:
            return await self.refresh() if await self.renew() else None
        finally:
            self._quiet = False

    async def ask(
        self, method: str, params: dict[str, Any], ticket: CallTicket, *, as_task: bool = False
    ) -> dict[str, Any]:
        """Send a request and return its result. Raises `ToolError`, redacted."""
        seconds = self.settings.timeout

        async def work(session: McpSession) -> dict[str, Any]:
            return await session.ask(
                method, params, seconds=seconds, ticket=ticket, as_task=as_task
            )

        async def work_with_new_headers(session: McpSession) -> dict[str, Any]:
            try:
                return await work(session)
            except ServerRefused as error:
                if error.code != HEADER_MISMATCH:
                    raise
            # The call was not run: the tool wants other arguments in headers than before.
            await self._update_catalog(session)
            return await work(session)

        return await self.use(work_with_new_headers if method == "tools/call" else work)

    async def pages(self, method: str, key: str) -> ListResult:
        return await self.use(
            lambda session: session.pages(method, key, seconds=self.settings.timeout)
        )

    async def use(self, work: Callable[[McpSession], Awaitable[T]]) -> T:
        """Call `work` with the session, connecting first if necessary, and return its result."""
        self._busy += 1
        self._cancel_idle_timer()
        try:
            return await self._run(work)
        except ToolError as error:
            error.args = (self.redactor.redact(str(error)),)
            self._report(error)
            raise
        finally:
            self._busy -= 1
            self._close_if_unused()

    async def renew(self) -> bool:
        """End the session, so that the next call connects again.

        Return False while calls are in progress: then it ends after them.
        """
        if self._busy and self._session is not None:
            self._close_when_idle = True
            return False
        self._drop(self._session)
        await asyncio.gather(*self._closing)
        return True

    def retire(self) -> None:
        """Refuse new calls; the session ends after those in progress."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        self._closed = self._close_when_idle = True
        self._close_if_unused()

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        self._closed = True
        self._cancel_idle_timer()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        self._drop(self._session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _run(self, work: Callable[[McpSession], Awaitable[T]]) -> T:
        for is_last in (False, True):
            session = await self._get_session()
            try:
                result = await work(session)
            except SessionExpiredError:
                self._drop(session)
                if is_last:
                    raise
                continue
            except ServerRefused:
                self._breaker.record_success()
                raise
            except (McpError, ToolTimedOut) as error:
                self._failed(error)
                if self._breaker.remaining or not isinstance(error, ToolTimedOut):
                    self._drop(session)
                raise
            self._breaker.record_success()
            return result
        raise AssertionError("unreachable")

    async def _get_session(self) -> McpSession:
        if self._closed:
            raise ServerUnavailable(
                f"the MCP server {self.name} was stopped",
                hint="its settings were changed; a new conversation has what there is now",
            )
        if self._session is not None:
            return self._session
        if left := self._breaker.remaining:
            raise ServerUnavailable(
                f"the MCP server {self.name} failed {self._breaker.failures} times in a row and is"
                f" left alone for {human_duration(math.ceil(left))}: {self._breaker.reason}",
                hint="continue without it, or tell the user",
            )
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        # Shielded, because several calls may wait for it and one may be cancelled.
        return await asyncio.shield(self._connecting)

    def _connected(self, task: asyncio.Task[McpSession]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # mark as retrieved; the waiting calls raise it
        self._close_if_unused()

    async def _connect(self) -> McpSession:
        try:
            self._session = session = await self._open_session()
        except McpError as error:
            self._failed(error)
            error.args = (self.redactor.redact(str(error)),)
            reason = one_line(describe_error(error), NOTICE_CHARS)
            self._cache.failed(self.name, self.settings, reason)
            raise

        def lost(error: McpError) -> None:
            log.info("%s", self.redactor.redact(str(error)))
            self._drop(session)

        session.when_lost(lost)
        if not session.alive:
            self._drop(session)
        return session

    async def _open_session(self) -> McpSession:
        """Open a session, with retries after transient errors. Raises `McpError`."""
        for pause in RETRY_PAUSES:
            try:
                return await self._open_once()
            except McpError as error:
                if not error.transient:
                    raise
                log.info("%s: %s; retrying in %.1f s", self.name, error, pause)
            await self._clock.sleep(pause)
        return await self._open_once()

    async def _open_once(self) -> McpSession:
        seconds = self.settings.connect_timeout
        self._opening = self._first_error = None
        try:
            async with asyncio.timeout(seconds or None):
                return await self._try_kinds()
        except TimeoutError:
            raise self._timeout_error(f"within {seconds:g} seconds") from None

    def _timeout_error(self, limit: str) -> ServerUnavailable:
        """Return an error that says how far the connection got."""
        session = self._opening
        more = "`connect_timeout` of the server in mcp_servers allows more"
        if session is not None and session.server_info.protocol:
            greeting = "server/discover" if session.modern else "initialize"
            asked = f"{self.name} answered `{greeting}`, but not `{session.last_method}`, {limit}"
            return ServerUnavailable(asked, hint=more)
        if self._first_error is not None:
            return self._first_error
        if session is not None and session.noise:
            return ServerUnavailable(
                f"{self.name} did not start {limit}: it writes {session.noise!r} instead of MCP"
                " messages",
                hint="check that this is an MCP server, and that it logs to its standard error",
            )
        return ServerUnavailable(f"{self.name} did not start {limit}", hint=more)

    async def _try_kinds(self) -> McpSession:
        kinds = self._transports.kinds(self.name, self.settings)
        *others, last = (self.kind,) if self.kind in kinds else kinds
        for kind in others:
            try:
                return await self._open_transport(kind)
            except HttpStatusError as error:
                if error.transient:
                    raise
                self._first_error = error  # older servers know only the next transport
        try:
            return await self._open_transport(last)
        except McpError as error:
            # A server that got as far as a request speaks this transport: its error counts.
            connected = self._opening is not None and self._opening.last_method
            if self._first_error is None or connected or isinstance(error, ForeignEndpointError):
                raise
            raise self._first_error from error

    async def _open_transport(self, kind: str) -> McpSession:
        # HTTP with SSE is older than `server/discover`.
        if not self._handshake and kind != "sse":
            try:
                return await self._open(kind, handshake=False)
            except ProbeFailedError as error:
                log.info("%s ended at `server/discover`: %s", self.name, error)
        return await self._open(kind, handshake=True)

    async def _open(self, kind: str, *, handshake: bool) -> McpSession:
        session = McpSession(
            self.name,
            self._transports.make(kind, self.name, self.settings, self._authorizer),
            handlers=self._handlers(),
            capabilities={
                **({"roots": {}} if self._roots else {}),
                **self._sampling.capabilities(),
                "elicitation": {"form": {}},
            },
            limits=self._options.limits,
            on_changed=self._on_list_changed,
        )
        self._opening, opened = session, False
        try:
            await session.open(handshake=handshake)
            if self.catalog is None or not session.modern or self._is_stale():
                await self._update_catalog(session)
            else:
                session.transport.set_tools(self.catalog.tools)
                self._cache.seen(self.name)
            opened = True
        finally:
            if not opened:
                await session.close()
        self.kind, self._opening = kind, None
        self._handshake = not session.modern
        return session

    def _is_stale(self) -> bool:
        left = self._fresh_until - self._clock.now().timestamp()
        return not 0 < left <= MAX_FRESH_SECONDS  # more if the clock was set back

    def _handlers(self) -> dict[str, TicketHandler]:
        async def ping(_params: dict[str, Any], _ticket: CallTicket | None) -> Any:
            return {}

        async def list_roots(_params: dict[str, Any], _ticket: CallTicket | None) -> Any:
            return {"roots": [{"uri": path.as_uri()} for path in self._roots]}

        return {
            "ping": ping,
            "roots/list": list_roots,
            "sampling/createMessage": self._sampling.answer,
            "elicitation/create": self._elicitation.answer,
        }

    async def _update_catalog(self, session: McpSession) -> None:
        server_info = session.server_info
        offered = ListResult([], more=False)
        if server_info.has("tools") or not server_info.capabilities:
            seconds = self.settings.connect_timeout
            offered = await session.pages("tools/list", "tools", seconds=seconds)
        # In a thread, because every text is scanned and there may be many.
        mirrors = session.modern and session.transport.kind == "http"
        tools, problems = await in_thread(admit_tools, offered.items, mirrors=mirrors)
        session.transport.set_tools(tools)
        if problems:
            shown, more = "; ".join(problems[:MAX_PROBLEMS]), len(problems) - MAX_PROBLEMS
            shown += f"; and {more} more" if more > 0 else ""
            left_out = many(len(problems), "tool")
            self.notify(f"The MCP server {self.name}: {left_out} left out ({shown})")
        if offered.more:
            words = f"only the first {MAX_ITEMS:,} tools are used; there are more"
            self.notify(f"The MCP server {self.name}: {words}")
            problems += (words,)
        purpose = one_line(server_info.instructions, PURPOSE_CHARS)
        found = ServerCatalog(
            tools,
            server_info.has("resources"),
            server_info.has("prompts"),
            problems,
            "" if scan(purpose) else purpose,  # it becomes part of a tool description
            server_info.protocol,
        )
        fresh_seconds = min(offered.fresh_seconds, MAX_FRESH_SECONDS)
        if fresh_seconds > 0 and session.modern:
            self._fresh_until = self._clock.now().timestamp() + fresh_seconds
            found = msgspec.structs.replace(found, fresh_until=self._fresh_until)
        before, self.catalog = self.catalog, found
        if found == before:
            self._cache.seen(self.name)
            return
        self._cache.save(self.name, self.settings, found)
        if before is not None and _offer(found) != _offer(before):
            self.notify(
                f"The MCP server {self.name} offers other tools than before; "
                "new conversations have them"
            )

    def _on_list_changed(self, what: str) -> None:
        self._changes += what == "tools"
        if self._changes and self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh_after_changes())

    async def _refresh_after_changes(self) -> None:
        pause = FIRST_REFRESH_PAUSE
        try:
            while self._changes:
                await self._clock.sleep(pause)
                self._changes, pause = 0, min(pause * 2, MAX_REFRESH_PAUSE)
                # Without a connection the next one updates the catalog anyway.
                if self.state is ConnectionState.READY:
                    await self.refresh()
        except ToolError as error:
            log.info("the tools of %s could not be listed again: %s", self.name, error)
        finally:
            self._refreshing = None

    def _failed(self, error: ToolError) -> None:
        reason = self.redactor.redact(str(error))
        log.warning("the MCP server %s: %s", self.name, reason)
        if isinstance(error, ServerUnauthorized):
            return  # not a failure of the server: the user has to sign in
        self._breaker.record_failure(reason)

    def _report(self, error: ToolError) -> None:
        """Notify the user of the first failure, and of every login that is needed.

        A refused call is not a failure of the server.
        """
        known = self._reported and not isinstance(error, ServerUnauthorized)
        works = isinstance(error, ServerRefused) and self._session is not None
        if self._closed or known or works:
            return
        self._reported = True
        was_connected = bool(self.kind) and not isinstance(error, ServerUnavailable)
        how = "failed" if was_connected else "cannot be used"
        self.notify(f"The MCP server {self.name} {how}: {describe_error(error)}")

    def _drop(self, session: McpSession | None) -> None:
        """Stop using the session now and close it in the background."""
        if session is None or session is not self._session:
            return
        self._session, self._close_when_idle = None, False
        task = asyncio.create_task(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _close_if_unused(self) -> None:
        """End a session that is to end once it is unused; stop an unused program after
        `idle_timeout`."""
        if self._busy or self._session is None:
            return
        if self._close_when_idle:
            self._drop(self._session)
            return
        seconds = self.settings.idle_timeout
        if self.kind != "stdio" or not seconds:
            return
        self._cancel_idle_timer()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(seconds, self._drop, self._session)

    def _cancel_idle_timer(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


async def _only_connect(_session: McpSession) -> None:
    return None


def _offer(catalog: ServerCatalog) -> ServerCatalog:
    """Return the part of a catalog that the user is notified of when it changes."""
    return msgspec.structs.replace(catalog, purpose="", protocol="", fresh_until=0.0)
