"""Work beside a conversation: a task with a session of its own, whose answer comes back."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import datetime

import msgspec

from hermes.agent import Agent
from hermes.app.request import SessionRequest
from hermes.core.errors import HermesError
from hermes.core.events import TurnFinished
from hermes.core.messages import User

Show = Callable[[str], None]
LONGEST_GOAL = 60


class Task(msgspec.Struct, frozen=True, eq=False):
    id: str
    goal: str
    owner: Agent
    began: float
    work: "asyncio.Task[None]"


class BackgroundTasks:
    """Those of a process, by the conversation they were started in. Nobody is asked in them:
    what would need consent is decided as `approvals.headless` says."""

    def __init__(
        self,
        start: Callable[[SessionRequest], Awaitable[Agent]],
        end: Callable[[Agent], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        """`start` makes the agent of a task and `end` closes it."""
        self._start, self._end, self._now = start, end, now
        self._tasks: dict[str, Task] = {}

    def start(self, owner: Agent, request: SessionRequest, goal: str, show: Show) -> str:
        """Begin; `show` gets the answer. The result is the name of the task."""
        name = f"bg_{self._now():%H%M%S}_{secrets.token_hex(3)}"
        work = asyncio.ensure_future(self._run(name, request, goal, show))
        self._tasks[name] = Task(name, goal, owner, time.monotonic(), work)
        work.add_done_callback(lambda _done: self._tasks.pop(name, None))
        return name

    async def _run(self, name: str, request: SessionRequest, goal: str, show: Show) -> None:
        wanted = msgspec.structs.replace(
            request,
            resume="",
            latest=False,
            session_id="",
            history=(),
            approver=None,
            clarifier=None,
            read_secret=None,
            goes_on=False,
        )
        try:
            agent = await self._start(wanted)
            try:
                show(_report(name, goal, agent, await _answer(agent, goal)))
            finally:
                await self._end(agent)
        except HermesError as error:
            show(f"`{name}` ({brief(goal)}) failed: {error}")

    def lines(self, owner: Agent) -> list[str]:
        """What runs, a line each."""
        now = time.monotonic()
        return [
            f"`{task.id}` {brief(task.goal)} ({now - task.began:.0f} s)" for task in self._of(owner)
        ]

    async def stop(self, owner: Agent) -> int:
        """End those of a conversation; how many there were."""
        works = [task.work for task in self._of(owner)]
        await _ended(works)
        return len(works)

    async def close(self) -> None:
        await _ended([task.work for task in self._tasks.values()])

    def moved(self, old: Agent, new: Agent) -> None:
        """The conversation has another agent from now on."""
        for name, task in self._tasks.items():
            if task.owner is old:
                self._tasks[name] = msgspec.structs.replace(task, owner=new)

    def _of(self, owner: Agent) -> list[Task]:
        return [task for task in self._tasks.values() if task.owner is owner]


async def _ended(works: "list[asyncio.Task[None]]") -> None:
    for work in works:
        work.cancel()
    if works:
        await asyncio.wait(works)


async def _answer(agent: Agent, goal: str) -> TurnFinished:
    async with aclosing(agent.run(User.say(goal))) as events:
        async for event in events:
            if isinstance(event, TurnFinished):
                return event
    raise RuntimeError("a turn ended without its last event")


def _report(name: str, goal: str, agent: Agent, end: TurnFinished) -> str:
    head = f"**`{name}`** {brief(goal)} (session `{agent.session_id}`)"
    return f"{head}\n\n{end.text or end.error or f'no answer: {end.exit_reason}'}"


def brief(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_GOAL else f"{flat[: LONGEST_GOAL - 1]}…"
