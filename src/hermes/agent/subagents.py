"""Subagents: started for tasks, watched while they work, and stopped with their parent."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Protocol

from hermes.core.errors import HermesError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentProgress,
    SubagentStarted,
)
from hermes.core.hooks import HookName, Hooks
from hermes.core.messages import User
from hermes.core.ports import ChildResult, ChildTask, Clock
from hermes.core.tool import ToolContext
from hermes.tools.builtin.delegate_task import ChildReport, StopReason, child_prompt

logger = logging.getLogger(__name__)

PATIENCE = 0.5
"""Seconds a stopped subagent has to end its turn; the parent's dispatcher waits little longer."""
LINGER = 5
"""Seconds after which one that still goes on, to clean up and to store its end, is cut off."""
MOST_WAIT = 10
"""Seconds `close` waits for what subagents still clean up."""
LINES_A_SECOND = 5
"""Progress of one subagent; what is more is not shown."""

FOR_PEOPLE = (ApprovalAsked, ApprovalAnswered, QuestionAsked, QuestionAnswered)
"""Events of a subagent that a person must see as they are."""


class Child(Protocol):
    """An agent made for one task."""

    @property
    def session_id(self) -> str: ...

    def run(self, message: User) -> AsyncGenerator[Event, None]: ...

    def interrupt(self, reason: str) -> bool:
        """Stop the running turn; False when none runs."""
        ...

    async def close(self) -> None: ...


Start = Callable[[ChildTask, int], Awaitable[Child]]
"""Makes the subagent for a task, given its place among the tasks; may raise a `HermesError`."""


class Children:
    """The `Spawner` of one parent agent. Nested agents have one each: a subagent keeps its place
    among the `max_concurrent` while those it started itself work."""

    def __init__(
        self, start: Start, *, max_concurrent: int, timeout: float, hooks: Hooks, clock: Clock
    ) -> None:
        """`timeout` is `delegation.timeout`: seconds for each subagent, 0 for no limit."""
        self._start, self._timeout = start, timeout
        self._hooks, self._clock = hooks, clock
        self._slots = asyncio.Semaphore(max_concurrent)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, tasks: Sequence[ChildTask], call: ToolContext) -> list[ChildResult]:
        """A result for each task, in their order. Cancelled, it stops the subagents and returns
        within `PATIENCE` what they had by then; cancelled again, it raises."""
        watches = [_Watch(place, task, call, self._clock) for place, task in enumerate(tasks)]
        for watch in watches:
            watch.work = self._keep(self._work(watch))
        results = asyncio.gather(*(self._result(watch) for watch in watches))
        try:
            return await asyncio.shield(results)
        except asyncio.CancelledError:
            for watch in watches:
                watch.stop("interrupted", "the delegation was stopped")
            return await asyncio.shield(results)

    async def close(self) -> None:
        """Waits for what stopped subagents still clean up."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=MOST_WAIT)

    async def _work(self, watch: "_Watch") -> None:
        """The whole life of one subagent. What goes wrong is its result and nobody else's."""
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(self._slots)
                watch.began = self._clock.monotonic()
                if self._timeout:
                    timer = asyncio.get_running_loop().call_later(self._timeout, watch.expire)
                    stack.callback(timer.cancel)
                child = watch.child = await self._start(watch.task, watch.place)
                stack.push_async_callback(self._closed, child)
                watch.tell_start(child)
                turn = aclosing(child.run(User.say(child_prompt(watch.task))))
                async for event in await stack.enter_async_context(turn):
                    watch.see(event)
        except HermesError as error:
            logger.warning("a subagent failed: %s", error)
            watch.report.error = f"{error} ({error.hint})" if error.hint else str(error)
        except Exception as error:  # a bug in one subagent must not end the others
            logger.exception("a subagent failed")
            watch.report.error = f"{type(error).__name__}: {error}"

    async def _closed(self, child: Child) -> None:
        """Closing goes on to its end even when nobody waits for it any more."""
        await asyncio.shield(self._keep(child.close()))

    async def _result(self, watch: "_Watch") -> ChildResult:
        await _first(watch.work, watch.stopped)
        if not watch.work.done():
            await asyncio.wait({watch.work}, timeout=PATIENCE)
        if not watch.work.done():
            logger.warning("a stopped subagent goes on cleaning up")
            asyncio.get_running_loop().call_later(LINGER, watch.work.cancel)
        result = watch.finish()
        telling = self._hooks.fire(
            HookName.SUBAGENT_STOP,
            parent_session_id=watch.call.session_id,
            child_role=watch.task.role,
            child_summary=result.summary,
            child_status="interrupted" if result.status == "timeout" else result.status,
            duration_ms=round(result.seconds * 1000),
        )
        await _first(self._keep(telling), watch.stopped)  # a slow listener holds up no stop
        return result

    def _keep(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Watch:
    """One subagent as its parent follows it."""

    work: asyncio.Task[Any]

    def __init__(self, place: int, task: ChildTask, call: ToolContext, clock: Clock) -> None:
        self.place, self.task, self.call, self._clock = place, task, call, clock
        self.stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self.child: Child | None = None
        self.report = ChildReport()
        self.began = clock.monotonic()
        self._told: deque[float] = deque(maxlen=LINES_A_SECOND)
        self._over = False

    def expire(self) -> None:
        self.stop("timeout", "the time of this subagent is up")

    def stop(self, status: StopReason, reason: str) -> None:
        if self.stopped.done():
            return
        self.stopped.set_result(status)
        if self.child is None or not self.child.interrupt(reason):
            self.work.cancel()  # there is no turn that could end by itself

    def tell_start(self, child: Child) -> None:
        call_id, goal = self.call.call_id, self.task.goal
        self.call.announce(SubagentStarted(call_id, self.place, child.session_id, goal))

    def see(self, event: Event) -> None:
        if self._over:  # the parent has gone on without it
            return
        if isinstance(event, FOR_PEOPLE):
            self.call.announce(event)
        line, now = self.report.see(event), self._clock.monotonic()
        crowded = len(self._told) == LINES_A_SECOND and now - self._told[0] < 1
        if line and not crowded:
            self._told.append(now)
            self.call.announce(SubagentProgress(self.call.call_id, self.place, line))

    def finish(self) -> ChildResult:
        """The result, announced; nothing is told of the subagent any more."""
        self._over = True
        session_id = "" if self.child is None else self.child.session_id
        stopped = self.stopped.result() if self.stopped.done() else None
        result = self.report.result(session_id, self._clock.monotonic() - self.began, stopped)
        about = (result.status, round(result.seconds, 3), result.api_calls)
        self.call.announce(SubagentFinished(self.call.call_id, self.place, *about))
        return result


async def _first(*ends: asyncio.Future[Any]) -> None:
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
