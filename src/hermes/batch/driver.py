"""The driver of a run: assigns items to workers and is the only writer of the run's folder.

    async with BatchRun(folder, spec, RunOptions(concurrency=64)) as run:
        outcome = await run.execute()

The folder has `run.json` (the spec), `ledger.db` (the state of the items), `journal.jsonl` (the
answered model calls of unfinished items) and the output files. Opening it again with the same spec
continues the run.
"""

import asyncio
import hashlib
import os
import signal
import tempfile
import threading
import time
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, assert_never

import msgspec

from hermes.batch.journal import JOURNAL, CallLimits, JournalEntry, JournalFile, RunBudget
from hermes.batch.ledger import (
    CHUNK,
    LOCK,
    SPEC,
    Dataset,
    Lease,
    LedgerChanges,
    RunFile,
    RunLedger,
    as_store_error,
    read_run_file,
)
from hermes.batch.work import ItemResult, ItemState, RunSpec
from hermes.batch.worker import (
    Alive,
    Assign,
    Broken,
    Call,
    Finished,
    FromWorker,
    Grant,
    Ready,
    Reserve,
    Returned,
    Stopped,
    Stored,
    WorkerSetup,
)
from hermes.batch.workers import LocalPool, ProcessPool, Worker, WorkerEvents, WorkerPool
from hermes.core.errors import HermesError, Interrupted, UsageError
from hermes.providers.policy.budget import ROUNDING
from hermes.util.files import file_lock, write_bytes

