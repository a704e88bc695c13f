"""One turn after another, and what waits for its own."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from hermes.agent import Agent, PendingMessages
from hermes.core.errors import HermesError
from hermes.core.events import Event, Notice
from hermes.core.messages import User
from hermes.tui.said import Said
from hermes.tui.view import View

PAUSE = 0.1
"""Seconds between looks whether news can be told."""

COMMAND_SECONDS = 1.0
"""How long the end of a command is waited for when the conversation is left."""

Expand = Callable[[User], Awaitable[User]]
"""A message as it is sent: with what it refers to. Raises a `HermesError`."""


class Turns:
    """Runs turns of the agent that `agent` gives, and shows them. All in the event loop."""

    def __init__(
        self,
        view: View,
        agent: Callable[[], Agent],
        command: Callable[[str], Awaitable[bool]],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`command` carries out what begins with `/`, or says that it is a message; `failed` hears
        of what should never happen."""
        self._view, self._agent, self._command, self._failed = view, agent, command, failed
        self.waiting: deque[Said] = deque()
        self._work: asyncio.Task[None] | None = None
        self._in_turn = False
        self._commanded: float | None = None
        self._hearing: asyncio.Task[None] | None = None
        self.expand: Expand = _as_it_is
        self.seen: Callable[[Event], None] = lambda _event: None
        """Sees every event after it was shown."""

    @property
    def busy(self) -> bool:
        """Whether the agent works. Other commands than those that let it do not count: what is sent
        while they run waits for its turn."""
        return self._in_turn or self._agent().running

    @property
    def command_lasts(self) -> float:
        """Seconds for which a command has been at work; 0 when none is."""
        return 0.0 if self._commanded is None else time.monotonic() - self._commanded

    def drop_command(self) -> None:
        """End a command that is at work."""
        if self._commanded is not None and self._work is not None:
            self._work.cancel()

    def add(self, said: Said, *, first: bool = False) -> None:
        """Begin with it, or let it wait."""
        if first:
            self.waiting.appendleft(said)
        else:
            self.waiting.append(said)
        if self._work is None:
            self._begin(self._all())

    def begin(self, message: User | None) -> None:
        """A turn for `message`; without one, the turn that was broken off."""
        self._begin(self._one(message))

    async def ask(self, message: User) -> None:
        """A turn within what runs already, as a command does it."""
        await self._turn(message)

    def _begin(self, work: Any) -> None:
        self._work = asyncio.ensure_future(work)
        self._work.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._work = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
        elif self.waiting:
            self._begin(self._all())

    async def _one(self, message: User | None) -> None:
        await self._turn(message)

    async def _all(self) -> None:
        while self.waiting:
            said = self.waiting.popleft()
            if not said.shown:
                self._view.question(said.text or "(a picture)")
            if said.is_command and await self._carried_out(said.text):
                continue
            await self._turn(said.message)

    async def _carried_out(self, text: str) -> bool:
        self._commanded = time.monotonic()
        try:
            return await self._command(text)
        finally:
            self._commanded = None
            self._view.refresh()

    async def _turn(self, message: User | None) -> None:
        self._in_turn, self._commanded = True, None
        try:
            await self._answer(message)
        finally:
            self._in_turn = False
            self._view.refresh()

    async def _answer(self, message: User | None) -> None:
        agent = self._agent()
        try:
            message = None if message is None else await self.expand(message)
        except HermesError as error:
            self._view.note(f"{error}\n{error.hint}" if error.hint else str(error), "error")
            return
        events = agent.resume() if message is None else agent.run(message)
        async with aclosing(events) as stream:
            async for event in stream:
                self._view.show(event)
                self.seen(event)

    def listen(self) -> None:
        """From now on news of this agent's background processes begin a turn when nothing else
        runs."""
        if self._hearing is not None:
            self._hearing.cancel()
        self._hearing = asyncio.ensure_future(self._hear(self._agent().pending))

    async def _hear(self, notices: PendingMessages) -> None:
        while True:
            await notices.wait()
            news = None if self._work or self.waiting else notices.take()
            if news is None:
                await asyncio.sleep(PAUSE)
            else:
                self._view.show(Notice(news.text.partition("\n")[0]))
                self.begin(news)

    async def stop(self) -> None:
        """End what runs, and forget what waits."""
        await self._end_hearing()
        self.waiting.clear()
        self._agent().interrupt("the conversation was left")
        if (work := self._work) is not None:
            await asyncio.wait({work}, timeout=None if self.busy else COMMAND_SECONDS)
            work.cancel()
            await asyncio.wait({work})
        await self._end_hearing()  # a command may have gone on with another agent meanwhile

    async def _end_hearing(self) -> None:
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})


async def _as_it_is(message: User) -> User:
    return message
