"""Subagents: agents started for tasks of a parent, followed while they work, stopped with it."""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Protocol

import msgspec

from hermes.core.errors import HermesError, ToolError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
)
from hermes.core.messages import User
from hermes.core.ports import ChildResult, ChildTask, Clock, HookName, Hooks
from hermes.core.tool import ToolContext
from hermes.tools import ChildReport, StopReason, child_prompt

logger = logging.getLogger(__name__)

STOP_GRACE_SECONDS = 0.5
"""Time a stopped subagent has to end its turn; the parent's dispatcher waits little longer."""
CLEANUP_SECONDS = 5
"""Time after which a subagent that still cleans up and stores its end is cancelled."""
CLOSE_SECONDS = 10  #: Time `close` waits for subagents that still clean up.
LINES_PER_SECOND = 5  #: Progress lines shown of one subagent; further ones are dropped.

FORWARDED_EVENTS = (ApprovalAsked, ApprovalAnswered, QuestionAsked, QuestionAnswered, Notice)
"""Events of a subagent that the user must see unchanged."""


class Subagent(Protocol):
    """An agent created for one task."""

    @property
    def session_id(self) -> str: ...

    def run(self, message: User) -> AsyncGenerator[Event, None]: ...

    def interrupt(self, reason: str) -> bool:
        """Stop the running turn. Return False if none runs."""

    async def close(self) -> None: ...


StartSubagent = Callable[[ChildTask, int], Awaitable[Subagent]]
"""Creates the subagent for a task, given the task's index; may raise a `HermesError`."""
OnReport = Callable[[str, ChildTask, ChildResult], None]
"""Takes the result of a subagent in the background, with its id and its task."""


