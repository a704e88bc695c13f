"""Workers on the nodes of a Ray cluster. Needs the extra `ray`, here and on every node.

Each node gets actors with an event loop of their own. The driver calls `send` with messages for the
worker and waits in `poll` for a list of its messages, so the driver stays the only writer and the
files are the same as without Ray.

Ray does not restart the actors: the items of a lost actor are gone from its memory, and calls of an
actor that is being restarted fail. The driver puts the items back and starts a new actor, on the
same node or, if the node is lost, on another one.
"""

import asyncio
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec

from hermes.batch.worker import (
    Broken,
    FromWorker,
    ItemWorker,
    StartWorker,
    Stopped,
    StopWorker,
    ToWorker,
    WorkerSetup,
)
from hermes.batch.workers import EXIT_SECONDS, Worker, WorkerEvents, WorkerPool
from hermes.config.environment import export_variable
from hermes.core.errors import HermesError, UsageError
from hermes.util.extras import is_installed
from hermes.util.files import allow_many_open_files

LOCAL = "local"  #: Instead of an address: start a cluster of this machine.
POLL_SECONDS = (
    5.0  #: A poll returns after this time without messages. It shows that the actor lives.
)
CONNECT_SECONDS = 60.0
START_SECONDS = 120.0  #: For a node to start the process of an actor.

_TO_WORKER = msgspec.msgpack.Decoder(list[ToWorker])
_FROM_WORKER = msgspec.msgpack.Decoder(list[FromWorker])


class WorkerActor:
    """An `ItemWorker` in an actor. Messages are encoded lists, as in the frames of a process."""

    def __init__(self) -> None:
        self._worker: ItemWorker | None = None
        self._outgoing: list[FromWorker] = []
        self._changed = asyncio.Event()

    async def start(self, start: bytes) -> None:
        allow_many_open_files()
        message = msgspec.msgpack.decode(start, type=StartWorker)
        self._worker = ItemWorker(message, self._collect)
        self._task = asyncio.ensure_future(self._worker.run())

    def _collect(self, message: FromWorker) -> None:
        self._outgoing.append(message)
        self._changed.set()

    async def send(self, messages: bytes) -> None:
        if self._worker is not None:
            for message in _TO_WORKER.decode(messages):
                self._worker.receive(message)

    async def poll(self) -> bytes:
        """Return the messages of the worker, as soon as there are any."""
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await self._changed.wait()
        outgoing, self._outgoing = self._outgoing, []
        self._changed.clear()
        return msgspec.msgpack.encode(outgoing)


