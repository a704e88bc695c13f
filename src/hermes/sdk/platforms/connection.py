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
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hermes.sdk.platforms.contract import (
    Adapter,
    AdapterContext,
    AdapterError,
    CredentialsRefused,
    NotConnected,
    Receive,
    SendLater,
    SendUnsure,
)
from hermes.sdk.platforms.inbound import IdScale, ReadPosition
from hermes.util import files

logger = logging.getLogger(__name__)
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.2, 60.0  #: Seconds between attempts; doubled after each.
Work = Callable[[], Awaitable[None]]


class TokenInUse(NotConnected):
    """Another gateway holds the token. It may release it, so connecting is retried."""


class LockHolder(msgspec.Struct, frozen=True):
    """The owner of a lock, as written next to the lock file."""

    pid: int
    name: str = ""

    def __str__(self) -> str:
        return f"process {self.pid}, {self.name}" if self.name else f"process {self.pid}"


class ScopedLock(msgspec.Struct):
    """A lock we hold. Released by `release_scoped_lock`."""

    held: contextlib.ExitStack | None
    note: Path


def acquire_scoped_lock(scope: str, identity: str, folder: Path, *, holder: str = "") -> ScopedLock:
    """Take the lock of a token or an account, so that two gateways never share one.

    `scope` is the platform and `identity` the token. `holder` names our profile or folder, for the
    message of another gateway. The operating system releases the lock when the process ends. The
    file is named by a hash; the token itself is never written. Raises `TokenInUse`, which names the
    process that holds it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest = hashlib.sha256(f"{scope}\0{identity}".encode()).hexdigest()[:32]
    path = folder / f"{scope}-{digest}.lock"
    note = path.with_suffix(".json")
    held = contextlib.ExitStack()
    try:
        held.enter_context(files.file_lock(path, 0))
    except TimeoutError:
        try:
            owner = str(msgspec.json.decode(note.read_bytes(), type=LockHolder))
        except (OSError, msgspec.DecodeError):
            owner = "it does not say which"
        error = TokenInUse(f"the {scope} account is already used by another gateway ({owner})")
        error.hint = "stop it with `hermes gateway stop --all`, or give this profile its own token"
        raise error from None
    files.write_bytes(note, msgspec.json.encode(LockHolder(os.getpid(), holder)))
    return ScopedLock(held, note)


def release_scoped_lock(lock: ScopedLock | None) -> None:
    """Release a lock. None and an already released lock are accepted."""
    if lock is None or lock.held is None:
        return
    with contextlib.suppress(OSError):  # the note is only information for people
        lock.note.unlink()
    lock.held.close()
    lock.held = None


class TaskSet:
    """Short background tasks that end with their owner."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Cancel the tasks that still run."""
        await cancel_and_wait(*self._running)