class Subagents:
    """The `Spawner` of one parent agent.

    Nested agents have one each: a subagent occupies one of the `max_concurrent` slots while the
    subagents it started itself work.
    """

    def __init__(
        self,
        start: StartSubagent,
        *,
        max_concurrent: int,
        timeout: float,
        hooks: Hooks,
        clock: Clock,
        on_report: OnReport | None = None,
    ) -> None:
        """`timeout` is `delegation.timeout`: seconds for each subagent, 0 for no limit. `on_report`
        gets the results of subagents in the background; without it there are none."""
        self._start_agent, self._timeout = start, timeout
        self._hooks, self._clock, self._on_report = hooks, clock, on_report
        self._max_concurrent = max_concurrent
        self._slots = asyncio.Semaphore(max_concurrent)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._background: dict[str, _SubagentRun] = {}

    async def run(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[ChildResult]:
        """Return a result for each task, in their order.

        On cancellation it stops the subagents and returns within `STOP_GRACE_SECONDS` what they
        have by then; on a second cancellation it raises.
        """
        runs = [_SubagentRun(index, task, call, self._clock) for index, task in enumerate(tasks)]
        for run in runs:
            run.work = self._track(self._work(run))
        results = asyncio.gather(*(self._result(run) for run in runs))
        try:
            return await asyncio.shield(results)
        except asyncio.CancelledError:
            for run in runs:
                run.stop("interrupted", "the delegation was stopped")
            return await asyncio.shield(results)

    def start(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[str]:
        """Start subagents that do not belong to the turn of `call`, and return their ids."""
        if self._on_report is None:
            raise ToolError(
                "this conversation ends with its answer, so nothing can work in the background",
                hint="delegate without background",
            )
        free = self._max_concurrent - len(self._background)
        if len(tasks) > free:
            raise ToolError(
                f"{len(self._background)} subagents work in the background, and the limit is "
                f"{self._max_concurrent}",
                hint="wait for their reports, or do it yourself",
            )
        # The turn may end before them, and no user answers their questions.
        quiet = msgspec.structs.replace(call, announce=lambda _event: None)
        ids = []
        for index, task in enumerate(tasks):
            alone = msgspec.structs.replace(task, background=True)
            run = _SubagentRun(index, alone, quiet, self._clock)
            run.work = self._track(self._work(run))
            run_id = f"agent_{self._clock.now():%H%M%S}_{secrets.token_hex(3)}"
            self._background[run_id] = run
            self._track(self._report(run_id, run, self._on_report))
            ids.append(run_id)
        return ids

    async def _report(self, run_id: str, run: "_SubagentRun", on_report: OnReport) -> None:
        result = await self._result(run)
        del self._background[run_id]
        on_report(run_id, run.task, result)

    def background(self) -> list[tuple[str, str, float]]:
        """Return the id, the goal and the seconds of each subagent in the background."""
        now = self._clock.monotonic()
        return [(name, run.task.goal, now - run.began) for name, run in self._background.items()]

    def stop_background(self) -> int:
        """Stop the subagents in the background and return their number. They still report."""
        for run in self._background.values():
            run.stop("interrupted", "it was stopped")
        return len(self._background)

    async def close(self) -> None:
        """Stop the subagents in the background, and wait for those that still clean up."""
        self.stop_background()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=CLOSE_SECONDS)

    async def _work(self, run: "_SubagentRun") -> None:
        """Start, run and close one subagent. A failure becomes its result."""
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._slots)
                run.began = self._clock.monotonic()
                if self._timeout:
                    timer = asyncio.get_running_loop().call_later(self._timeout, run.expire)
                    stack.callback(timer.cancel)
                agent = run.agent = await self._start_agent(run.task, run.index)
                stack.push_async_callback(self._close_agent, agent)
                run.emit_started(agent)
                turn = aclosing(agent.run(User.say(child_prompt(run.task))))
                async for event in await stack.enter_async_context(turn):
                    run.handle(event)
        except HermesError as error:
            logger.warning("a subagent failed: %s", error)
            run.report.error = f"{error} ({error.hint})" if error.hint else str(error)
        except Exception as error:  # a bug in one subagent must not end the others
            logger.exception("a subagent failed")
            run.report.error = f"{type(error).__name__}: {error}"

    async def _close_agent(self, agent: Subagent) -> None:
        # Shielded: closing must complete even if the run was cancelled.
        await asyncio.shield(self._track(agent.close()))

    async def _result(self, run: "_SubagentRun") -> ChildResult:
        await _wait_first(run.work, run.stopped)
        if not run.work.done():
            await asyncio.wait({run.work}, timeout=STOP_GRACE_SECONDS)
        if not run.work.done():
            logger.warning("a stopped subagent is still cleaning up")
            asyncio.get_running_loop().call_later(CLEANUP_SECONDS, run.work.cancel)
        result = run.finish()
        hook = self._hooks.fire(
            HookName.SUBAGENT_STOP,
            parent_session_id=run.call.session_id,
            child_role=run.task.role,
            child_summary=result.summary,
            child_status="interrupted" if result.status == "timeout" else result.status,
            duration_ms=round(result.seconds * 1000),
        )
        await _wait_first(self._track(hook), run.stopped)  # a slow hook does not delay a stop
        return result

    def _track(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _SubagentRun:
    """One subagent as its parent follows it."""

    work: asyncio.Task[Any]

    def __init__(self, index: int, task: ChildTask, call: ToolContext, clock: Clock) -> None:
        self.index, self.task, self.call, self._clock = index, task, call, clock
        self.stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self.agent: Subagent | None = None
        self.report = ChildReport()
        self.began = clock.monotonic()
        self._line_times: deque[float] = deque(maxlen=LINES_PER_SECOND)
        self._finished = False

    def expire(self) -> None:
        self.stop("timeout", "the time of this subagent is up")

    def stop(self, status: StopReason, reason: str) -> None:
        if self.stopped.done():
            return
        self.stopped.set_result(status)
        if self.agent is None or not self.agent.interrupt(reason):
            self.work.cancel()  # no turn runs that could end by itself

    def emit_started(self, agent: Subagent) -> None:
        call_id, goal = self.call.call_id, self.task.goal
        self.call.announce(SubagentStarted(call_id, self.index, agent.session_id, goal))

    def handle(self, event: Event) -> None:
        """Add an event of the subagent to its report, and show the user what concerns them."""
        if self._finished:  # the parent continued without it
            return
        if isinstance(event, FORWARDED_EVENTS):
            self.call.announce(event)
        line, now = self.report.see(event), self._clock.monotonic()
        limited = len(self._line_times) == LINES_PER_SECOND and now - self._line_times[0] < 1
        if line and not limited:
            self._line_times.append(now)
            self.call.announce(SubagentProgress(self.call.call_id, self.index, line))

    def finish(self) -> ChildResult:
        """Return and announce the result. Later events of the subagent are ignored."""
        self._finished = True
        session_id = "" if self.agent is None else self.agent.session_id
        stopped = self.stopped.result() if self.stopped.done() else None
        result = self.report.result(session_id, self._clock.monotonic() - self.began, stopped)
        details = (result.status, round(result.seconds, 3), result.api_calls)
        self.call.announce(SubagentFinished(self.call.call_id, self.index, *details))
        return result


async def _wait_first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
