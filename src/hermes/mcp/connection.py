"""The way to one server: connected when needed, again when it broke, and let go when idle."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, TypeVar

from hermes.core.errors import ToolError, ToolTimedOut
from hermes.core.ports import Clock
from hermes.mcp.breaker import Breaker
from hermes.mcp.caller import Ticket
from hermes.mcp.dialling import Dialler
from hermes.mcp.failures import McpError, Refused, SessionGone, Unauthorised, Unavailable
from hermes.mcp.redacting import ErrorRedactor
from hermes.mcp.session import Listed, Session

T = TypeVar("T")
log = logging.getLogger(__name__)


class State(StrEnum):
    IDLE = "not connected"
    CONNECTING = "connecting"
    READY = "connected"
    RESTING = "left alone after failures"


class Connection:
    """Makes its sessions with `dialler`. `tell` is for the user, who hears of the first failure;
    the model hears of all. `unmade` gets the reason each time no session could be made."""

    def __init__(
        self,
        dialler: Dialler,
        *,
        clock: Clock,
        tell: Callable[[str], None],
        unmade: Callable[[str], None],
    ) -> None:
        self._dialler, self._tell, self._unmade = dialler, tell, unmade
        self.name, self.settings = dialler.name, dialler.settings
        self.redactor = ErrorRedactor(dialler.settings)
        self._breaker = Breaker(dialler.name, clock)
        self._session: Session | None = None
        self._connecting: asyncio.Task[Session] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._closed = False
        self._leaving = False
        """The session ends as soon as no call is under way."""
        self._told = False
        self._idle: asyncio.TimerHandle | None = None

    @property
    def state(self) -> State:
        if self._session is not None:
            return State.READY
        if self._connecting is not None:
            return State.CONNECTING
        return State.RESTING if self._breaker.is_open else State.IDLE

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

    async def ask(self, method: str, params: dict[str, Any], ticket: Ticket) -> dict[str, Any]:
        """The result. Raises `ToolError`, without secrets."""
        seconds = self.settings.timeout
        return await self.use(
            lambda session: session.ask(method, params, seconds=seconds, ticket=ticket)
        )

    async def pages(self, method: str, key: str) -> Listed:
        return await self.use(
            lambda session: session.pages(method, key, seconds=self.settings.timeout)
        )

    async def use(self, work: Callable[[Session], Awaitable[T]]) -> T:
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

    async def _worked(self, work: Callable[[Session], Awaitable[T]]) -> T:
        for is_last in (False, True):
            session = await self._ready()
            try:
                result = await work(session)
            except SessionGone:
                self._drop(session)
                if is_last:
                    raise
                continue
            except Refused:
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

    async def _ready(self) -> Session:
        if self._closed:
            raise Unavailable(
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

    def _connected(self, task: asyncio.Task[Session]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # those who waited have it
        self._settle()

    async def _connect(self) -> Session:
        try:
            self._session = session = await self._dialler.connect()
        except McpError as error:
            self._failed(error)
            self._unmade(f"{self.redactor.redact(str(error))}{_hint(error)}")
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
        if isinstance(error, Unauthorised):
            return  # it works as soon as the user has signed in
        self._breaker.failed(reason)

    def _report(self, error: ToolError) -> None:
        """A server that lets nobody in needs the user, whatever happened before. One that refuses
        a call works."""
        heard = self._told and not isinstance(error, Unauthorised)
        works = isinstance(error, Refused) and self._session is not None
        if self._closed or heard or works:
            return
        self._told = True
        how = "failed" if self.kind and not isinstance(error, Unavailable) else "cannot be used"
        self._tell(f"The MCP server {self.name} {how}: {error}{_hint(error)}")

    def _drop(self, session: Session | None) -> None:
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


def _hint(error: ToolError) -> str:
    return f" ({error.hint})" if error.hint else ""