async def cancel_and_wait(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait until they have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


class Connection(ABC):
    """One connection to a platform. Subclasses implement `open`, and usually `ping`."""

    identities: tuple[str, ...] = ()
    """Tokens or accounts that only one gateway may use at a time; set before `open`."""

    def __init__(self, context: AdapterContext, receive: Receive) -> None:
        self.context, self.receive = context, receive
        self.label = context.manifest.label
        self.resources = AsyncExitStack()  #: Released in reverse order when the connection ends.
        self.is_open = self._stopped = False
        self.trouble: AdapterError | None = None
        """Why no messages arrive at present; None while they do. May pass by itself."""
        self.first_attempt_done = asyncio.Event()
        """Set by `retry_forever` once the first attempt succeeded or failed."""
        self._required: list[asyncio.Task[None]] = []

    @abstractmethod
    async def open(self) -> None:
        """Return when messages flow. Raises `CredentialsRefused` or `NotConnected`."""

    async def ping(self) -> None:  # noqa: B027 - one that has no question is judged by `raise_if_broken` alone
        """Call the platform cheaply. Raises `AdapterError` when messages would not flow."""

    def run_until_closed(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that messages depend on. When it ends the connection is broken; an
        `AdapterError` that it raises is the reason."""
        task = self.spawn(work)
        self._required.append(task)
        return task

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that may end before the connection does."""
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
        """Wait for an event. Raises the reason when the connection breaks first."""
        waiting = asyncio.create_task(event.wait())
        try:
            tasks = [waiting, *self._required]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self.raise_if_broken()

    def read_position(self, scale: IdScale) -> ReadPosition[Any]:
        """Return the stored read position, for platforms that never redeliver messages."""
        seen: ReadPosition[Any] = ReadPosition(self.context.state / "seen.json", self.label, scale)
        self.resources.callback(seen.flush)
        self.run_until_closed(seen.write_changes())
        return seen

    def raise_if_broken(self) -> None:
        """Raise the reason when messages do not flow, as far as it is known without a request."""
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
            logger.error("%s: internal error in the adapter", self.label, exc_info=error)
        return NotConnected(f"{self.label}: the connection ended; no messages arrive any more")

    async def start(self) -> None:
        name, locks, holder = self.context.manifest.name, self.context.locks, self.context.state
        for identity in self.identities:
            lock = acquire_scoped_lock(name, identity, locks, holder=str(holder))
            self.resources.callback(release_scoped_lock, lock)
        await self.open()
        if self._stopped:  # disconnected while it was opening
            raise NotConnected(f"{self.label} was disconnected while it connected")
        self.is_open = True

    async def stop(self) -> None:
        self.is_open, self._stopped = False, True
        await self.resources.aclose()

    async def probe(self) -> None:
        self.raise_if_broken()
        await self.ping()


C = TypeVar("C", bound=Connection)


class ConnectedAdapter(Adapter, Generic[C]):
    """An adapter with a `Connection`. Subclasses implement `make_connection` and `send`, and the
    optional methods the platform supports."""

    _connection: C | None = None

    @abstractmethod
    def make_connection(self, receive: Receive) -> C:
        """Return a new connection, not yet open. Raises `CredentialsRefused` when a setting is
        missing."""

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def connection(self) -> C:
        """The open connection. Raises `NotConnected` when there is none."""
        if self._connection is None or not self._connection.is_open:
            raise NotConnected(f"{self.manifest.label} is not connected")
        return self._connection

    async def connect(self, receive: Receive) -> None:
        await self.disconnect()
        connection = self._connection = self.make_connection(receive)
        try:
            await connection.start()
        except BaseException:  # also on cancellation: release what was opened
            if self._connection is connection:
                self._connection = None
            await connection.stop()
            raise

    async def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.stop()

    async def probe(self) -> None:
        await self.connection.probe()


class ChatQueues:
    """Runs the work of each chat in order; chats do not wait for each other. A chat has a task only
    while it has work."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._waiting: dict[str, deque[Work]] = {}
        self._tasks = TaskSet()

    def put(self, chat: str, work: Work) -> None:
        if chat in self._waiting:
            self._waiting[chat].append(work)
            return
        self._waiting[chat] = deque([work])
        self._tasks.start(self._run(chat))

    async def close(self) -> None:
        """Drop the remaining work."""
        await self._tasks.close()

    async def _run(self, chat: str) -> None:
        waiting = self._waiting[chat]
        try:
            while waiting:
                try:
                    await waiting.popleft()()
                except Exception:  # one unreadable message must not stop its chat
                    logger.exception("a message of %s could not be processed", self._platform)
        finally:
            del self._waiting[chat]


@contextlib.contextmanager
def translate_errors(
    into: Callable[[Any], AdapterError],
    trouble: tuple[type[Exception], ...],
    *,
    repeatable: bool = False,
) -> Iterator[None]:
    """Translate the library errors in `trouble` to gateway errors with `into`.

    The original error is suppressed, because it may contain the token. A `repeatable` call may be
    made twice without harm, so `SendUnsure` becomes `SendLater`.
    """
    try:
        yield
    except trouble as error:
        failure = into(error)
        if repeatable and isinstance(failure, SendUnsure):
            failure = SendLater(str(failure))
        raise failure from None
