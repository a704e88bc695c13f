"""A worker: works on the items that the driver assigns, any number at the same time.

`python -m hermes.batch.worker FD` is a worker process. It talks to the driver over a socket in
frames: the length in four bytes, then a list of messages in MessagePack. The standard input is a
pipe of which the driver holds the other end; when it closes, the driver has ended and so does the
worker. The same `ItemWorker` runs in the process of the driver and in Ray actors.
"""

import asyncio
import os
import secrets
import socket
import struct
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec

from hermes.batch.journal import CallLimits, ItemJournal, JournalEntry, encode_entry
from hermes.batch.work import ItemJob, ItemResult, RunSpec, WorkItem
from hermes.core.errors import HermesError
from hermes.util.files import allow_many_open_files

HEARTBEAT_SECONDS = 5.0
EXIT_SECONDS = 15.0  #: For a worker to end after its driver.


class Message(msgspec.Struct, frozen=True, array_like=True):
    """What driver and worker tell each other."""


class StartWorker(Message, frozen=True, tag="start"):
    """The first message to a worker."""

    name: str
    spec_class: str  #: `module:Class`
    spec: bytes
    path: list[str]  #: Folders that the driver imports from.
    workspace: str  #: See `RunSpec.open_job`.
    limits: CallLimits | None  #: With a budget only.


class Assign(Message, frozen=True, tag="assign"):
    item: WorkItem
    calls: list[bytes]  #: Lines of the journal: calls that were answered before.


class Grant(Message, frozen=True, tag="grant"):
    """The answer to `Reserve`."""

    reservation: str
    granted: bool


class Stored(Message, frozen=True, tag="stored"):
    """The driver has stored the first calls of this worker."""

    calls: int


class StopWorker(Message, frozen=True, tag="stop"):
    """Return all items. Calls that are running get some seconds to be answered."""

    seconds: float


class Ready(Message, frozen=True, tag="ready"):
    pass


class Alive(Message, frozen=True, tag="alive"):
    pass


class Broken(Message, frozen=True, tag="broken"):
    """The job cannot be opened, in no worker."""

    error: str
    hint: str


class Call(Message, frozen=True, tag="call"):
    """A line for the journal."""

    settle: str  #: The reservation that ends with it, or empty.
    line: bytes


class Reserve(Message, frozen=True, tag="reserve"):
    reservation: str
    usd: float


class Finished(Message, frozen=True, tag="finished"):
    result: ItemResult


class Returned(Message, frozen=True, tag="returned"):
    """The item did not end: the run stops, or the budget is spent."""

    key: str


class Stopped(Message, frozen=True, tag="stopped"):
    """The last message of a worker."""


ToWorker = StartWorker | Assign | Grant | Stored | StopWorker
FromWorker = Ready | Alive | Broken | Call | Reserve | Finished | Returned | Stopped


