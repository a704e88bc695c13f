"""The base class of a platform's connection and of an adapter that has one.

Every resource is pushed on `Connection.resources` as soon as it is opened, so it is released when
the connection ends or when `open` fails half way. The locks of the tokens are taken first and
released last.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    BaseAdapter,
    CredentialsRefused,
    NotConnected,
    Receive,
    SendLater,
    SendUnsure,
)
from hermes.gateway.platforms.kit.inbound import IdScale, ReadPosition
from hermes.util import atomic

# One token, one gateway: two that use the same bot token would steal each other's messages.
#
# The lock is the operating system's, so it is free as soon as its process is gone. Its file is
# named
# by a hash of the token; the token itself is written nowhere.


class TokenInUse(NotConnected):
    """Another gateway has the token. It may let go of it, so this is tried again."""


class LockHolder(msgspec.Struct, frozen=True):
    """Who has a lock, as it is written beside it."""

    pid: int
    name: str = ""

    def __str__(self) -> str:
        return f"process {self.pid}, {self.name}" if self.name else f"process {self.pid}"


class ScopedLock(msgspec.Struct, frozen=True):
    """A lock that is held. Given back by `release_scoped_lock`."""

    lock: Any
    note: Path


def acquire_scoped_lock(scope: str, identity: str, folder: Path, *, holder: str = "") -> ScopedLock:
    """Take the lock of a token or an account. `scope` is the platform, `identity` the token, and
    `holder` says whose we are (a profile, a folder), for the other one's message. Raises
    `TokenInUse`, which names the process that has it."""
    filelock = import_module("filelock")  # slow to load
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256(f"{scope}\0{identity}".encode()).hexdigest()[:32]
    path = folder / f"{scope}-{digest}.lock"
    note = path.with_suffix(".json")
    lock = filelock.FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        error = TokenInUse(
            f"the {scope} account is already used by another gateway ({_read_holder(note)})"
        )
        error.hint = "stop it with `hermes gateway stop --all`, or give this profile its own token"
        raise error from None
    atomic.write_bytes(note, msgspec.json.encode(LockHolder(os.getpid(), holder)))
    return ScopedLock(lock, note)


def release_scoped_lock(lock: ScopedLock | None) -> None:
    """Let go of it; None, and a lock that was given back before, are fine."""
    if lock is None or not lock.lock.is_locked:
        return
    with contextlib.suppress(OSError):  # the note only helps people
        lock.note.unlink()
    lock.lock.release()


def _read_holder(note: Path) -> str:
    try:
        return str(msgspec.json.decode(note.read_bytes(), type=LockHolder))
    except (OSError, msgspec.DecodeError):
        return "it does not say which"


# Work beside everything else, which ends with what it belongs to.


class TaskSet:
    """Small ones that come and go."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """What is not over is cancelled."""
        await cancel_and_wait(*self._running)


async def cancel_and_wait(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for their end."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


logger = logging.getLogger(__name__)

MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 60.0
"""Seconds between attempts; doubled after each."""


class Connection(ABC):
    """Made anew for each `connect`. A platform writes `open`, and mostly `ping`."""

    identities: tuple[str, ...] = ()
    """Tokens or accounts that only one gateway may use at a time; known before `open`."""

    def __init__(self, context: AdapterContext, receive: Receive) -> None:
        self.context, self.receive = context, receive
        self.label = context.manifest.label
        self.resources = AsyncExitStack()
        """What is let go of at the end, the last first."""
        self.is_open = self._stopped = False
        self.trouble: AdapterError | None = None
        """Why nothing comes at present, though that may pass by itself."""
        self.first_attempt_done = asyncio.Event()
        """With `retry_forever`: the first attempt has worked, or not."""
        self._required: list[asyncio.Task[None]] = []

    @abstractmethod
    async def open(self) -> None:
        """Returns when messages flow. Raises `CredentialsRefused` or `NotConnected`."""

    async def ping(self) -> None:  # noqa: B027 - one that has no question is judged by `raise_if_broken` alone
        """Ask the platform something cheap. Raises `AdapterError` when messages would not flow."""

    def run_until_closed(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that messages do not come without: when it ends the connection is broken, and an
        `AdapterError` that it ends with says why."""
        task = self.spawn(work)
        self._required.append(task)
        return task

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that may end before the connection does."""
        task = asyncio.create_task(work, name=self.context.manifest.name)
        self.resources.push_async_callback(cancel_and_wait, task)
        return task

    async def retry_forever(
        self,
        once: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Run `once` again and again; for `run_until_closed`.

        `once` calls `mark_working` when messages flow and raises an `AdapterError` when they stop;
        it is repeated after growing pauses. Raises `CredentialsRefused` when the platform rejects
        the credentials.
        """
        pause = MIN_RETRY_SECONDS
        while True:
            try:
                await once()
            except CredentialsRefused:
                raise
            except AdapterError as error:
                logger.warning("%s", error)
                pause = (
                    MIN_RETRY_SECONDS if self.trouble is None else min(pause * 2, MAX_RETRY_SECONDS)
                )
                self.trouble = error
                self.first_attempt_done.set()
                await sleep(pause)

    def mark_working(self) -> None:
        self.trouble = None
        self.first_attempt_done.set()

    async def wait_for(self, event: asyncio.Event) -> None:
        """Wait for it. Raises the reason when the connection breaks before."""
        waiting = asyncio.create_task(event.wait())
        try:
            tasks = [waiting, *self._required]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self.raise_if_broken()

    def read_position(self, scale: IdScale) -> ReadPosition[Any]:
        """How far we have read, over a restart; for platforms that do not deliver it again."""
        seen: ReadPosition[Any] = ReadPosition(self.context.state / "seen.json", self.label, scale)
        self.resources.callback(seen.flush)
        self.run_until_closed(seen.write_changes())
        return seen

    def raise_if_broken(self) -> None:
        """Raises why messages do not flow, as far as that is known without asking."""
        for task in self._required:
            if task.done():
                raise self._failure(task)
        if self.trouble is not None:
            raise self.trouble

    def _failure(self, over: asyncio.Task[None]) -> AdapterError:
        error = None if over.cancelled() else over.exception()
        if isinstance(error, AdapterError):
            return error
        if error is not None:
            logger.error("%s: a fault of the adapter", self.label, exc_info=error)
        return NotConnected(f"{self.label}: messages do not come any more")

    # what the adapter calls

    async def start(self) -> None:
        name, locks, holder = self.context.manifest.name, self.context.locks, self.context.state
        for identity in self.identities:
            lock = acquire_scoped_lock(name, identity, locks, holder=str(holder))
            self.resources.callback(release_scoped_lock, lock)
        await self.open()
        if self._stopped:  # nobody waited for it
            raise NotConnected(f"{self.label} was disconnected meanwhile")
        self.is_open = True

    async def stop(self) -> None:
        self.is_open, self._stopped = False, True
        await self.resources.aclose()

    async def probe(self) -> None:
        self.raise_if_broken()
        await self.ping()