FAILED_PREFIX = "failed_"  #: Of the file with the lines of failed items.
LOGS = "logs"  #: What worker processes print.
COMMIT_SECONDS = 0.05  #: Results are collected for this long before they are stored.
PROGRESS_SECONDS = 0.5
MAX_UNCOMMITTED = 2000  #: Results that wait for the disk; above this, no new items are assigned.
MAX_CRASHES = 3  #: An item that ended its worker this often, the last time alone, has failed.
SUSPECT_SHARE = 8
"""After each crash an item may share its worker with this fraction (1/8) of the items only, so that
the one which ends workers is found soon."""
FAILED_STARTS = 3  #: In a row, after which the run gives up.


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is executed. None of these change its results."""

    concurrency: int = 64  #: Items at the same time, in all workers together.
    processes: int | None = None
    """Worker processes; 0 works in this process, None takes one for each core. With Ray, workers
    for each node; None takes one."""
    ray_address: str = ""  #: Of a Ray cluster; `local` starts one on this machine.
    budget_usd: float | None = None  #: For the whole run, with its earlier sessions.
    retry_failed: bool = False  #: Run failed items again.
    lease_seconds: float = 120.0  #: A worker that is silent for this long is replaced.
    stop_seconds: float = 10.0  #: For running model calls to be answered when the run is stopped.
    handle_signals: bool = True
    """Let Ctrl-C and SIGTERM stop the run. The second signal ends the process at once."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    counts: dict[ItemState, int]
    cost_usd: float  #: Of the whole run, with its earlier sessions.
    finished: int  #: Items that ended in this session.
    seconds: float  #: Of this session.
    workers: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.finished / self.seconds if self.seconds else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Seconds to the end; None while that is unknown."""
        left = self.counts["pending"] + self.counts["leased"]
        return left / self.rate if self.rate else None


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    counts: dict[ItemState, int]
    cost_usd: float  #: Of the whole run, with its earlier sessions.
    seconds: float  #: Of this session.
    ended: Literal["complete", "interrupted", "budget"]
    dataset: Dataset


class _WorkerState:
    """A worker and the items that it works on. A restarted worker has a new state."""

    def __init__(self, name: str, capacity: int, failed_starts: int = 0) -> None:
        self.name, self.capacity, self.failed_starts = name, capacity, failed_starts
        self.worker: Worker | None = None
        self.ready = False
        self.leases: dict[str, Lease] = {}
        self.reservations: set[str] = set()  #: Money for its calls, granted or asked for.
        self.calls = 0  #: That were received.
        self.last_seen = time.monotonic()
        self.has_suspects = False  #: It has had an item whose worker ended before.

    def has_room_for(self, crashes: int) -> bool:
        if not self.ready or len(self.leases) >= self.capacity:
            return False
        if not crashes and not self.has_suspects:
            return True
        worst = max([crashes, *(lease.crashes for lease in self.leases.values())])
        limit: int = self.capacity // SUSPECT_SHARE**worst
        return len(self.leases) < max(1, limit)


class BatchRun:
    """One run in its folder; an async context manager. At most one process has a run open.

    Opening it raises `UsageError` if another process works on the run, or if the folder has a run
    with other settings.
    """

    def __init__(
        self,
        folder: Path,
        spec: RunSpec,
        options: RunOptions | None = None,
        on_progress: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        self.folder, self.spec, self.options = folder, spec, options or RunOptions()
        self._on_progress = on_progress
        self._resources = AsyncExitStack()
        self._thread = ThreadPoolExecutor(1, "hermes-ledger")  # the ledger waits for the disk
        self._workers: dict[str, _WorkerState] = {}
        self._queue: deque[Lease] = deque()
        self._suspects: deque[Lease] = deque()
        """Items whose worker ended before; they run when the others are done."""
        self._exhausted = False  #: All items of the dataset were read.
        self._changes = LedgerChanges()
        self._finished = 0
        self._error: HermesError | None = None
        self._stopping = self._closing = self._storing = False
        self._wake_feeder, self._wake_committer = asyncio.Event(), asyncio.Event()
        self._done = asyncio.Event()
        self._restarts: set[asyncio.Task[None]] = set()

    # Opening and closing.

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(self._thread.shutdown)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                stack.enter_context(file_lock(self.folder / LOCK, 1.0))
            except TimeoutError:
                raise UsageError(
                    f"another process works on the run in {self.folder}",
                    hint="wait for its end, or stop it with Ctrl-C there",
                ) from None
            limits = _call_limits(self.spec, self.options)
            _check_spec(self.folder, self.spec)
            self._ledger: RunLedger = await self._in_thread(RunLedger, self.folder)
            stack.push_async_callback(self._in_thread, self._ledger.close)
            self.dataset: Dataset = await self._in_thread(self._ledger.add_items, self.spec.items())
            _store_spec(self.folder, self.spec)
            if self.options.retry_failed:
                await self._in_thread(self._ledger.retry_failed)
            self._journal = JournalFile(self.folder / JOURNAL)
            stack.callback(self._journal.close)
            self._open_budget()
            self._counts: dict[ItemState, int] = await self._in_thread(self._ledger.counts)
            self._pool = _make_pool(self.folder, self.spec, self.options, limits)
            self._source = iter(self.spec.items())
            self._resources = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._resources.aclose()

    def _open_budget(self) -> None:
        known = self._ledger.find_unfinished(self._journal.keys())
        self._journal.forget(self._journal.keys() - known)
        # The file may have been deleted.
        lost = self._ledger.fact("spent_usd", 0.0) - self._journal.spent_usd
        if lost > 1e-6:
            self._journal.write(JournalEntry(usd=lost))
        cap = self.options.budget_usd
        self._budget = None if cap is None else RunBudget(cap, self._journal)

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    # Executing.

    async def execute(self) -> RunOutcome:
        """Work on all items, until they have ended, the run is stopped or its budget is spent.

        Raises `HermesError` if the run cannot go on; what is stored stays.
        """
        self._began = time.monotonic()
        if self._counts["pending"]:
            await self._execute()
        if self._error is not None:
            raise self._error
        return self._outcome()

    async def _execute(self) -> None:
        committer = asyncio.ensure_future(self._commit_until_closed())
        feeder, watcher = map(asyncio.ensure_future, (self._feed(), self._watch()))
        done = asyncio.ensure_future(self._done.wait())
        feeder.add_done_callback(self._feeder_ended)
        with ExitStack() as stack:
            self._catch_signals(stack)
            try:
                await self._start_workers()
                await asyncio.wait({done, committer, watcher}, return_when=FIRST_COMPLETED)
            finally:
                self._stopping = True
                await self._close_workers()
                for task in (done, feeder, watcher):
                    task.cancel()
                ends = await asyncio.gather(done, feeder, watcher, return_exceptions=True)
                self._closing = True
                self._wake_committer.set()
                await committer
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def stop(self) -> None:
        """Stop the run: no more items begin, and running ones return to the ledger. Model calls
        that are running get some seconds to be answered."""
        self._stopping = True
        self._done.set()

    def _outcome(self) -> RunOutcome:
        left = self._counts["pending"] + self._counts["leased"]
        refused = self._budget is not None and self._budget.refused
        self._report()
        if not left:
            self._journal.compact()
        return RunOutcome(
            counts=dict(self._counts),
            cost_usd=self._journal.spent_usd,
            seconds=time.monotonic() - self._began,
            ended="budget" if left and refused else "interrupted" if left else "complete",
            dataset=self.dataset,
        )

    def _catch_signals(self, stack: ExitStack) -> None:
        if not self.options.handle_signals or threading.current_thread().name != "MainThread":
            return

        def on_signal() -> None:
            if self._stopping:
                # The ledger is durable, and the workers end with this process.
                os._exit(Interrupted.exit_code)
            self.stop()

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal)
            stack.callback(loop.remove_signal_handler, number)

    def _fail(self, error: HermesError) -> None:
        self._error = self._error or error
        self.stop()

    # Workers.

    async def _start_workers(self) -> None:
        names = await self._pool.names()
        share, rest = divmod(self.options.concurrency, len(names))
        for number, name in enumerate(names):
            self._workers[name] = _WorkerState(name, max(1, share + (number < rest)))
        await asyncio.gather(*map(self._start_worker, list(self._workers.values())))
        self._check_done()

    async def _start_worker(self, state: _WorkerState) -> None:
        events = WorkerEvents(partial(self._on_message, state), partial(self._on_lost, state))
        try:
            state.worker = await self._pool.start(state.name, events)
        except OSError as error:
            self._fail(HermesError(f"a worker cannot be started ({error})"))

    async def _close_workers(self) -> None:
        for task in self._restarts:
            task.cancel()
        await asyncio.gather(*self._restarts, return_exceptions=True)
        seconds = self.options.stop_seconds
        running = [state.worker for state in self._workers.values() if state.worker is not None]
        await asyncio.gather(*(worker.close(seconds) for worker in running))
        for state in self._workers.values():
            self._release(state)
        await self._pool.close()

    def _release(self, state: _WorkerState) -> None:
        """Take over from a worker that has ended: its calls may have been charged."""
        for lease in list(state.leases.values()):
            self._return(state, lease.item.key)
        for name in state.reservations:
            if name in self._journal.reserved:
                self._journal.write(JournalEntry(settle=name, usd=self._journal.reserved[name]))
            elif self._budget is not None:
                self._budget.withdraw(name)
        state.reservations.clear()

    def _on_lost(self, state: _WorkerState, reason: str) -> None:
        """Put the items of a worker that has ended back, and start another one."""
        if self._workers.get(state.name) is not state or self._stopping:
            return
        is_alone = len(state.leases) == 1
        for lease in list(state.leases.values()):
            lease.crashes += 1
            if is_alone and lease.crashes >= MAX_CRASHES:
                self._finish(state, failed_result(lease.item.key, reason))
            else:
                self._changes.crashed.add(lease.item.key)
        self._release(state)
        failed_starts = 0 if state.ready else state.failed_starts + 1
        if failed_starts >= FAILED_STARTS:
            self._fail(HermesError(reason, hint=f"see the logs in {self.folder / LOGS}"))
            return
        new = self._workers[state.name] = _WorkerState(state.name, state.capacity, failed_starts)
        task = asyncio.ensure_future(self._start_worker(new))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)
        if self._budget is not None:
            self._budget.serve()

    async def _watch(self) -> None:
        """Report the progress, and replace workers that are silent for too long."""
        patience = self.options.lease_seconds
        while True:
            before = time.monotonic()
            await asyncio.sleep(PROGRESS_SECONDS)
            self._report()
            now = time.monotonic()
            for state in list(self._workers.values()):
                if now - before > patience / 2:  # this process itself was asleep
                    state.last_seen = now
                elif now - state.last_seen > patience and state.worker and self._pool.can_restart:
                    await state.worker.kill()
                    self._on_lost(state, f"the worker was silent for {patience:g} s")

    def _report(self) -> None:
        self._on_progress(
            Progress(
                counts=dict(self._counts),
                cost_usd=self._journal.spent_usd,
                finished=self._finished,
                seconds=time.monotonic() - self._began,
                workers=sum(state.ready for state in self._workers.values()),
            )
        )

    # Items.

    async def _feed(self) -> None:
        """Read the items that are pending from the dataset, somewhat ahead of the workers."""
        while not self._exhausted:
            self._wake_feeder.clear()
            if len(self._queue) > max(CHUNK, self.options.concurrency):
                await self._wake_feeder.wait()
            found: list[Lease] | None = await self._in_thread(self._read_pending)
            if found is None:
                self._exhausted = True
            else:
                self._queue += found
            self._assign()

    def _feeder_ended(self, feeder: asyncio.Future[None]) -> None:
        if not feeder.cancelled() and (error := feeder.exception()) is not None:
            self._fail(error if isinstance(error, HermesError) else HermesError(repr(error)))

    def _read_pending(self) -> list[Lease] | None:
        chunk = list(islice(self._source, CHUNK))
        pending = self._ledger.find_pending([item.key for item in chunk])
        leases = [Lease(item, pending[item.key]) for item in chunk if item.key in pending]
        return leases if chunk else None

    @property
    def _may_assign(self) -> bool:
        spent = self._budget is not None and self._budget.refused
        return not (self._stopping or spent or len(self._changes.results) > MAX_UNCOMMITTED)

    def _assign(self) -> None:
        """Give items to the workers that have room, to the least busy one first."""
        while self._queue and self._may_assign:
            lease = self._queue.popleft()
            if lease.crashes:
                self._suspects.append(lease)
            elif not self._lease(lease):
                self._queue.appendleft(lease)
                break
        if not self._queue:
            if self._exhausted and self._may_assign:
                self._suspects = deque([s for s in self._suspects if not self._lease(s)])
            self._wake_feeder.set()
        self._check_done()

    def _lease(self, lease: Lease) -> bool:
        """Assign an item to a worker; return False if none has room."""
        free = [state for state in self._workers.values() if state.has_room_for(lease.crashes)]
        if not free:
            return False
        state, key = min(free, key=lambda state: len(state.leases)), lease.item.key
        assert state.worker is not None  # it is ready
        state.leases[key] = lease
        state.has_suspects = state.has_suspects or lease.crashes > 0
        self._change("pending", "leased")
        self._changes.leased[key] = (state.name, time.time() + self.options.lease_seconds)
        state.worker.send(Assign(lease.item, self._journal.calls(key)))
        return True

    def _change(self, before: ItemState, after: ItemState) -> None:
        self._counts[before] -= 1
        self._counts[after] += 1
        self._wake_committer.set()

    def _on_message(self, state: _WorkerState, message: FromWorker) -> None:
        if self._workers.get(state.name) is not state:
            return  # the worker was replaced
        state.last_seen = time.monotonic()
        try:
            self._handle(state, message)
        except OSError as error:  # of the journal
            self._fail(as_store_error(error, self.folder / JOURNAL))

    def _handle(self, state: _WorkerState, message: FromWorker) -> None:
        match message:
            case Ready():
                state.ready = True
                self._assign()
            case Alive() | Stopped():
                pass
            case Broken():
                self._fail(HermesError(message.error, hint=message.hint))
            case Call():
                self._store_call(state, message)
            case Reserve():
                self._reserve(state, message)
            case Finished():
                self._finish(state, message.result)
                self._assign()
            case Returned():
                self._return(state, message.key)
            case _:
                assert_never(message)

    def _store_call(self, state: _WorkerState, call: Call) -> None:
        if call.settle and call.settle not in self._journal.reserved:
            if self._budget is not None:
                self._budget.withdraw(call.settle)
        else:
            self._journal.append(call.line)
            self._wake_committer.set()
        state.calls += 1
        if state.worker is not None:
            state.worker.send(Stored(state.calls))
        if call.settle:
            state.reservations.discard(call.settle)
            if self._budget is not None:
                self._budget.serve()

    def _reserve(self, state: _WorkerState, asked: Reserve) -> None:
        worker = state.worker
        if worker is not None and self._budget is not None:
            state.reservations.add(asked.reservation)
            self._budget.reserve(
                asked.reservation,
                asked.usd,
                lambda granted: worker.send(Grant(asked.reservation, granted)),
            )

    def _finish(self, state: _WorkerState, result: ItemResult) -> None:
        lease = state.leases.pop(result.key, None)
        if lease is None:
            return
        if b"\n" in result.line or (result.state == "done" and not result.line):
            result = failed_result(result.key, "the job returned an invalid output line")
        # Calls that were not journaled, such as those of a judge.
        more = (result.cost_usd or 0.0) - self._journal.cost(result.key)
        if more > ROUNDING:
            self._journal.write(JournalEntry(key=result.key, usd=more))
        file = self.spec.output_file(lease.item) if result.line else ""
        if file and result.state == "failed":
            file = f"{FAILED_PREFIX}{file}"
        self._changes.results[result.key] = (result, file)
        self._change("leased", result.state)
        self._finished += 1

    def _return(self, state: _WorkerState, key: str) -> None:
        lease = state.leases.pop(key, None)
        if lease is not None:
            self._changes.returned[key] = lease
            self._change("leased", "pending")

    def _check_done(self) -> None:
        if any(state.leases for state in self._workers.values()) or self._changes or self._storing:
            return
        waiting = self._queue or self._suspects or not self._exhausted
        if not waiting or not self._may_assign:
            self._done.set()

    # Storing.

    async def _commit_until_closed(self) -> None:
        while not self._closing or self._changes:
            await self._wake_committer.wait()
            if not self._closing:
                await asyncio.sleep(COMMIT_SECONDS)
            self._wake_committer.clear()
            changes, self._changes = self._changes, LedgerChanges()
            self._storing = True
            await self._in_thread(self._store, changes, self._journal.spent_usd)
            self._storing = False
            self._journal.forget(changes.results)
            for lease in changes.returned.values():
                (self._suspects if lease.crashes else self._queue).append(lease)
            self._assign()

    def _store(self, changes: LedgerChanges, spent_usd: float) -> None:
        self._journal.sync()
        if changes:
            self._ledger.apply(changes, spent_usd)


def _check_spec(folder: Path, spec: RunSpec) -> None:
    """Refuse a run with other settings than the folder's."""
    path = folder / SPEC
    if path.exists() and read_run_file(folder).fingerprint != spec.fingerprint():
        raise UsageError(
            f"the run in {folder} was started with other settings, see {path}",
            hint="use these settings again, or give the new run another name",
        )