class RayPool(WorkerPool):
    """Actors on the nodes that the cluster has when the run begins."""

    def __init__(self, setup: WorkerSetup, address: str, per_node: int) -> None:
        """Raises `UsageError` if Ray is not installed."""
        super().__init__(setup)
        if not is_installed("ray"):
            raise UsageError("Ray is not installed", hint="hermes setup ray")
        self._ray = import_module("ray")
        self._address, self._per_node = address, per_node
        self._nodes: dict[str, str] = {}  #: Ids by the names of workers.
        self._started: set[str] = set()
        self._is_ours = False
        self._closed = threading.Event()

    async def names(self) -> list[str]:
        """Connect to the cluster. Raises `HermesError` if that fails."""
        if not self._ray.is_initialized():
            try:
                async with asyncio.timeout(CONNECT_SECONDS):  # Ray tries for many minutes
                    await self._connect_in_thread()
            except (RuntimeError, ValueError, OSError) as error:
                reason = str(error).partition("\n")[0] or "it does not answer"
                raise HermesError(
                    f"cannot connect to the Ray cluster {self._address}: {reason}",
                    hint="`ray status --address ADDRESS` shows whether it runs",
                ) from error
            self._is_ours = True
        for number, node in enumerate(self._alive(), start=1):
            for worker in range(1, self._per_node + 1):
                self._nodes[f"node-{number}-{worker}"] = node
        if not self._nodes:
            raise HermesError("the Ray cluster has no nodes")
        return list(self._nodes)

    async def _connect_in_thread(self) -> None:
        """Connect in a daemon thread, which then lives as long as the pool: the processes of a
        cluster that Ray starts end with the thread that started them."""
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[None] = loop.create_future()

        def settle(error: Exception | None) -> None:
            if connected.done():  # the time is over
                return
            if error is None:
                connected.set_result(None)
            else:
                connected.set_exception(error)

        def work() -> None:
            error: Exception | None = None
            try:
                self._connect()
            except Exception as raised:  # noqa: BLE001 - it is raised where it is awaited
                error = raised
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, error)
            self._closed.wait()

        threading.Thread(target=work, name="hermes-ray", daemon=True).start()
        await connected

    def _connect(self) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
        if self._address == LOCAL:
            # Ray reads this from the environment only. A cluster of ours reports nothing.
            export_variable("RAY_USAGE_STATS_ENABLED", "0")
            self._ray.init(
                address=LOCAL, include_dashboard=False, _node_ip_address="127.0.0.1", **options
            )
        else:
            self._ray.init(address=self._address, **options)

    def _alive(self) -> list[str]:
        return [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]

    async def start(self, name: str, events: WorkerEvents) -> Worker:
        node = self._nodes[name]
        strategies = import_module("ray.util.scheduling_strategies")
        is_alive = node in await asyncio.to_thread(self._alive)
        # Ray may put a softly bound actor on any node. A worker that is started again may be bound
        # to a lost node, of which the cluster does not know yet.
        is_again = name in self._started
        self._started.add(name)
        strategy = (
            strategies.NodeAffinitySchedulingStrategy(node, soft=is_again) if is_alive else "SPREAD"
        )
        # No CPU is claimed: a worker waits most of the time.
        actor = self._ray.remote(num_cpus=0, max_restarts=0)(WorkerActor)
        handle = actor.options(scheduling_strategy=strategy).remote()
        return _RayWorker(self._ray, handle, self.setup.start_message(name), events)

    async def close(self) -> None:
        await super().close()
        if self._is_ours:
            await asyncio.to_thread(self._ray.shutdown)
        self._closed.set()


class _RayWorker(Worker):
    def __init__(self, ray: Any, actor: Any, start: StartWorker, events: WorkerEvents) -> None:
        self._ray, self._actor, self._events = ray, actor, events
        self._outgoing: list[ToWorker] = []
        self._sending: set[asyncio.Future[None]] = set()
        self._closing, self._ended = False, asyncio.Event()
        self._polling = asyncio.ensure_future(self._poll(start))

    async def _poll(self, start: StartWorker) -> None:
        errors = import_module("ray.exceptions")
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._actor.start.remote(msgspec.msgpack.encode(start))
            while True:
                for message in _FROM_WORKER.decode(await self._actor.poll.remote()):
                    self._events.on_message(message)
                    if isinstance(message, Stopped | Broken):
                        self._ended.set()
        except (errors.RayError, TimeoutError) as error:
            self._ended.set()
            if not self._closing:
                self._ray.kill(self._actor)
                reason = str(error).partition("\n")[0] or type(error).__name__
                self._events.on_lost(f"the Ray actor was lost: {reason}")

    def send(self, message: ToWorker) -> None:
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(message)

    def _flush(self) -> None:
        data = msgspec.msgpack.encode(self._outgoing)
        self._outgoing = []
        sending = asyncio.ensure_future(self._deliver(self._actor.send.remote(data)))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _deliver(self, reference: Any) -> None:
        # A lost actor is reported by `_poll`.
        with suppress(import_module("ray.exceptions").RayError):
            await reference

    async def close(self, seconds: float) -> None:
        self._closing = True
        if seconds:
            self.send(StopWorker(seconds))
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds + EXIT_SECONDS):
                    await self._ended.wait()
        self._polling.cancel()
        await asyncio.gather(self._polling, return_exceptions=True)
        self._ray.kill(self._actor)
