"""A conversation in a terminal: what is typed, what is answered, and what happens meanwhile."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.commands.registry import Where
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import User
from hermes.tui.area import Area
from hermes.tui.bars import Bars
from hermes.tui.cells import one_line
from hermes.tui.looks import Looks
from hermes.tui.printer import Printer
from hermes.tui.questions import Questions
from hermes.tui.said import Said
from hermes.tui.turns import Turns
from hermes.tui.view import View

TWICE = 2.0
"""Seconds within which a second Ctrl-C leaves."""
TICK = 0.1
"""Seconds between frames of the spinner."""

Take = Callable[[str], Awaitable[bool]]
"""Carries out what begins with `/`; False when it is a message."""


class Conversation:
    """Implements `app.commands.talk.Talk`. Everything happens in one event loop: the area takes
    keys at any time, and turns run beside it."""

    place = Where.TERMINAL

    def __init__(
        self,
        app: App,
        agent: Agent,
        looks: Looks,
        questions: Questions,
        area: Area,
        leave: Callable[[int], None],
    ) -> None:
        """`leave` ends the area, and with it the conversation."""
        self.app, self._agent = app, agent
        self.looks, self.questions = looks, questions
        self.area, self.leave = area, leave
        self._printer = Printer(area)
        self.view = View(looks, self, self.columns)
        self.turns = Turns(self.view, lambda: self._agent, self._took, self._broke)
        self.turns.seen = self._seen
        self.bars = Bars(app, lambda: self._agent, looks, self.view, self.turns, self.columns)
        self._pressed = -TWICE
        self._commands: set[asyncio.Task[None]] = set()
        self.take: Take = _no_command

    # What commands use

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def busy(self) -> bool:
        return self.turns.busy

    async def go_on_with(self, agent: Agent) -> None:
        self._agent = agent
        self.turns.listen()

    async def ask(self, message: User) -> None:
        await self.turns.ask(message)

    def later(self, text: str) -> None:
        self.turns.add(Said(text, shown=text.startswith("/")))
        self.refresh()

    def show(self, markdown: str) -> None:
        self.view.markdown(markdown)

    # What the view uses

    def lines(self, lines: list[str]) -> None:
        self._printer.lines(lines)

    def refresh(self, *, at_once: bool = False) -> None:
        self._printer.refresh(at_once=at_once)

    def columns(self) -> int:
        return self.area.output.get_size().columns

    # What the user does

    def entered(self, said: Said) -> None:
        """Something was sent."""
        self._pressed = -TWICE  # a Ctrl-C before it was for something else
        if not self.busy:
            self.turns.add(said)
        elif said.is_command:
            self._beside(self._meanwhile(said))
        elif self.looks.busy == "steer" and not said.images and self._steered(said):
            self.view.note(f"↪ {one_line(said.text, self.columns() - 3)}", "accent")
        else:
            self.turns.add(said)
            if self.looks.busy == "interrupt":
                self._agent.interrupt("stopped by the next message")
        self.refresh()

    def _steered(self, said: Said) -> bool:
        return self._agent.steer(said.whole or said.text)

    async def _meanwhile(self, said: Said) -> None:
        """A command while a turn runs."""
        self.view.question(said.text)
        if not await self._took(said.text):
            self.turns.add(Said(said.text, shown=True))

    async def _took(self, text: str) -> bool:
        return await self.take(text)

    def _beside(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._commands.add(task)

        def done(ended: "asyncio.Task[None]") -> None:
            self._commands.discard(ended)
            if not ended.cancelled() and (error := ended.exception()) is not None:
                self._broke(error)

        task.add_done_callback(done)

    def interrupted(self) -> None:
        """Ctrl-C: ends a question and the turn, else clears what was typed; twice it leaves."""
        now = time.monotonic()
        again, self._pressed = now - self._pressed < TWICE, now
        if self.questions.kind:
            self.questions.decline()
        typed = self.area.current_buffer
        if self.busy and not again:
            self._agent.interrupt("stopped by Ctrl-C")
        elif again:
            self.leave(130 if self.busy else 0)
        elif self.turns.command_lasts:
            self.turns.drop_command()
            self.view.note("stopped by Ctrl-C", "dim")
        elif typed.text:
            typed.reset()
        else:
            self.view.note("Ctrl-C again leaves, and so does Ctrl-D.", "dim")

    def _broke(self, error: BaseException) -> None:
        if self.area.future and not self.area.future.done():
            self.area.exit(exception=error)

    async def run(
        self,
        shown: "asyncio.Future[None]",
        sent: Sequence[Said],
        *,
        resume: bool,
    ) -> None:
        """Until `shown`, the area, is gone. What was `sent` before is answered first, and `resume`
        goes on with a turn that was broken off."""
        ticking = asyncio.ensure_future(self._tick())
        self.turns.listen()
        if resume:
            self.turns.begin(None)
        for said in sent:
            self.turns.add(said)
        try:
            await asyncio.wait({shown})
        finally:
            for task in (ticking, *self._commands):
                task.cancel()
            await self.turns.stop()
            await asyncio.wait({ticking, *self._commands})
            self._printer.flush()

    def _seen(self, event: Event) -> None:
        if isinstance(event, TurnFinished) and self.looks.bell:
            self.area.output.write_raw("\a")
            self.area.output.flush()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            if self.busy or self.turns.command_lasts:
                self.refresh()


async def _no_command(_text: str) -> bool:
    return False