def _store_spec(folder: Path, spec: RunSpec) -> None:
    path = folder / SPEC
    if not path.exists():
        stored = msgspec.json.encode(_without_keys(msgspec.to_builtins(spec)))
        data = msgspec.json.encode(RunFile(spec.fingerprint(), msgspec.Raw(stored)))
        write_bytes(path, msgspec.json.format(data) + b"\n")


def _call_limits(spec: RunSpec, options: RunOptions) -> CallLimits | None:
    if options.budget_usd is None:
        return None
    price = spec.price()
    if price is None:
        raise UsageError(
            "the price of the model is not known, so the budget of the run cannot be enforced",
            hint="set the price per million tokens, or leave the budget out",
        )
    return CallLimits(price, spec.max_output())


def _make_pool(
    folder: Path, spec: RunSpec, options: RunOptions, limits: CallLimits | None
) -> WorkerPool:
    # A name of its own for each run: no other run uses the same folder at the same time.
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
    workspace = Path(tempfile.gettempdir(), f"hermes-run-{name}")
    setup = WorkerSetup(spec, limits, str(workspace))
    if options.ray_address:
        from hermes.batch.ray_workers import RayPool  # an extra

        return RayPool(setup, options.ray_address, options.processes or 1)
    if options.processes == 0:
        return LocalPool(setup)
    processes = min(options.processes or os.cpu_count() or 1, options.concurrency)
    return ProcessPool(setup, processes, folder / LOGS)


def failed_result(key: str, reason: str) -> ItemResult:
    return ItemResult(key=key, state="failed", reason=reason, boundary="harness")


def _without_keys(value: Any) -> Any:
    """Return JSON data without API keys."""
    if isinstance(value, dict):
        return {name: _without_keys(v) for name, v in value.items() if name != "api_key"}
    return [_without_keys(v) for v in value] if isinstance(value, list | tuple) else value
