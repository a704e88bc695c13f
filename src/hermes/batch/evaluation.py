"""Runs of tasks: our agent, or the solution of each task, works on a set of tasks several times.

Each scored rollout is a line of `traces.jsonl`, a `hermes.envs.Trace`. A failed rollout is not a
result: the ledger has its boundary, and its trace is in `failed_traces.jsonl`.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path
from typing import Any, Self, cast

import msgspec

from hermes.app import Providers
from hermes.batch.journal import JournaledModel, request_digest
from hermes.batch.models import RunModel, TargetModels
from hermes.batch.prompts import WITHOUT_IMAGES
from hermes.batch.results import PASS_REWARD, TRACES
from hermes.batch.work import CallJournal, ItemJob, ItemResult, RunSpec, WorkItem, number_items
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.core.messages import Assistant, Text
from hermes.core.model import EmitModelEvent, Model, ModelRequest, Price, Reply, Usage
from hermes.envs import (
    CaptureServer,
    Failure,
    ModelEndpoint,
    RolloutContext,
    RolloutOptions,
    RolloutRunner,
    ServerKind,
    Task,
    TaskError,
    Trace,
    load_tasks,
    select_tasks,
)
from hermes.envs.runner import Endpoint, SilentProgress
from hermes.envs.task import run_task_code
from hermes.util.concurrency import SystemClock

ORACLE = "oracle"  #: The name of the model in traces of solutions.
ORACLE_REPLY = "The solution of the task was run."


class CaptureSettings(msgspec.Struct, frozen=True):
    """The capture endpoint of token-exact traces."""

    kind: ServerKind
    parser: str = ""  #: Of tool calls; empty is that of `CaptureServer`.


class TaskSpec(RunSpec, frozen=True, kw_only=True, tag="tasks"):
    """A run of tasks."""

    source: str  #: As for `load_tasks`; files and folders are absolute.
    options: dict[str, str] = msgspec.field(default_factory=dict)
    patterns: tuple[str, ...] = ()  #: Of task keys; empty: all tasks.
    limit: int = 0  #: The largest number of tasks; 0: all.
    model: RunModel = RunModel()
    sampling: dict[str, Any] = msgspec.field(default_factory=dict)
    """Fields of each request: temperature, top_p, max_tokens, seed."""
    rollout: RolloutOptions = RolloutOptions()
    repeats: int = 1  #: Rollouts of each task.
    capture: CaptureSettings | None = None
    oracle: bool = False  #: Run the solution of each task instead of an agent.
    pass_reward: float = PASS_REWARD  #: The reward with which a rollout passes.

    def fingerprint(self) -> str:
        """The address of the endpoint and the home are not part of it: they may move."""
        limits = msgspec.to_builtins(self.rollout)
        del limits["attempts"], limits["timeout"], limits["workspace"]
        facts = [ORACLE] if self.oracle else [self.model.resolved, self.sampling, self.capture]
        data = msgspec.json.encode([facts, limits], order="sorted")
        return hashlib.sha256(data).hexdigest()

    def tasks(self) -> list[Task]:
        """Return the selected tasks. Raises `UsageError`."""
        tasks = _load(self.source, tuple(self.options.items()))
        return select_tasks(tasks, self.patterns, self.limit)

    def items(self) -> Iterator[WorkItem]:
        tasks = self.tasks()
        for task in tasks:
            if self.oracle and not hasattr(task, "solve"):
                raise UsageError(
                    f"the task {task.key} has no solution",
                    hint="define `async def solve(self, ctx)` in its class",
                )
            if task.image and self.rollout.backend in WITHOUT_IMAGES:
                raise UsageError(
                    f"the task {task.key} needs the image {task.image}, but commands run in the"
                    f" backend {self.rollout.backend}",
                    hint="add --backend docker",
                )
            check = getattr(task, "check", None)
            if check is not None and not getattr(task, "unsupported", ""):
                check(self.rollout.backend)
        rows = ({"task": task.key, "hash": task.hash} for task in tasks)
        return number_items(rows, self.fingerprint(), self.repeats)

    def output_file(self, item: WorkItem) -> str:  # noqa: ARG002 - the signature is that of RunSpec
        return TRACES

    def open_job(self, workspace: str = "") -> "TaskJob":
        return TaskJob(self, workspace)

    def price(self) -> Price | None:
        return self.model.price

    def max_output(self) -> int | None:
        longest = self.sampling.get("max_tokens")
        return int(longest) if longest else None


@cache
def _load(source: str, options: tuple[tuple[str, str], ...]) -> list[Task]:
    """Load a set once in a process: the code of the user may be slow, or have effects."""
    return load_tasks(source, dict(options))


class TaskJob(ItemJob):
    """Runs rollouts of tasks in a worker."""

    def __init__(self, spec: TaskSpec, workspace: str) -> None:
        self._spec, self._workspace = spec, workspace
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        spec = self._spec
        options = msgspec.structs.replace(spec.rollout, workspace=self._workspace)
        async with AsyncExitStack() as stack:
            self._tasks = {task.key: task for task in spec.tasks()}
            self._endpoint: Endpoint = (
                (_OracleModel(), ModelEndpoint(base_url="http://127.0.0.1:9", model=ORACLE))
                if spec.oracle
                else await self._open_model(stack)
            )
            self._runner = await stack.enter_async_context(RolloutRunner(options))
            self._resources = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._resources.aclose()

    async def _open_model(self, stack: AsyncExitStack) -> Endpoint:
        spec, replace = self._spec, msgspec.structs.replace
        loaded = spec.model.load()
        providers = await stack.enter_async_context(
            Providers(Home(Path(spec.model.home)), loaded, SystemClock(), SilentProgress())
        )
        target = await spec.model.find_target(providers, loaded)
        profile = target.profile
        endpoint = ModelEndpoint(
            base_url=target.base_url,
            model=target.model,
            sampling=spec.sampling,
            context_length=profile.context_length,
            price=profile.price,
        )
        if spec.capture is not None:
            keys = [each.secret for each in target.credentials if each.kind == "api_key"]
            server = CaptureServer(
                target.base_url,
                spec.capture.kind,
                model=target.model,
                api_key=next(iter(keys), ""),
                parser=spec.capture.parser,
            )
            return await stack.enter_async_context(server), endpoint
        profile = replace(profile, extra_body={**profile.extra_body, **spec.sampling})
        return TargetModels(providers, replace(target, profile=profile)), endpoint

    async def run(self, item: WorkItem, journal: CallJournal) -> ItemResult:
        task = self._tasks.get(item.row["task"])
        if task is None or task.hash != item.row["hash"]:
            changed = "the worker loaded another content of the task than the driver"
            return _result(item, Trace(item.key, item.row["task"], item.row["hash"], "",
                failure=Failure.of(TaskError(changed))))  # fmt: skip
        spec = self._spec
        if spec.oracle:
            solved = cast("Task", _SolvedTask(task))
            trace = await self._runner.run(solved, self._endpoint, folder_name=item.key)
        else:
            kind = _CapturedModel if spec.capture else JournaledModel
            trace = await self._runner.run(
                task,
                self._endpoint,
                wrap=lambda model: kind(model, journal),
                folder_name=item.key,
            )
        trace.id = item.key  # the attempts of an item have the same id; the last one counts
        return _result(item, trace)


def _result(item: WorkItem, trace: Trace) -> ItemResult:
    failure = trace.failure
    return ItemResult(
        key=item.key,
        state="failed" if failure else "done",
        reason=f"{failure.error}: {failure.message}" if failure else "",
        boundary=failure.boundary if failure else "",
        line=msgspec.json.encode(trace),
        usage=trace.usage + trace.lost_usage,
        cost_usd=trace.cost_usd,
        api_calls=sum(node.sampled for node in trace.nodes),
        seconds=trace.seconds,
    )


class _CapturedModel(JournaledModel):
    """Calls the capture endpoint also for a request that was answered before an interruption: the
    endpoint records only calls that it sees."""

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        digest = request_digest(request)
        while self._journal.find(digest) is not None:
            pass
        return await super().call(request, emit)


# Solutions.


class _SolvedTask:
    """A task whose setup also runs its solution."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    async def setup(self, ctx: RolloutContext) -> None:
        await run_task_code("setup", self._task.setup, ctx)
        await run_task_code("solve", self._task.solve, ctx)  # type: ignore[attr-defined]  # checked by `items`


class _OracleModel:
    """The model of a rollout in which the solution has done the work. It ends the turn."""

    name = provider = ORACLE

    def for_turn(self) -> Model:
        return self

    async def call(self, _request: ModelRequest, _emit: EmitModelEvent) -> Reply:
        message = Assistant((Text(ORACLE_REPLY),), "stop")
        return Reply(message, Usage(), ORACLE, ORACLE, 0.0)
