"""Subagents that play what a test says, and the call of the parent they work for."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from hermes.agent import Agent, Subagent, Subagents
from hermes.core.cancel import CancelToken
from hermes.core.events import (
    Event,
    SubagentProgress,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from hermes.core.messages import ToolCall, User
from hermes.core.model import TextDelta, Usage
from hermes.core.ports import ChildResult, ChildTask, HookName
from hermes.core.tool import ToolContext
from hermes.util.concurrency import SystemClock

Play = Callable[["Worker"], AsyncGenerator[Event, None]]


class Worker:
    """A subagent that plays what a test says."""

    def __init__(self, play: Play, session_id: str = "child") -> None:
        self.session_id, self._play = session_id, play
        self.asked = ""
        self.reason = ""
        self.told_to_stop = asyncio.Event()
        self.running = asyncio.Event()
        self.closed = False

    async def run(self, message: User) -> AsyncGenerator[Event, None]:
        self.asked = message.text
        self.running.set()
        async for event in self._play(self):
            yield event

    def interrupt(self, reason: str) -> bool:
        self.reason = reason
        self.told_to_stop.set()
        return True

    async def close(self) -> None:
        assert not self.closed
        self.closed = True


def end(text: str = "", reason: str = "answered", **fields: Any) -> TurnFinished:
    return TurnFinished("child", reason, text, Usage(), 2, **fields)


def playing(*events: Event) -> Play:
    async def play(_worker: Worker) -> AsyncGenerator[Event, None]:
        for event in events:
            yield event

    return play


def until_stopped(*events: Event) -> Play:
    """Does something, then works until it is stopped, and stops at once."""

    async def play(worker: Worker) -> AsyncGenerator[Event, None]:
        for event in events:
            yield event
        await worker.told_to_stop.wait()
        yield end("", "interrupted", error=worker.reason)

    return play


async def deaf(_worker: Worker) -> AsyncGenerator[Event, None]:
    yield TextFinished("I hear nothing")
    await asyncio.Event().wait()


def called(name: str, arguments: str, call_id: str = "t1") -> ToolStarted:
    return ToolStarted(ToolCall(call_id, name, arguments))


def finished(name: str, call_id: str = "t1", *, failed: bool = False) -> ToolFinished:
    return ToolFinished(call_id, name, "result", failed, 0.1)


class Clock(SystemClock):
    """Stands still unless a test moves it."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time


class Listener:
    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.slow: asyncio.Event | None = None

    async def fire(self, name: HookName, **details: Any) -> list[Any]:
        assert name is HookName.SUBAGENT_STOP
        self.heard.append(details)
        if self.slow:
            await self.slow.wait()
        return []


class Harness:
    """A parent's call: who works for it, what is announced, what hooks hear."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.hooks = Listener()
        self.clock = Clock()
        self.reports: asyncio.Queue[tuple[str, str, ChildResult]] = asyncio.Queue()
        self.call = ToolContext(
            "parent", "c1", CancelToken(), lambda _text: None, announce=self.events.append
        )

    def subagents(self, *workers: Any, most: int = 3, timeout: float = 0) -> Subagents:
        """Workers by task; an exception among them is raised instead of starting."""

        async def start(_task: ChildTask, place: int) -> Subagent:
            if isinstance(workers[place], Exception):
                raise workers[place]
            return workers[place]

        return self.over(start, most=most, timeout=timeout)

    def over(
        self,
        start: Callable[[ChildTask, int], Awaitable[Subagent]],
        *,
        most: int = 3,
        timeout: float = 0,
    ) -> Subagents:
        return Subagents(
            start,
            max_concurrent=most,
            timeout=timeout,
            hooks=self.hooks,
            clock=self.clock,
            on_report=lambda run_id, task, result: self.reports.put_nowait(
                (run_id, task.goal, result)
            ),
        )

    async def run(self, *workers: Any, **limits: Any) -> list[ChildResult]:
        tasks = [ChildTask(f"task {number}") for number in range(len(workers))]
        return await self.subagents(*workers, **limits).run(tasks, self.call)

    async def one(self, play: Play, **limits: Any) -> ChildResult:
        worker = Worker(play)
        [result] = await self.run(worker, **limits)
        assert worker.closed
        return result

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def lines(self) -> list[str]:
        return [event.text for event in self.all(SubagentProgress)]


async def stopped(harness: Harness, group: Subagents, ready: Awaitable[Any], tasks: int) -> Any:
    """The results of a call that is cancelled once `ready` is."""
    work = asyncio.ensure_future(group.run([ChildTask("x")] * tasks, harness.call))
    await ready
    work.cancel()
    return await work


class Closing:
    """A real agent with the `close` that `app` gives it."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self.closed = agent, False
        self.speaks = asyncio.Event()

    @property
    def session_id(self) -> str:
        return self._agent.session_id

    async def run(self, message: User) -> AsyncGenerator[Event, None]:
        async with aclosing(self._agent.run(message)) as events:
            async for event in events:
                yield event
                if isinstance(event, TextDelta):
                    self.speaks.set()

    def interrupt(self, reason: str) -> bool:
        return self._agent.interrupt(reason)

    async def close(self) -> None:
        self.closed = True
