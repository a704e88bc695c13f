"""A conversation in the terminal: turns, waiting messages, status area and references."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from hermes.agent import Agent, PendingMessages
from hermes.app import App, Surface, prompting
from hermes.core.errors import HermesError
from hermes.core.events import Notice, TurnFinished
from hermes.core.messages import User
from hermes.skills import skill_commands
from hermes.store import SessionFilter
from hermes.tui.area import Area, Printer
from hermes.tui.completion import Offer
from hermes.tui.input import UserInput
from hermes.tui.plain import Expand, recap
from hermes.tui.questions import Questions
from hermes.tui.skins import DisplayState, skin_names
from hermes.tui.text import one_line, width
from hermes.tui.view import STOP_HINT, EventView, StatusInfo, status_line

MAX_WAITING_ROWS = 3
WORKING = f"working… {STOP_HINT}"  #: Shown until the first event of a turn arrives.
DOUBLE_PRESS_SECONDS = 2.0  #: A second Ctrl-C within this time leaves.


class Conversation:
    """Runs one turn after another and shows them; implements `app.commands.talk.Talk`.

    Everything happens in one event loop: the area takes keys at any time while turns run. Input
    that is sent while a turn or a command runs waits.
    """

    place = Surface.TERMINAL
    take: Callable[[str], Awaitable[bool]]
    """Runs a slash command. Returns False when the text is a message. Set by the caller."""

    def __init__(
        self,
        app: App,
        agent: Agent,
        display: DisplayState,
        questions: Questions,
        area: Area,
        leave: Callable[[int], None],
        expand: Expand,
    ) -> None:
        """`leave` closes the area, which ends the conversation."""
        self._expand = expand
        self.app, self._agent = app, agent
        self.display, self.questions = display, questions
        self.area, self.leave = area, leave
        self._printer, self._loop = Printer(area), asyncio.get_running_loop()
        self.view = EventView(display, self._printer, self.columns)
        self._waiting: deque[UserInput] = deque()
        self._work: asyncio.Task[None] | None = None  #: The running turn or command.
        self._in_turn = False
        self._command_started: float | None = None
        self._listener: asyncio.Task[None] | None = None
        self._commands: set[asyncio.Task[None]] = set()  #: Commands that run during a turn.
        self._last_press = -DOUBLE_PRESS_SECONDS

    # The protocol of commands

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def busy(self) -> bool:
        """True while a turn runs. Commands that start no turn do not count."""
        return self._in_turn or self._agent.running

    async def continue_with(self, agent: Agent) -> None:
        self._agent = agent
        self._listen()

    async def ask(self, message: User | None) -> None:
        """Run a turn inside of the running task; None continues the interrupted turn."""
        self._in_turn, self._command_started = True, None
        try:
            await self._answer(message)
        finally:
            self._in_turn = False
            self._printer.refresh()

    def later(self, text: str) -> None:
        self._add(UserInput(text, shown=text.startswith("/")))
        self._printer.refresh()

    def show(self, markdown: str) -> None:
        self.view.markdown(markdown)

    def columns(self) -> int:
        return self.area.output.get_size().columns

    # User input

    def submit(self, user_input: UserInput) -> None:
        # A Ctrl-C before this message does not count as the first of two.
        self._last_press = -DOUBLE_PRESS_SECONDS
        steers = self.display.busy == "steer" and not user_input.images
        if not self.busy:
            self._add(user_input)
        elif user_input.is_command:
            task = asyncio.ensure_future(self._run_during_turn(user_input))
            self._commands.add(task)
            task.add_done_callback(self._commands.discard)
            task.add_done_callback(self._check_task)
        elif steers and self._agent.steer(user_input.expanded or user_input.text):
            self.view.note(f"↪ {one_line(user_input.text, self.columns() - 3)}", "accent")
        else:
            self._add(user_input)
            if self.display.busy == "interrupt":
                self._agent.interrupt("stopped by the next message")
        self._printer.refresh()

    async def _run_during_turn(self, user_input: UserInput) -> None:
        self.view.user_message(user_input.text)
        if not await self.take(user_input.text):
            self._add(UserInput(user_input.text, shown=True))

    def on_interrupt(self) -> None:
        """Handle Ctrl-C: end the question and the turn, else clear the input; twice leaves."""
        now = time.monotonic()
        again, self._last_press = now - self._last_press < DOUBLE_PRESS_SECONDS, now
        if self.questions.kind:
            self.questions.decline()
        typed = self.area.current_buffer
        if self.busy and not again:
            self._agent.interrupt("stopped by Ctrl-C")
        elif again:
            self.leave(130 if self.busy else 0)
        elif self._command_started is not None and self._work is not None:
            self._work.cancel()
            self.view.note("stopped by Ctrl-C", "dim")
        elif typed.text:
            typed.reset()
        else:
            self.view.note("Ctrl-C again leaves, and so does Ctrl-D.", "dim")

    # Turns

    def _add(self, user_input: UserInput) -> None:
        self._waiting.append(user_input)
        if self._work is None:
            self._begin(self._run_waiting())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = asyncio.ensure_future(work)
        self._work.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._work = None
        if self._check_task(task) and self._waiting:
            self._begin(self._run_waiting())

    def _check_task(self, task: "asyncio.Task[None]") -> bool:
        """End the conversation if the task failed with an unexpected error; return False then."""
        error = None if task.cancelled() else task.exception()
        if error is not None and self.area.future and not self.area.future.done():
            self.area.exit(exception=error)
        return error is None

    async def _run_waiting(self) -> None:
        while self._waiting:
            user_input = self._waiting.popleft()
            if not user_input.shown:
                self.view.user_message(user_input.text or "(a picture)")
            if user_input.is_command:
                self._command_started = time.monotonic()
                try:
                    if await self.take(user_input.text):
                        continue
                finally:
                    self._command_started = None
                    self._printer.refresh()
            await self.ask(user_input.message)

    async def _answer(self, message: User | None) -> None:
        agent = self._agent
        try:
            message = None if message is None else await self._expand(agent, message)
        except HermesError as error:
            self.view.note(f"{error}\n{error.hint}" if error.hint else str(error), "error")
            return
        events = agent.resume() if message is None else agent.run(message)
        async with aclosing(events) as stream:
            async for event in stream:
                self.view.show(event)
                if isinstance(event, TurnFinished) and self.display.bell:
                    self.area.output.write_raw("\a")
                    self.area.output.flush()

    def _listen(self) -> None:
        """Start a turn for each message of the agent's background processes, whenever idle."""
        if self._listener is not None:
            self._listener.cancel()
        self._listener = asyncio.ensure_future(self._take_notices(self._agent.pending))

    async def _take_notices(self, notices: PendingMessages) -> None:
        while True:
            await notices.wait()
            news = None if self._work or self._waiting else notices.take()
            if news is None:
                await asyncio.sleep(0.1)
            else:
                self.view.show(Notice(news.text.partition("\n")[0]))
                self._begin(self.ask(news))

    async def run(
        self, shown: "asyncio.Future[None]", sent: Sequence[UserInput], *, resume: bool
    ) -> None:
        """Run until `shown`, the task of the area, is done.

        `sent` is answered first. With `resume`, an interrupted turn is continued.
        """
        ticking = asyncio.ensure_future(self._tick())
        self._listen()
        if resume:
            self._begin(self.ask(None))
        for user_input in sent:
            self._add(user_input)
        try:
            await asyncio.wait({shown})
        finally:
            for task in (ticking, *self._commands):
                task.cancel()
            await self._stop()
            await asyncio.wait({ticking, *self._commands})
            self._printer.flush()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            if self.busy or self._command_started is not None:
                self._printer.refresh()

    async def _stop(self) -> None:
        """Interrupt the running turn and drop waiting input."""
        await self._stop_listening()
        self._waiting.clear()
        self._agent.interrupt("the conversation was left")
        if (work := self._work) is not None:
            # A running command gets a second to finish.
            await asyncio.wait({work}, timeout=None if self.busy else 1.0)
            work.cancel()
            await asyncio.wait({work})
        await self._stop_listening()  # a command may have switched to another agent

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})

    # The lines below the conversation

    def live_lines(self) -> list[str]:
        paint, columns = self.display.paint, self.columns()
        lines, started = self.view.live(), self._command_started
        if not lines and (self.busy or (started and time.monotonic() - started > 0.3)):
            lines = [paint("dim", WORKING)]
        for user_input in list(self._waiting)[:MAX_WAITING_ROWS]:
            lines.append(paint("dim", f"⧗ {one_line(user_input.text, columns - 3)}"))
        more = len(self._waiting) - MAX_WAITING_ROWS
        return [*lines, paint("dim", f"⧗ and {more} more")] if more > 0 else lines

    def status_lines(self) -> list[str]:
        if not self.display.status_bar:
            return []
        view = self.view
        session = self.app.session(self._agent)
        gauge = session.context_usage()
        running = len(self.app.background.lines(self._agent))
        notes = {
            "no approvals": session.approvals.allow_all,
            f"Enter: {self.display.busy}": self.busy and self.display.busy != "interrupt",
            f"{running} in background": running > 0,
        }
        standing = StatusInfo(
            model=gauge.model,
            share=gauge.share if gauge.window and gauge.questions else None,
            cache=view.used.hits if view.used.prompt else None,
            cost=view.cost if view.used.prompt else None,
            seconds=view.took if view.phase == "idle" else time.monotonic() - view.began,
            notes=tuple(note for note, applies in notes.items() if applies),
        )
        return [status_line(standing, self.columns() - 1, self.display.paint)]

    def offers(self, command: str, skins: Path) -> list[Offer]:
        """Return the arguments of a command for the completion menu; for "", more commands.

        Called in worker threads.
        """
        app, settings = self.app, self.app.loaded.settings
        match command:
            case "resume" | "sessions":
                wanted = app.store.sessions(SessionFilter(limit=50))
                found = asyncio.run_coroutine_threadsafe(wanted, self._loop).result()
                return [Offer(each.title or each.id, each.preview, (each.id,)) for each in found]
            case "model":
                target = app.session(self._agent).target
                listed = app.providers.known.cached_list(target.base_url)
                known = [Offer(model.id) for model in (listed.models if listed else ())]
                return [*(Offer(name, "an alias") for name in settings.model_aliases), *known]
            case "personality":
                return [Offer(name) for name in prompting.personality_names(settings)]
            case "skin":
                return [Offer(name) for name in skin_names(skins)]
        # Commands of plugins, quick commands of the settings, and skills.
        plugins = app.extensions.commands.items()
        own = [Offer(name, each.description, takes_more=True) for name, each in plugins]
        quick = [Offer(name, "your own") for name in settings.quick_commands]
        session = app.session(self._agent).skills
        skills = skill_commands(session.catalog.skills.entries(), session.context).items()
        return [*own, *quick, *(Offer(name, about, takes_more=True) for name, about in skills)]


HINT = "Alt-Enter begins a new line, Ctrl-C stops, /help lists the commands."


def greet(conversation: "Conversation", complaint: str, resume_display: str) -> None:
    """Print the header: model and session, the recap, and a problem with the skin."""
    view, agent, display = conversation.view, conversation.agent, conversation.display
    branding, paint = display.skin.branding, display.paint
    where = f"{agent.models.name} on {agent.models.provider}, session {agent.session_id}"
    name = paint("banner", branding.agent_name)
    if width(f"{branding.agent_name}  {where}") <= conversation.columns():
        view.out([f"{name}  {paint('dim', where)}"])
    else:
        view.out([name])
        view.note(where, "dim")
    app = conversation.app
    notices = (branding.welcome or HINT, app.boundary_line(), app.caching_line(agent))
    for line in filter(None, notices):
        view.note(line, "dim")
    if complaint:
        view.note(complaint)
    if agent.history and resume_display != "none":
        view.gap()
        view.out(recap(agent.history, paint, conversation.columns(), branding.prompt_symbol))
    if agent.abandoned:
        view.note(
            "The last turn was interrupted and continues now;"
            " tool calls that finished are not repeated."
        )
    view.gap()
