"""The way to one server: connected when needed, again when it broke, and let go when idle."""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.config.environment import variables
from hermes.config.expand import unset_names
from hermes.config.masking import is_secret_variable
from hermes.config.settings.abilities import McpServer
from hermes.core.errors import ToolError, ToolTimedOut
from hermes.core.ports import Clock
from hermes.mcp.caller import CallTicket
from hermes.mcp.elicitation import Elicitation
from hermes.mcp.errors import (
    ForeignEndpointError,
    HttpStatusError,
    McpError,
    RequestRefused,
    ServerUnauthorized,
    ServerUnavailable,
    SessionExpiredError,
)
from hermes.mcp.jsonrpc import RequestHandler
from hermes.mcp.sampling import Sampling
from hermes.mcp.session import ListResult, McpSession
from hermes.mcp.transport import McpLimits, McpTransport, RequestAuthorizer
from hermes.security.redaction import MARK, Redactor
from hermes.util.text import human_duration

# Which transport a server needs. Each is loaded when the first server needs it.

BASE_VARIABLES = frozenset({"PATH", "HOME", "USER", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR"})
"""Variables every program gets, beside those of its settings and `XDG_…`."""


class TransportFactory:
    """Makes the transports of a process; what the programs share ends with it."""

    def __init__(self, limits: McpLimits) -> None:
        self.limits = limits
        self._lifeline: Any = None

    def kinds(self, name: str, settings: McpServer) -> tuple[str, ...]:
        """What to try, the most likely first. Raises `Unavailable`."""
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
        self, kind: str, name: str, settings: McpServer, authoriser: RequestAuthorizer | None
    ) -> McpTransport:
        transport: McpTransport
        if kind == "stdio":
            transport = self._program(name, settings)
            return transport
        door = import_module("hermes.mcp.http").McpHttpClient(
            name, settings.url, settings.headers, authoriser, self.limits.message_bytes
        )
        if kind == "http":
            transport = import_module("hermes.mcp.http").StreamableHttpTransport(door)
        else:
            transport = import_module("hermes.mcp.http").SseTransport(door)
        return transport

    async def close(self) -> None:
        if self._lifeline is not None:
            await self._lifeline.close()
            self._lifeline = None

    def _program(self, name: str, settings: McpServer) -> McpTransport:
        try:
            stdio = import_module("hermes.mcp.stdio")
        except ImportError as error:  # native Windows
            raise ServerUnavailable(
                f"the MCP server {name} is a program, and programs cannot be run here",
                hint="Linux, macOS and WSL2 can; or use a server with a `url`",
            ) from error
        if self._lifeline is None:
            try:
                self._lifeline = stdio.make_lifeline()
            except OSError as error:
                raise ServerUnavailable(f"no program can be started: {error.strerror}") from error
        command = (settings.command, *settings.args)
        transport: McpTransport = stdio.StdioTransport(
            name, command, program_environment(settings.env), self._lifeline, self.limits
        )
        return transport


def _unset_variables(settings: McpServer) -> list[str]:
    """Variables that are referred to and have no value: sent as written, they would be taken for
    one. Arguments may mean them for a shell, or for a program that replaces them itself."""
    values = (settings.command, *settings.env.values(), settings.url, *settings.headers.values())
    return list(dict.fromkeys(name for value in values for name in unset_names(value)))


def program_environment(given: Mapping[str, str]) -> dict[str, str]:
    """No key of the agent's own reaches a server by accident."""
    basis = {
        name: value
        for name, value in variables().items()
        if name in BASE_VARIABLES or name.startswith("XDG_")
    }
    return {**basis, **given}


# Secrets taken out of what a server says, before the model or the user sees it.

# Wider than the shapes of `security`: in an error message a word too many does no harm.
_LOOSE = re.compile(
    r"(?P<keep>\bghp_|\bsk-|\bbearer\s+|"
    r"(?:token|key|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)"
    r"[^\s\"'&,;<>…]+",
    re.IGNORECASE,
)


class ErrorRedactor:
    """Knows the secrets in the settings of one server, and what secrets look like."""

    def __init__(self, settings: McpServer) -> None:
        known = [value for name, value in settings.env.items() if is_secret_variable(name)]
        for value in settings.headers.values():
            known += [value, value.partition(" ")[2]]
        self._redactor = Redactor(known)

    def redact(self, text: str) -> str:
        return _LOOSE.sub(rf"\g<keep>{MARK}", self._redactor.redact(text))


# A server that fails again and again is left alone for a while.

MAX_FAILURES = 3
"""So many in a row open the breaker."""
FIRST_PAUSE, MAX_PAUSE = 30.0, 600.0


class ServerCircuitBreaker:
    """Open, it lets one attempt through after each rest; each that fails doubles the rest."""

    def __init__(self, name: str, clock: Clock) -> None:
        self._name, self._clock = name, clock
        self._failures = 0
        self._until = -math.inf
        self.reason = ""
        """The last failure."""

    @property
    def is_open(self) -> bool:
        return self._clock.monotonic() < self._until

    def check(self) -> None:
        """Raises `Unavailable` while the server rests."""
        left = self._until - self._clock.monotonic()
        if left > 0:
            raise ServerUnavailable(
                f"the MCP server {self._name} failed {self._failures} times in a row and is left "
                f"alone for {human_duration(math.ceil(left))}: {self.reason}",
                hint="go on without it, or tell the user",
            )

    def failed(self, reason: str) -> None:
        self._failures, self.reason = self._failures + 1, reason
        beyond = self._failures - MAX_FAILURES
        if beyond >= 0:
            rest = min(FIRST_PAUSE * 2.0 ** min(beyond, 10), MAX_PAUSE)
            self._until = self._clock.monotonic() + rest

    def succeeded(self) -> None:
        self._failures, self._until, self.reason = 0, -math.inf, ""


# What the client needs to know beside the settings of the servers.


class McpOptions(msgspec.Struct, frozen=True):
    cache: Path | None = None
    """Where lists of tools are kept: `<home>/cache/mcp`. None keeps none."""
    start_seconds: float = 5.0
    """How long a new session waits for servers whose tools are not known yet."""
    folder: str = ""
    """The folder servers are told the work is about; empty tells them none."""
    question_seconds: float = 120.0
    """How long a person may think about a question of a server (`clarify.timeout`)."""
    limits: McpLimits = McpLimits()


# Making a session with a server, by the transport it understands.

RETRY_PAUSES = (0.5, 1.5)
"""Seconds before the second and third attempt, when trying again may help."""

log = logging.getLogger(__name__)


class SessionConnector:
    """`greeted` is called with each new session before anybody uses it, and `changed` when the
    server says that a list of its has changed."""

    def __init__(
        self,
        name: str,
        settings: McpServer,
        transports: TransportFactory,
        options: McpOptions,
        *,
        clock: Clock,
        authoriser: RequestAuthorizer | None,
        greeted: Callable[[McpSession], Awaitable[None]],
        changed: Callable[[str], None],
    ) -> None:
        self.name, self.settings = name, settings
        self._transports, self._options = transports, options
        self._clock, self._authoriser = clock, authoriser
        self._greeted, self._changed = greeted, changed
        self._sampling = Sampling(name, settings.sampling)
        self._elicitation = Elicitation(name, options.question_seconds)
        self.kind = ""
        """The transport that worked, or nothing yet."""
        self._opening: McpSession | None = None
        self._refused: HttpStatusError | None = None
        """What the first of two transports came to."""

    async def connect(self) -> McpSession:
        """Raises `McpError`."""
        for pause in RETRY_PAUSES:
            try:
                return await self._in_time()
            except McpError as error:
                if not error.transient:
                    raise
                log.info("%s: %s; once more in %.1f s", self.name, error, pause)
            await self._clock.sleep(pause)
        return await self._in_time()

    async def _in_time(self) -> McpSession:
        seconds = self.settings.connect_timeout
        self._opening = self._refused = None
        try:
            async with asyncio.timeout(seconds or None):
                return await self._try_kinds()
        except TimeoutError:
            raise self._late(f"within {seconds:g} seconds") from None

    def _late(self, limit: str) -> ServerUnavailable:
        """How far it got."""
        session = self._opening
        more = "`connect_timeout` of the server in mcp_servers allows more"
        if session is not None and session.welcome.protocol:
            asked = f"{self.name} answered `initialize`, but not `{session.asked}`, {limit}"
            return ServerUnavailable(asked, hint=more)
        if self._refused is not None:
            return self._refused
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
                return await self._open(kind)
            except HttpStatusError as error:
                if error.transient:
                    raise
                self._refused = error  # an older server does not know this way
        try:
            return await self._open(last)
        except McpError as error:
            is_its_kind = self._opening is not None and self._opening.asked
            if self._refused is None or is_its_kind or isinstance(error, ForeignEndpointError):
                raise
            raise self._refused from error

    async def _open(self, kind: str) -> McpSession:
        session = McpSession(
            self.name,
            self._transports.make(kind, self.name, self.settings, self._authoriser),
            asked=self._asked(),
            abilities={
                "roots": {},
                **self._sampling.abilities(),
                **self._elicitation.abilities(),
            },
            limits=self._options.limits,
            changed=self._changed,
        )
        self._opening, opened = session, False
        try:
            await session.open()
            await self._greeted(session)
            opened = True
        finally:
            if not opened:
                await session.close()
        self.kind, self._opening = kind, None
        return session

    def _asked(self) -> dict[str, RequestHandler]:
        folder = self._options.folder
        roots = [{"uri": Path(folder).absolute().as_uri()}] if folder else []

        async def ping(_params: dict[str, Any], _ticket: CallTicket | None) -> Any:
            return {}

        async def list_roots(_params: dict[str, Any], _ticket: CallTicket | None) -> Any:
            return {"roots": roots}

        return {
            "ping": ping,
            "roots/list": list_roots,
            "sampling/createMessage": self._sampling.answer,
            "elicitation/create": self._elicitation.answer,
        }


T = TypeVar("T")


class ConnectionState(StrEnum):
    IDLE = "not connected"
    CONNECTING = "connecting"
    READY = "connected"
    RESTING = "left alone after failures"


class ServerConnection:
    """Makes its sessions with `dialler`. `tell` is for the user, who hears of the first failure;
    the model hears of all. `unmade` gets the reason each time no session could be made."""

    def __init__(
        self,
        dialler: SessionConnector,
        *,
        clock: Clock,
        tell: Callable[[str], None],
        unmade: Callable[[str], None],
    ) -> None:
        self._dialler, self._tell, self._unmade = dialler, tell, unmade
        self.name, self.settings = dialler.name, dialler.settings
        self.redactor = ErrorRedactor(dialler.settings)
        self._breaker = ServerCircuitBreaker(dialler.name, clock)
        self._session: McpSession | None = None
        self._connecting: asyncio.Task[McpSession] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._closed = False
        self._leaving = False
        """The session ends as soon as no call is under way."""
        self._told = False
        self._idle: asyncio.TimerHandle | None = None

    @property
    def state(self) -> ConnectionState:
        if self._session is not None:
            return ConnectionState.READY
        if self._connecting is not None:
            return ConnectionState.CONNECTING
        return ConnectionState.RESTING if self._breaker.is_open else ConnectionState.IDLE

    @property
    def kind(self) -> str:
        """The transport that worked, or nothing yet."""
        return self._dialler.kind

    @property
    def last_error(self) -> str:
        return self._breaker.reason

    def forgive(self) -> None:
        """Earlier failures do not count any more: somebody wants to try."""
        self._breaker.succeeded()

    async def ask(self, method: str, params: dict[str, Any], ticket: CallTicket) -> dict[str, Any]:
        """The result. Raises `ToolError`, without secrets."""
        seconds = self.settings.timeout
        return await self.use(
            lambda session: session.ask(method, params, seconds=seconds, ticket=ticket)
        )

    async def pages(self, method: str, key: str) -> ListResult:
        return await self.use(
            lambda session: session.pages(method, key, seconds=self.settings.timeout)
        )

    async def use(self, work: Callable[[McpSession], Awaitable[T]]) -> T:
        """The result of `work` with a session that is there, or is made now."""
        self._busy += 1
        self._stop_waiting()
        try:
            return await self._worked(work)
        except ToolError as error:
            error.args = (self.redactor.redact(str(error)),)
            self._report(error)
            raise
        finally:
            self._busy -= 1
            self._settle()

    async def renew(self) -> bool:
        """End the session, so that the next call makes another. False while calls are under way:
        it ends when they have."""
        if self._busy and self._session is not None:
            self._leaving = True
            return False
        self._drop(self._session)
        await asyncio.gather(*self._closing)
        return True

    def retire(self) -> None:
        """No more calls; the session ends when those under way have."""
        self._closed = self._leaving = True
        self._settle()

    async def close(self) -> None:
        self._closed = True
        self._stop_waiting()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        self._drop(self._session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _worked(self, work: Callable[[McpSession], Awaitable[T]]) -> T:
        for is_last in (False, True):
            session = await self._ready()
            try:
                result = await work(session)
            except SessionExpiredError:
                self._drop(session)
                if is_last:
                    raise
                continue
            except RequestRefused:
                self._breaker.succeeded()
                raise
            except (McpError, ToolTimedOut) as error:
                self._failed(error)
                if self._breaker.is_open or not isinstance(error, ToolTimedOut):
                    self._drop(session)
                raise
            self._breaker.succeeded()
            return result
        raise AssertionError("unreachable")

    async def _ready(self) -> McpSession:
        if self._closed:
            raise ServerUnavailable(
                f"the MCP server {self.name} was stopped",
                hint="its settings were changed; a new conversation has what there is now",
            )
        if self._session is not None:
            return self._session
        self._breaker.check()
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())
            self._connecting.add_done_callback(self._connected)
        # Several may wait for it; one who leaves does not end it.
        return await asyncio.shield(self._connecting)

    def _connected(self, task: asyncio.Task[McpSession]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # those who waited have it
        self._settle()

    async def _connect(self) -> McpSession:
        try:
            self._session = session = await self._dialler.connect()
        except McpError as error:
            self._failed(error)
            self._unmade(f"{self.redactor.redact(str(error))}{_hint_text(error)}")
            raise

        def lost(error: McpError) -> None:
            log.info("%s", self.redactor.redact(str(error)))
            self._drop(session)

        session.when_lost(lost)
        if not session.alive:
            self._drop(session)
        return session

    def _failed(self, error: ToolError) -> None:
        reason = self.redactor.redact(str(error))
        log.warning("the MCP server %s: %s", self.name, reason)
        if isinstance(error, ServerUnauthorized):
            return  # it works as soon as the user has signed in
        self._breaker.failed(reason)

    def _report(self, error: ToolError) -> None:
        """A server that lets nobody in needs the user, whatever happened before. One that refuses
        a call works."""
        heard = self._told and not isinstance(error, ServerUnauthorized)
        works = isinstance(error, RequestRefused) and self._session is not None
        if self._closed or heard or works:
            return
        self._told = True
        how = (
            "failed" if self.kind and not isinstance(error, ServerUnavailable) else "cannot be used"
        )
        self._tell(f"The MCP server {self.name} {how}: {error}{_hint_text(error)}")

    def _drop(self, session: McpSession | None) -> None:
        """Let go of it now; what it holds is freed in passing."""
        if session is None or session is not self._session:
            return
        self._session, self._leaving = None, False
        task = asyncio.create_task(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _settle(self) -> None:
        """A session that is to end does when nobody needs it; a program nobody calls is stopped
        after a while."""
        if self._busy or self._session is None:
            return
        if self._leaving:
            self._drop(self._session)
            return
        seconds = self.settings.idle_timeout
        if self.kind != "stdio" or not seconds:
            return
        self._stop_waiting()
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(seconds, self._drop, self._session)

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


def _hint_text(error: ToolError) -> str:
    return f" ({error.hint})" if error.hint else ""