class ItemWorker:
    """Runs the job of a spec. `send` takes its messages and must not block."""

    def __init__(self, start: StartWorker, send: Callable[[FromWorker], None]) -> None:
        self._start, self._send = start, send
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._journals: dict[str, ItemJournal] = {}
        self._cancelled: set[str] = set()
        self._waiting: dict[str, asyncio.Future[bool]] = {}  #: Calls that need a reservation.
        self._calls = 0  #: Sent to the driver.
        self._unstored: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._stop = asyncio.Event()
        self._stop_seconds = 0.0
        self._job: ItemJob | None = None

    async def run(self, spec: RunSpec | None = None) -> None:
        """Work until the driver sends `StopWorker`. `spec` is given if it need not be decoded."""
        heartbeat = asyncio.ensure_future(self._beat())
        try:
            spec = spec or _load_spec(self._start)
            async with spec.open_job(self._start.workspace) as self._job:
                self._send(Ready())
                await self._stop.wait()
                await self._return_items()
            self._send(Stopped())
        except Exception as error:  # noqa: BLE001 - the driver reports it, and the log has details
            traceback.print_exc()
            hint = error.hint if isinstance(error, HermesError) else ""
            name = "" if isinstance(error, HermesError) else f"{type(error).__name__}: "
            self._send(Broken(f"{name}{error}", hint))
        finally:
            heartbeat.cancel()
            await self._cancel_items()

    def receive(self, message: ToWorker) -> None:
        match message:
            case Assign():
                key = message.item.key
                self._tasks[key] = asyncio.ensure_future(self._work(message))
            case Grant():
                answer = self._waiting.get(message.reservation)
                if answer is not None and not answer.done():
                    answer.set_result(message.granted)
            case Stored():
                self._mark_stored(message.calls)
            case StopWorker():
                if self._stop.is_set() and not message.seconds:  # the driver is gone
                    for key in list(self._tasks):
                        self._cancel(key)
                self._stop_seconds = message.seconds
                self._stop.set()
            case StartWorker():
                raise ValueError("the worker was started already")

    def _mark_stored(self, calls: int) -> None:
        while self._unstored and self._unstored[0][0] <= calls:
            stored = self._unstored.popleft()[1]
            if not stored.done():
                stored.set_result(None)

    async def _work(self, assigned: Assign) -> None:
        item, job = assigned.item, self._job
        if job is None:
            raise RuntimeError("an item arrived before the job was open")
        try:
            journal = self._journals[item.key] = ItemJournal(
                item.key,
                assigned.calls,
                self._send_entry,
                self._start.limits,
                lambda usd: self._reserve(item.key, usd),
            )
            result = await job.run(item, journal)
            # A job may turn the cancellation into a failure of the item.
            is_cut_off = item.key in self._cancelled and result.state != "done"
            self._send(Returned(item.key) if is_cut_off else Finished(result))
        except asyncio.CancelledError:
            self._send(Returned(item.key))
        except Exception as error:  # noqa: BLE001 - a bug of the job must not end the worker
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
            failed = ItemResult(key=item.key, state="failed", reason=reason, boundary="harness")
            self._send(Finished(failed))
        finally:
            self._tasks.pop(item.key, None)
            self._journals.pop(item.key, None)
            self._cancelled.discard(item.key)

    def _cancel(self, key: str) -> None:
        if key in self._tasks:
            self._cancelled.add(key)
            self._tasks[key].cancel()
        if key in self._journals:
            self._journals[key].closed = True

    def _send_entry(self, entry: JournalEntry) -> asyncio.Future[None]:
        """Send an entry; return a future that is done when the driver has stored it."""
        self._send(Call(entry.settle, encode_entry(entry)))
        self._calls += 1
        stored = asyncio.get_running_loop().create_future()
        self._unstored.append((self._calls, stored))
        if self._stop.is_set() and entry.reply is not None:
            self._cancel(entry.key)
        return stored

    async def _reserve(self, key: str, usd: float) -> str:
        """Return the id of a reservation. A call that the budget does not allow never returns:
        the item is cancelled."""
        name = secrets.token_hex(8)
        answer = self._waiting[name] = asyncio.get_running_loop().create_future()
        try:
            self._send(Reserve(name, usd))
            if not await answer:
                self._cancel(key)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            if answer.cancelled() or answer.result():
                # The driver has granted it, or will before it reads this.
                self._send_entry(JournalEntry(key=key, settle=name))
            raise
        finally:
            self._waiting.pop(name, None)
        return name

    async def _return_items(self) -> None:
        """Cancel the items; those with running calls when the calls were answered."""
        for key in list(self._tasks):
            journal = self._journals.get(key)
            if journal is None or not journal.running:
                self._cancel(key)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=self._stop_seconds)
        await self._cancel_items()

    async def _cancel_items(self) -> None:
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self._cancel(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            self._send(Alive())


class WorkerSetup(msgspec.Struct, frozen=True):
    """What all workers of a run start with."""

    spec: RunSpec
    limits: CallLimits | None  #: With a budget only.
    workspace: str  #: See `RunSpec.open_job`.

    def start_message(self, name: str) -> StartWorker:
        kind, data = type(self.spec), msgspec.msgpack.encode(self.spec)
        spec_class = f"{kind.__module__}:{kind.__qualname__}"
        return StartWorker(name, spec_class, data, sys.path, self.workspace, self.limits)


def _load_spec(start: StartWorker) -> RunSpec:
    sys.path.extend(folder for folder in start.path if folder not in sys.path)
    module, _, name = start.spec_class.partition(":")
    kind: type[RunSpec] = getattr(import_module(module), name)
    return msgspec.msgpack.decode(start.spec, type=kind)


# Frames.

_LENGTH = struct.Struct("!I")


class FrameProtocol(asyncio.Protocol):
    """One end of the connection. All messages of one turn of the event loop share a frame."""

    def __init__(
        self, kind: Any, on_message: Callable[[Any], None], on_lost: Callable[[], None]
    ) -> None:
        """`kind` is the type of the messages that this end receives."""
        self._decoder = msgspec.msgpack.Decoder(list[kind])
        self._on_message, self._on_lost = on_message, on_lost
        self._received = bytearray()
        self._outgoing: list[Message] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a socket has a full transport

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start = 0
        while len(received) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(received, start)
            end = start + _LENGTH.size + size
            if len(received) < end:
                break
            frame = bytes(memoryview(received)[start + _LENGTH.size : end])
            start = end
            for message in self._decoder.decode(frame):
                self._on_message(message)
        if start:
            del received[:start]

    def send(self, message: Message) -> None:
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outgoing.append(message)

    def flush(self) -> None:
        if self._transport is not None and self._outgoing:
            data = msgspec.msgpack.encode(self._outgoing)
            self._transport.write(_LENGTH.pack(len(data)) + data)
        self._outgoing.clear()

    def close(self) -> None:
        """Send the rest and close the connection."""
        self.flush()
        if self._transport is not None:
            self._transport.close()


async def serve(connection: socket.socket) -> None:
    """Run the worker of a process, until the driver stops it or is gone."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[ItemWorker] = loop.create_future()
    lost = asyncio.Event()

    def receive(message: ToWorker) -> None:
        if isinstance(message, StartWorker):
            started.set_result(ItemWorker(message, protocol.send))
        else:
            started.result().receive(message)

    def leave() -> None:
        lost.set()
        if started.done():
            started.result().receive(StopWorker(0.0))
        else:
            started.cancel()

    protocol = FrameProtocol(ToWorker, receive, leave)
    await loop.create_connection(lambda: protocol, sock=connection)
    with suppress(asyncio.CancelledError):
        await (await started).run()
        protocol.close()
        await lost.wait()


def _end_with_driver() -> None:
    """End this process when the driver has ended, even if the event loop is blocked."""
    while os.read(0, 1024):
        pass
    threading.Event().wait(EXIT_SECONDS)
    os._exit(1)


def main() -> None:
    allow_many_open_files()
    threading.Thread(target=_end_with_driver, name="driver-watch", daemon=True).start()
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
