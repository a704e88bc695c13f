"""A connection, from `connect` to `disconnect`, and an adapter that has one.

Whatever is opened is put on `ends` at once: it is let go of when the connection ends, or when it
does not come about. The locks of the tokens are taken before and let go of after everything else.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    BaseAdapter,
    CredentialsRefused,
    NotConnected,
    Receive,
)
from hermes.gateway.platforms.kit.seen import Scale, Seen
from hermes.gateway.platforms.kit.tasks import ended
from hermes.gateway.platforms.kit.token_lock import acquire_scoped_lock, release_scoped_lock

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
"""Seconds between attempts; doubled after each."""


class Connection(ABC):
    """Made anew for each `connect`. A platform writes `open`, and mostly `ask`."""

    identities: tuple[str, ...] = ()
    """Tokens or accounts that only one gateway may use at a time; known before `open`."""

    def __init__(self, context: AdapterContext, receive: Receive) -> None:
        self.context, self.receive = context, receive
        self.label = context.manifest.label
        self.ends = AsyncExitStack()
        """What is let go of at the end, the last first."""
        self.is_open = self._over = False
        self.trouble: AdapterError | None = None
        """Why nothing comes at present, though that may pass by itself."""
        self.settled = asyncio.Event()
        """With `insist`: the first attempt has worked, or not."""
        self._flows: list[asyncio.Task[None]] = []

    @abstractmethod
    async def open(self) -> None:
        """Returns when messages flow. Raises `CredentialsRefused` or `NotConnected`."""

    async def ask(self) -> None:  # noqa: B027 - one that has no question is judged by `check` alone
        """Ask the platform something cheap. Raises `AdapterError` when messages would not flow."""

    def flow(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that messages do not come without: when it ends the connection is broken, and an
        `AdapterError` that it ends with says why."""
        task = self.beside(work)
        self._flows.append(task)
        return task

    def beside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that may end before the connection does."""
        task = asyncio.create_task(work, name=self.context.manifest.name)
        self.ends.push_async_callback(ended, task)
        return task

    async def insist(
        self,
        once: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """For `flow`: `once`, again and again. It calls `works` when messages flow and raises an
        `AdapterError` when they do not any more; then it is tried less and less often. Ends when
        the platform does not accept us."""
        pause = FIRST_PAUSE
        while True:
            try:
                await once()
            except CredentialsRefused:
                raise
            except AdapterError as error:
                log.warning("%s", error)
                pause = FIRST_PAUSE if self.trouble is None else min(pause * 2, LONGEST_PAUSE)
                self.trouble = error
                self.settled.set()
                await sleep(pause)

    def works(self) -> None:
        self.trouble = None
        self.settled.set()

    async def until(self, event: asyncio.Event) -> None:
        """Wait for it. Raises the reason when the connection breaks before."""
        waiting = asyncio.create_task(event.wait())
        try:
            tasks = [waiting, *self._flows]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self.check()

    def remember(self, scale: Scale) -> Seen[Any]:
        """How far we have read, over a restart; for platforms that do not deliver it again."""
        seen: Seen[Any] = Seen(self.context.state / "seen.json", self.label, scale)
        self.ends.callback(seen.write)
        self.flow(seen.keep())
        return seen

    def check(self) -> None:
        """Raises why messages do not flow, as far as that is known without asking."""
        for task in self._flows:
            if task.done():
                raise self._why(task)
        if self.trouble is not None:
            raise self.trouble

    def _why(self, over: asyncio.Task[None]) -> AdapterError:
        error = None if over.cancelled() else over.exception()
        if isinstance(error, AdapterError):
            return error
        if error is not None:
            log.error("%s: a fault of the adapter", self.label, exc_info=error)
        return NotConnected(f"{self.label}: messages do not come any more")

    # what the adapter calls

    async def start(self) -> None:
        name, locks, holder = self.context.manifest.name, self.context.locks, self.context.state
        for identity in self.identities:
            lock = acquire_scoped_lock(name, identity, locks, holder=str(holder))
            self.ends.callback(release_scoped_lock, lock)
        await self.open()
        if self._over:  # nobody waited for it
            raise NotConnected(f"{self.label} was disconnected meanwhile")
        self.is_open = True

    async def stop(self) -> None:
        self.is_open, self._over = False, True
        await self.ends.aclose()

    async def probe(self) -> None:
        self.check()
        await self.ask()


Live = TypeVar("Live", bound=Connection)


class ConnectedAdapter(BaseAdapter, ABC, Generic[Live]):
    """A platform writes `connection` and `send`, and of the rest what it can do."""

    _live: Live | None = None

    @abstractmethod
    def connection(self, receive: Receive) -> Live:
        """A new one, not yet open. Raises `CredentialsRefused` when something is not set."""

    @property
    def is_connected(self) -> bool:
        return self._live is not None and self._live.is_open

    @property
    def live(self) -> Live:
        """The connection. Raises `NotConnected` when there is none."""
        if self._live is None or not self._live.is_open:
            raise NotConnected(f"{self.manifest.label} is not connected")
        return self._live

    async def connect(self, receive: Receive) -> None:
        await self.disconnect()
        live = self._live = self.connection(receive)
        try:
            await live.start()
        except BaseException:  # also when cancelled: nothing stays behind
            if self._live is live:
                self._live = None
            await live.stop()
            raise

    async def disconnect(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            await live.stop()

    async def probe(self) -> None:
        await self.live.probe()
