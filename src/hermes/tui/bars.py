"""What stands below the conversation: unfinished work, waiting messages and the status line."""

import time
from collections.abc import Callable

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.gauge import gauge_of
from hermes.tui.cells import one_line
from hermes.tui.looks import Looks
from hermes.tui.spinner import STOPS
from hermes.tui.status_bar import Standing, status_line
from hermes.tui.turns import Turns
from hermes.tui.view import View

MOST_WAITING = 3
WORKING = f"working… {STOPS}"
"""While nothing is known yet of what the agent does."""
SLOW = 0.3
"""Seconds after which it is said that a command is at work."""


class Bars:
    def __init__(
        self,
        app: App,
        agent: Callable[[], Agent],
        looks: Looks,
        view: View,
        turns: Turns,
        columns: Callable[[], int],
    ) -> None:
        self._app, self._agent, self._looks = app, agent, looks
        self._view, self._turns, self._columns = view, turns, columns

    def live(self) -> list[str]:
        """What is not finished, and below it what waits."""
        paint, columns = self._looks.paint, self._columns()
        waiting = self._turns.waiting
        lines = self._view.live()
        if not lines and (self._turns.busy or self._turns.command_lasts > SLOW):
            lines = [paint("dim", WORKING)]
        for said in list(waiting)[:MOST_WAITING]:
            lines.append(paint("dim", f"⧗ {one_line(said.text, columns - 3)}"))
        more = len(waiting) - MOST_WAITING
        return [*lines, paint("dim", f"⧗ and {more} more")] if more > 0 else lines

    def status(self) -> list[str]:
        if not self._looks.status_bar:
            return []
        view, spent = self._view, self._view.spent
        gauge = gauge_of(self._app.session(self._agent()))
        standing = Standing(
            model=gauge.model,
            share=gauge.share if gauge.window and gauge.questions else None,
            cache=spent.used.hits if spent.used.prompt else None,
            cost=spent.money if spent.used.prompt else None,
            seconds=view.took if view.phase == "idle" else time.monotonic() - view.began,
            notes=tuple(self._notes()),
        )
        return [status_line(standing, self._columns() - 1, self._looks.paint)]

    def _notes(self) -> list[str]:
        notes = []
        if self._app.session(self._agent()).approvals.allow_all:
            notes.append("nobody is asked")
        if self._turns.busy and self._looks.busy != "interrupt":
            notes.append(f"Enter: {self._looks.busy}")
        running = len(self._app.background.lines(self._agent()))
        return [*notes, f"{running} in background"] if running else notes
