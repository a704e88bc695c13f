"""Keeps adapters connected, and knows the platforms that are connected now.

Each adapter has its own supervisor task, which connects, probes and reconnects it. An adapter that
raises or hangs affects only its supervisor.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

import msgspec

from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.sdk.platforms import (
    Adapter,
    Capabilities,
    CredentialsRefused,
    PlatformManifest,
    RateLimiter,
    Receive,
    cancel_and_wait,
)

logger = logging.getLogger(__name__)

State = Literal["connecting", "healthy", "failing", "stopped"]


class Patience(msgspec.Struct, frozen=True):
    """Time limits and pauses in seconds."""

    connect: float = 60.0
    probe: float = 15.0
    disconnect: float = 10.0
    between_probes: float = 30.0
    first_pause: float = 1.0  #: Pause after the first failure; it doubles with each further one.
    longest_pause: float = 300.0


class Health(msgspec.Struct, frozen=True):
    """State of an adapter. Times are seconds since 1970."""

    platform: str
    state: State
    since: float  #: When the state began.
    account: str = ""
    last_error: str = ""  #: The current error, or the last one.
    hint: str = ""
    attempts: int = 0  #: Connection attempts since it last worked.
    last_probe: float | None = None  #: When the last probe succeeded.
    refused: bool = False
    """True if the platform rejected the credentials: not tried again before a restart."""


class Supervisor:
    """Supervises one adapter.

    `changed` is called with each new state. `jitter` returns numbers from 0 to 1, so that adapters
    that lost the same network do not reconnect in step.
    """

    def __init__(
        self,
        adapter: Adapter,
        receive: Receive,
        clock: Clock,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        *,
        changed: Callable[[Health], None] = lambda _health: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.adapter = adapter
        self._receive, self._clock, self._patience = receive, clock, patience
        self._changed, self._jitter = changed, jitter
        self._doubt = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._abandoned: set[asyncio.Future[object]] = set()
        """Calls that exceeded their time limit and did not end."""
        self.health = Health(adapter.manifest.name, "stopped", self._now())

    def start(self) -> None:
        """Start, or start again after `stop`; then rejected credentials are tried again."""
        self.health = msgspec.structs.replace(self.health, refused=False)
        self._task = asyncio.create_task(self._run(), name=f"adapter {self.adapter.manifest.name}")

    def check(self) -> None:
        """Probe the connection now instead of at the next interval."""
        self._doubt.set()

    async def stop(self) -> None:
        """Disconnect within the time limit and stop. May be called again."""
        if self._task is not None:
            await cancel_and_wait(self._task)
            self._task = None
            await self._disconnect()
        self._be("stopped", attempts=0)

    async def _run(self) -> None:
        pause = self._patience.first_pause
        while True:
            if await self._connect():
                pause = self._patience.first_pause
                await self._watch()
            await self._disconnect()
            if self.health.refused:
                return
            await self._clock.sleep(pause * (0.5 + self._jitter() / 2))
            pause = min(pause * 2, self._patience.longest_pause)

    async def _connect(self) -> bool:
        first = self.health.state == "stopped"
        self._be("connecting" if first else "failing", attempts=self.health.attempts + 1)
        if not await self._works(self.adapter.connect(self._receive), self._patience.connect):
            return False
        self._doubt.clear()
        self._be("healthy", attempts=0, last_probe=self._now(), hint="")
        logger.info("%s is connected", self.adapter.manifest.label)
        return True

    async def _watch(self) -> None:
        """Return when the adapter no longer works."""
        while True:
            await self._rest()
            if not await self._works(self.adapter.probe(), self._patience.probe):
                return
            self.health = msgspec.structs.replace(self.health, last_probe=self._now())

    async def _rest(self) -> None:
        """Wait until the next probe is due, or until `check` is called."""
        sleep = asyncio.ensure_future(self._clock.sleep(self._patience.between_probes))
        doubt = asyncio.ensure_future(self._doubt.wait())
        try:
            await asyncio.wait({sleep, doubt}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            doubt.cancel()
        self._doubt.clear()

    async def _disconnect(self) -> None:
        if self._abandoned:  # give it time to clean up after itself
            waiting = asyncio.wait(set(self._abandoned))
            await self._problem(waiting, self._patience.disconnect)
        problem = await self._problem(self.adapter.disconnect(), self._patience.disconnect)
        if problem is not None:
            label = self.adapter.manifest.label
            logger.warning("%s did not disconnect cleanly: %s", label, problem)

    async def _works(self, call: Awaitable[object], seconds: float) -> bool:
        """Return whether a call succeeded; otherwise the state holds the error."""
        problem = await self._problem(call, seconds)
        if problem is None:
            return True
        refused = isinstance(problem, CredentialsRefused)
        self._be(
            "stopped" if refused else "failing",
            last_error=str(problem),
            hint=problem.hint if isinstance(problem, HermesError) else "",
            refused=refused,
        )
        logger.warning("%s failed: %s", self.adapter.manifest.label, problem)
        return False

    async def _problem(self, call: Awaitable[object], seconds: float) -> Exception | None:
        """Return the error of a call, if any. A call that takes too long is abandoned, because
        it may ignore its cancellation."""
        work = asyncio.ensure_future(call)
        limit = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({work, limit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            limit.cancel()
            if not work.done():
                work.cancel()
                self._abandoned.add(work)
                work.add_done_callback(self._abandon)
        if not work.done():
            return TimeoutError(f"no answer within {seconds:g} seconds")
        if work.cancelled():
            return ConnectionError("the call was cancelled")
        fault = work.exception()
        if fault is not None and not isinstance(fault, Exception):
            raise fault
        if fault is None or isinstance(fault, HermesError):
            return fault
        # Only the type is reported, because the text of a foreign error may contain secrets.
        logger.error("an adapter raised an unexpected exception", exc_info=fault)
        return RuntimeError(f"unexpected {type(fault).__name__}")

    def _abandon(self, work: asyncio.Future[object]) -> None:
        self._abandoned.discard(work)
        if not work.cancelled() and (fault := work.exception()) is not None:
            logger.debug("%s: an abandoned call ended: %s", self.adapter.manifest.label, fault)

    def _be(self, state: State, **news: object) -> None:
        news |= {"state": state, "account": self.adapter.account}
        if state != self.health.state:
            news["since"] = self._now()
        self.health = msgspec.structs.replace(self.health, **news)
        self._changed(self.health)

    def _now(self) -> float:
        return self._clock.now().timestamp()


PlatformAccount = tuple[str, str]  #: Name of a platform, and of our account on it.


class PlatformConnection(msgspec.Struct, frozen=True, eq=False):
    adapter: Adapter
    buckets: RateLimiter
    recheck: Callable[[], None] = lambda: None
    """Makes the supervisor check the connection now, after a call failed."""

    @property
    def manifest(self) -> PlatformManifest:
        return self.adapter.manifest

    @property
    def capabilities(self) -> Capabilities:
        return self.adapter.manifest.capabilities


class ConnectionRegistry:
    """The connected platforms. Messages for other platforms wait in the outbox."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._up: dict[PlatformAccount, PlatformConnection] = {}
        self._buckets: dict[PlatformAccount, RateLimiter] = {}

    def add(self, adapter: Adapter, recheck: Callable[[], None] = lambda: None) -> None:
        account_key = (adapter.manifest.name, adapter.account)
        # Rate limits keep counting across a reconnection.
        capabilities = adapter.manifest.capabilities
        fresh = RateLimiter(capabilities.per_chat, capabilities.per_platform, self._clock)
        buckets = self._buckets.setdefault(account_key, fresh)
        self._up[account_key] = PlatformConnection(adapter, buckets, recheck)

    def remove(self, adapter: Adapter) -> None:
        self._up.pop((adapter.manifest.name, adapter.account), None)

    def accounts(self) -> tuple[PlatformAccount, ...]:
        """Return the accounts that messages can be sent from now."""
        return tuple(account for account, each in self._up.items() if each.manifest.chats)

    def get(self, platform: str, account: str = "") -> PlatformConnection | None:
        return self._up.get((platform, account))

    def __iter__(self) -> Iterator[PlatformConnection]:
        return iter(tuple(self._up.values()))
