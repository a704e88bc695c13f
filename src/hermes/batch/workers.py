"""The workers of a run as the driver sees them: in its own process, or in processes of their own.

A pool starts workers. A worker reports each message to `on_message`, and its end, if the driver did
not ask for it, to `on_lost`.
"""

import asyncio
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from hermes.batch.worker import (
    FrameProtocol,
    FromWorker,
    ItemWorker,
    StopWorker,
    ToWorker,
    WorkerSetup,
)
from hermes.util.processes import end_group, start_program

EXIT_SECONDS = 10.0  #: For a worker to close its job.
LOG_TAIL = 2000  #: Bytes of a worker's log that are searched for the reason of its end.


class WorkerEvents(msgspec.Struct, frozen=True):
    """What the driver does with the reports of a worker."""

    on_message: Callable[[FromWorker], None]
    on_lost: Callable[[str], None]  #: Called once, with the reason.


class Worker(ABC):
    """One running worker."""

    @abstractmethod
    def send(self, message: ToWorker) -> None:
        """Send a message. Does nothing if the worker is gone."""

    @abstractmethod
    async def close(self, seconds: float) -> None:
        """Stop the worker and wait for its end; kill it after `seconds`."""

    async def kill(self) -> None:
        """End a worker that does not answer."""
        await self.close(0.0)


class WorkerPool(ABC):
    """Starts the workers of a run."""

    can_restart = True  #: A worker that is silent is ended and started again.

    def __init__(self, setup: WorkerSetup) -> None:
        self.setup = setup

    @abstractmethod
    async def names(self) -> list[str]:
        """Return the names of the workers to start."""

    @abstractmethod
    async def start(self, name: str, events: WorkerEvents) -> Worker:
        """Start a worker, also again after its end."""

    async def close(self) -> None:
        """Release what the pool holds, after all workers were closed."""
        with suppress(OSError):  # it does not exist, or an item that was killed left files
            Path(self.setup.workspace).rmdir()


class LocalPool(WorkerPool):
    """One worker in this process."""

    can_restart = False

    async def names(self) -> list[str]:
        return ["local"]

    async def start(self, name: str, events: WorkerEvents) -> Worker:
        return _LocalWorker(self, name, events)


class _LocalWorker(Worker):
    def __init__(self, pool: LocalPool, name: str, events: WorkerEvents) -> None:
        self._events = events
        start = pool.setup.start_message(name)
        self._worker = ItemWorker(start, self._deliver)
        self._task = asyncio.ensure_future(self._worker.run(pool.setup.spec))

    def _deliver(self, message: FromWorker) -> None:
        # Not at once: the driver must not assign items while the worker sends.
        asyncio.get_running_loop().call_soon(self._events.on_message, message)

    def send(self, message: ToWorker) -> None:
        if not self._task.done():
            asyncio.get_running_loop().call_soon(self._worker.receive, message)

    async def close(self, seconds: float) -> None:
        self._worker.receive(StopWorker(seconds))
        await asyncio.wait([self._task], timeout=seconds + EXIT_SECONDS)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


class ProcessPool(WorkerPool):
    """Worker processes on this machine. They end with the driver."""

    def __init__(self, setup: WorkerSetup, processes: int, logs: Path) -> None:
        """`logs` is the folder for what the workers print."""
        super().__init__(setup)
        self._processes, self._logs = processes, logs

    async def names(self) -> list[str]:
        return [f"worker-{number}" for number in range(1, self._processes + 1)]

    async def start(self, name: str, events: WorkerEvents) -> Worker:
        self._logs.mkdir(mode=0o700, exist_ok=True)
        log = self._logs / f"{name}.log"
        ours, theirs = socket.socketpair()
        async with AsyncExitStack() as undo:
            undo.callback(ours.close)
            with theirs, log.open("ab") as output:
                process = await start_program(
                    sys.executable,
                    "-m",
                    "hermes.batch.worker",
                    str(theirs.fileno()),
                    stdin=asyncio.subprocess.PIPE,  # held open: its end tells of our end
                    stdout=output,
                    stderr=output,
                    pass_fds=(theirs.fileno(),),
                )
            undo.callback(end_group, process)
            worker = _WorkerProcess(process, log, events)
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: worker.protocol, sock=ours)
            undo.pop_all()
        worker.send(self.setup.start_message(name))
        return worker

    async def close(self) -> None:
        await super().close()
        for log in self._logs.glob("*.log"):
            if not log.stat().st_size:
                log.unlink()
        with suppress(OSError):
            self._logs.rmdir()


class _WorkerProcess(Worker):
    def __init__(
        self, process: asyncio.subprocess.Process, log: Path, events: WorkerEvents
    ) -> None:
        self._process, self._log, self._events = process, log, events
        self._closing, self._disconnect = False, asyncio.Event()
        self.protocol = FrameProtocol(FromWorker, events.on_message, self._disconnected)

    def send(self, message: ToWorker) -> None:
        self.protocol.send(message)

    def _disconnected(self) -> None:
        self._disconnect.set()
        if not self._closing:
            self._ending = asyncio.ensure_future(self._report_end())

    async def _report_end(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._process.wait()
        end_group(self._process)
        code = await self._process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._events.on_lost(f"the worker ended with {how}{_last_line(self._log)}")

    async def close(self, seconds: float) -> None:
        self._closing = True
        self.protocol.send(StopWorker(seconds))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds + EXIT_SECONDS if seconds else 0):
                await self._process.wait()
        end_group(self._process)
        await self._process.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(1):  # its last messages may still be in the socket
                await self._disconnect.wait()
        self.protocol.close()


def _last_line(log: Path) -> str:
    """Return the last line of a worker's log, as the rest of a sentence."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LOG_TAIL))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""
