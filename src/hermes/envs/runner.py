"""Rollouts: our own agent works on a task, and its result is judged.

The agent runs in the `train` profile. Each request repeats the previous one unchanged and adds to
it: no compaction, no summary when a limit is reached, no tools that appear later, and reasoning is
sent back. No auxiliary call reaches the model, and sampling is as the caller gave it.
"""

import asyncio
import os
import secrets
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from hermes.agent import TOOL_BUG, Agent
from hermes.app import App, SessionRequest, stop_logging
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.errors import (
    BackendUnavailable,
    ContextOverflow,
    HermesError,
    ProviderError,
    RequestRefused,
    ToolError,
    UsageError,
)
from hermes.core.events import ToolFinished, TurnFinished
from hermes.core.messages import User, to_dict
from hermes.core.model import (
    ApiMode,
    EmitModelEvent,
    Model,
    ModelRequest,
    ModelSource,
    Price,
    Reply,
    Usage,
)
from hermes.envs.capture import CaptureServer
from hermes.envs.task import RolloutContext, Task, run_task_code
from hermes.envs.trace import Failure, RecordedCall, TaskError, Trace, TraceRecorder
from hermes.providers import Target
from hermes.providers.endpoints import GIVEN, Credential, ModelProfile
from hermes.providers.policy import ModelWrapper

TRAIN_PROFILE: dict[str, Any] = {
    "compression.enabled": False,
    "sessions.auto_title": False,
    "skills.review": "off",
    "tools.search": False,
    "checkpoints.enabled": False,
    "agent.save_trajectories": False,
    "fallback_providers": [],
    "terminal.container_persistent": False,  # a rollout must not find the files of another
    "terminal.auto_source_bashrc": False,  # files of the user would make results differ
    # Starting a rollout is the consent; commands that are always refused stay refused.
    "approvals.mode": "off",
    "approvals.headless": "allow",
}
"""Settings of every rollout. Settings and notes of the user are not read."""


CONTEXT_FULL = "context_length"
"""The exit reason of a rollout whose conversation became too long for the model. It is judged like
one that reached the largest number of model calls."""
TIME_LIMIT = "time_limit"  #: The exit reason of a rollout whose task limits the agent's time.


class ModelEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model and how it is sampled."""

    base_url: str
    model: str
    api_key: str = ""
    api_mode: ApiMode = "chat_completions"
    sampling: dict[str, Any] = {}
    """Fields that are added to each request as they are: temperature, top_p, max_tokens, seed."""
    context_length: int = 128_000
    price: Price | None = None
    reasoning_field: str = "reasoning_content"
    """Field in which reasoning is sent back. vLLM calls it `reasoning`."""


class RolloutOptions(msgspec.Struct, frozen=True, kw_only=True):
    toolsets: tuple[str, ...] = ("terminal", "file")
    backend: str = "local"  #: Where commands run; see `terminal.backend`.
    max_turns: int = 30  #: Model calls.
    attempts: int = 3  #: For failures that are worth another attempt.
    timeout: float = 3600.0  #: Seconds each for the setup, the agent and the rewards.
    settings: dict[str, Any] = {}  #: Further settings by dotted keys.
    workspace: str = ""
    """Folder for the folders of rollouts that have a name; see `RolloutRunner.run`."""


Endpoint = ModelEndpoint | tuple[CaptureServer | ModelSource, ModelEndpoint]
"""A model; or what answers in its place, the capture endpoint or a model in this process, and how
it is used."""
WrapModel = Callable[[Model], Model]
"""Wraps the model of a rollout, for example to record its replies or to limit its cost."""


class _RecordingModel(ModelWrapper):
    """Records the calls of a turn, and the error that ended it."""

    def __init__(self, inner: Model, recording: "_RecordingModels") -> None:
        super().__init__(inner)
        self._recording = recording

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        began = time.monotonic()
        try:
            reply = await self._inner.call(request, emit)
        except ContextOverflow as error:
            self._recording.error = error
            # The agent would compact the conversation, also where compaction is off.
            raise RequestRefused(str(error), hint=error.hint) from error
        except ProviderError as error:
            self._recording.error = error
            raise
        if self._recording.recorder is None:
            return reply
        tools = [
            {"type": "function", "function": msgspec.to_builtins(spec)} for spec in request.tools
        ]
        self._recording.recorder.add(
            RecordedCall(
                messages=[to_dict(message) for message in request.messages],
                tools=tools,
                reply=to_dict(reply.message),
                finish_reason=reply.message.finish_reason,
                usage=reply.usage,
                cost_usd=reply.cost_usd,
                seconds=time.monotonic() - began,
            )
        )
        return reply


class _RecordingModels:
    """The `ModelSource` of a rollout. Without `recorder`, the capture endpoint records."""

    def __init__(
        self, inner: ModelSource, recorder: TraceRecorder | None, wrap: WrapModel | None
    ) -> None:
        self._inner, self.recorder, self._wrap = inner, recorder, wrap
        self.error: ProviderError | None = None

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def provider(self) -> str:
        return self._inner.provider

    def for_turn(self) -> Model:
        model = self._inner.for_turn()
        return _RecordingModel(self._wrap(model) if self._wrap else model, self)


class SilentProgress:
    """Ignores the progress of downloads."""

    def report(self, label: str, done: int, total: int) -> None:
        """Take the progress of a download."""

    def say(self, text: str) -> None:
        """Take a notice."""


class RolloutPlan(msgspec.Struct, frozen=True):
    """What `RolloutRunner.run` was asked to do."""

    task: Task
    endpoint: Endpoint
    toolsets: tuple[str, ...]
    wrap: WrapModel | None = None
    folder_name: str = ""

    @property
    def model(self) -> ModelEndpoint:
        return self.endpoint[1] if isinstance(self.endpoint, tuple) else self.endpoint

    @property
    def capture(self) -> CaptureServer | None:
        answers = self.endpoint[0] if isinstance(self.endpoint, tuple) else None
        return answers if isinstance(answers, CaptureServer) else None

    @property
    def source(self) -> ModelSource | None:
        """The model in this process that answers."""
        answers = self.endpoint[0] if isinstance(self.endpoint, tuple) else None
        return None if isinstance(answers, CaptureServer) else answers


class RolloutRunner:
    """Runs any number of rollouts in one process; an async context manager.

    Its home is a new folder, which is deleted at the end.
    """

    def __init__(self, options: RolloutOptions | None = None) -> None:
        self.options = options or RolloutOptions()
        self._resources = AsyncExitStack()
        self._app: App | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            scratch = tempfile.TemporaryDirectory(
                prefix="hermes-rollouts-", ignore_cleanup_errors=True
            )
            self._scratch = Path(stack.enter_context(scratch))
            home = Home(self._scratch / "home")
            given = {**TRAIN_PROFILE, "agent.max_turns": self.options.max_turns}
            loaded = load(home, {**given, **self.options.settings}, user_config=False)
            app = App(home, loaded, SilentProgress(), lambda _text: None)
            stack.callback(stop_logging)  # the files are in the folder that is deleted
            self._app = await stack.enter_async_context(app)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._resources.aclose()

    async def run(
        self,
        task: Task,
        endpoint: Endpoint,
        *,
        toolsets: Sequence[str] | None = None,
        wrap: WrapModel | None = None,
        folder_name: str = "",
    ) -> Trace:
        """Run a task and return the trace of the last attempt.

        A failure is in the trace. It is repeated only if another attempt may succeed. With a
        capture endpoint the trace has tokens; otherwise it has messages only. `toolsets` replaces
        those of the options. On this machine, the agent works in a new folder; with `folder_name`
        it has this name in the workspace of the options, so that the paths which a model sees are
        the same in each run. Two rollouts at the same time must not have the same name.
        """
        given = tuple(toolsets or self.options.toolsets)
        plan = RolloutPlan(task, endpoint, given, wrap, folder_name)
        retried: list[Failure] = []
        lost = Usage()
        while True:
            trace = await self._attempt(plan)
            trace.retried, trace.lost_usage = list(retried), lost
            failure = trace.failure
            if (
                failure is None
                or not failure.retryable
                or len(retried) + 1 >= self.options.attempts
            ):
                return trace
            retried.append(failure)
            lost += trace.usage

    async def _attempt(self, plan: RolloutPlan) -> Trace:
        task, model, capture = plan.task, plan.model, plan.capture
        trace = Trace(
            f"rollout-{secrets.token_hex(8)}",
            task.key,
            task.hash,
            model.model,
            started_at=time.time(),
        )
        if capture is not None:
            model = msgspec.structs.replace(model, base_url=capture.url(trace.id))
        began = time.monotonic()
        recorder = TraceRecorder() if capture is None else capture.recorder(trace.id)
        trace.nodes = recorder.nodes  # grows while the agent works; rewards read it
        try:
            async with AsyncExitStack() as stack:
                own = recorder if capture is None else None
                await self._work(plan, model, trace, own, stack)
        except Exception as error:  # noqa: BLE001 - every failure is attributed, also our own bugs
            trace.failure = Failure.of(error)
        finally:
            if capture is not None:
                capture.take(trace.id)
        trace.tools = recorder.tools
        trace.seconds = round(time.monotonic() - began, 6)
        if trace.failure is not None:
            trace.rewards.clear()
        return trace

    async def _work(
        self,
        plan: RolloutPlan,
        endpoint: ModelEndpoint,
        trace: Trace,
        recorder: TraceRecorder | None,
        stack: AsyncExitStack,
    ) -> None:
        """Let an agent work on the task and judge the result. Raises what went wrong."""
        app, task = self._app, plan.task
        if app is None:
            raise UsageError("the runner is not open", hint="use `async with RolloutRunner()`")
        agent = await app.agent(self._request(plan, endpoint, stack))
        stack.push_async_callback(app.leave, agent)
        source = plan.source or agent.models
        agent.models = models = _RecordingModels(source, recorder, plan.wrap)
        session = app.session(agent)
        place, ctx = session.place, RolloutContext(session.place.workplace, session.session_tools)
        if task.folder and not place.here:
            await ctx.terminal(f"cd {shlex.quote(task.folder)}")
        async with self._time_limit("setup", TaskError):
            await run_task_code("setup", task.setup, ctx)
        async with self._time_limit("the agent", HermesError):
            failed, end = await _run_turn(agent, task)
        trace.exit_reason = end.exit_reason
        if end.error and isinstance(models.error, ContextOverflow):
            trace.exit_reason = CONTEXT_FULL
        elif end.error:
            raise models.error or HermesError(end.error, hint=end.hint)
        if failed:
            await ctx.terminal("true")  # raises `BackendUnavailable` if that is the reason
        for event in failed:
            if event.result.startswith(f'{{"error":"{TOOL_BUG} '):
                raise ToolError(event.result)
        async with self._time_limit("scoring", TaskError):
            await task.score(trace, ctx)

    @asynccontextmanager
    async def _time_limit(self, name: str, error: type[HermesError]) -> AsyncIterator[None]:
        """Raise `error` if the block takes longer than the options allow."""
        limit = asyncio.timeout(self.options.timeout)
        try:
            async with limit:
                yield
        except TimeoutError as timeout:
            if not limit.expired():
                raise
            raise error(f"{name} took longer than {self.options.timeout:g} s") from timeout

    def _request(
        self, plan: RolloutPlan, endpoint: ModelEndpoint, stack: AsyncExitStack
    ) -> SessionRequest:
        options, task = self.options, plan.task
        if task.folder and options.backend in ("local", "sandbox"):
            folder = Path(task.folder)
        elif plan.folder_name and options.workspace:
            folder = stack.enter_context(_named_folder(Path(options.workspace), plan.folder_name))
        else:
            made = tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
        return SessionRequest(
            folder,
            source="batch",
            toolsets=plan.toolsets,
            goes_on=False,
            system_message=task.system_prompt,
            skip_context_files=True,
            skip_memory=True,
            target=_target(endpoint),
            is_rollout=True,
            backend=options.backend,
            image=task.image,
            container=task.container(),
        )


@contextmanager
def _named_folder(workspace: Path, name: str) -> Iterator[Path]:
    """Make an empty folder and delete it at the end, also what an interrupted rollout left."""
    try:
        workspace.mkdir(mode=0o700)
    except FileExistsError:
        found = workspace.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            # Another user could read or prepare what the agent works with.
            raise BackendUnavailable(
                f"{workspace} is not a folder of yours", hint=f"see `ls -ld {workspace}`"
            ) from None
    folder = workspace / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run_turn(agent: Agent, task: Task) -> tuple[list[ToolFinished], TurnFinished]:
    """Run the agent, not longer than the task allows; return the failed tool calls and the end."""
    failed: list[ToolFinished] = []
    end: TurnFinished | None = None
    limit = asyncio.timeout(task.agent_timeout or None)
    try:
        async with limit, aclosing(agent.run(User.say(task.prompt))) as events:
            async for event in events:
                if isinstance(event, ToolFinished) and event.failed:
                    failed.append(event)
                elif isinstance(event, TurnFinished):
                    end = event
    except TimeoutError:
        if not limit.expired():
            raise
        return failed, TurnFinished(agent.session_id, TIME_LIMIT, "", Usage(), 0)
    assert end is not None  # the last event of every turn
    return failed, end


def _target(endpoint: ModelEndpoint) -> Target:
    key = endpoint.api_key
    return Target(
        provider="custom",
        model=endpoint.model,
        base_url=endpoint.base_url,
        api_mode=endpoint.api_mode,
        source="the endpoint of the rollout",
        credentials=(Credential(GIVEN, key),) if key else (),
        profile=ModelProfile(
            context_length=endpoint.context_length,
            price=endpoint.price,
            thinking_field=endpoint.reasoning_field,
            streaming="never",
            extra_body=endpoint.sampling,
        ),
    )


async def rollout(task: Task, endpoint: Endpoint, options: RolloutOptions | None = None) -> Trace:
    """Run one task and return its trace; see `RolloutRunner.run`. For many tasks, one
    `RolloutRunner` is faster."""
    async with RolloutRunner(options) as runner:
        return await runner.run(task, endpoint)