C = TypeVar("C", bound=Connection)


class ConnectedAdapter(BaseAdapter, ABC, Generic[C]):
    """A platform writes `make_connection` and `send`, and of the rest what it can do."""

    _live: C | None = None

    @abstractmethod
    def make_connection(self, receive: Receive) -> C:
        """A new one, not yet open. Raises `CredentialsRefused` when something is not set."""

    @property
    def is_connected(self) -> bool:
        return self._live is not None and self._live.is_open

    @property
    def connection(self) -> C:
        """The connection. Raises `NotConnected` when there is none."""
        if self._live is None or not self._live.is_open:
            raise NotConnected(f"{self.manifest.label} is not connected")
        return self._live

    async def connect(self, receive: Receive) -> None:
        await self.disconnect()
        live = self._live = self.make_connection(receive)
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
        await self.connection.probe()


# Work of one chat is done in order; chats do not wait for each other.

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class ChatQueues:
    """A lane has a task only while there is something to do."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._waiting: dict[str, deque[Work]] = {}
        self._tasks = TaskSet()

    def put(self, lane: str, work: Work) -> None:
        if lane in self._waiting:
            self._waiting[lane].append(work)
            return
        self._waiting[lane] = deque([work])
        self._tasks.start(self._run(lane))

    async def close(self) -> None:
        """What is not done is dropped."""
        await self._tasks.close()

    async def _run(self, lane: str) -> None:
        waiting = self._waiting[lane]
        try:
            while waiting:
                try:
                    await waiting.popleft()()
                except Exception:  # one message that cannot be read must not end its chat
                    logger.exception("something from %s could not be worked on", self._platform)
        finally:
            del self._waiting[lane]


# Errors of a platform's library as those of the gateway.


@contextlib.contextmanager
def translate_errors(
    into: Callable[[Any], AdapterError],
    trouble: tuple[type[Exception], ...],
    *,
    repeatable: bool = False,
) -> Iterator[None]:
    """`into` says what an error of the kinds in `trouble` means; the error itself is left out,
    since it may name the token. What is `repeatable` may be done twice without harm: there is no
    doubt then, only a later try."""
    try:
        yield
    except trouble as error:
        failure = into(error)
        if repeatable and isinstance(failure, SendUnsure):
            failure = SendLater(str(failure))
        raise failure from None
