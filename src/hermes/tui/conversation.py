"""A conversation in the terminal: turns, waiting messages, status area and references."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding.vi_state import InputMode

from hermes.agent import Agent, PendingMessages
from hermes.app import (
    App,
    Surface,
    attach_texts,
    find_prompt_commands,
    prompting,
    take_back,
    typed_text,
)
from hermes.core.cancel import CancelToken
from hermes.core.errors import HermesError, Interrupted, UsageError
from hermes.core.events import Notice, TurnFinished
from hermes.core.messages import COMPACTED, NOT_THE_USER, STEERED, Image, User
from hermes.skills import skill_commands
from hermes.store import SessionFilter
from hermes.terminal import run_beside
from hermes.tools import PERMISSION_MODES
from hermes.tui.area import Area, Printer
from hermes.tui.completion import Offer
from hermes.tui.input import UserInput
from hermes.tui.plain import Expand, recap
from hermes.tui.questions import Questions
from hermes.tui.skins import DisplayState, skin_names
from hermes.tui.text import one_line, width
from hermes.tui.view import STOP_HINT, EventView, StatusInfo, status_line
from hermes.util.text import cut_middle, many, plain

MAX_WAITING_ROWS = 3
WORKING = f"working… {STOP_HINT}"  #: Shown until the first event of a turn arrives.
REPLACING = "↩ Enter goes back to before this question · Ctrl-C cancels"
PLAN_ON = (
    "[Plan mode is on: read and search, but change nothing. Answer with a plan; the user decides"
    " whether it is carried out.]"
)
PLAN_OFF = "[Plan mode is off: changes are possible again.]"
MAX_SHELL_LINES = 500  #: Lines of the output of a user's command that are shown.
MAX_SHELL_RESULTS, MAX_SHELL_CHARS = 10, 8_000
"""Commands of the user that the model is sent, and the characters of each."""
DOUBLE_PRESS_SECONDS = 2.0  #: A second Ctrl-C within this time leaves.


class OwnCommands:
    """Shell commands that the user runs with `!`, and their results for the model."""

    def __init__(self, app: App, view: EventView, printer: Printer) -> None:
        self._app, self._view, self._printer = app, view, printer
        self._cancels: list[CancelToken] = []  #: Stop the commands that run.
        self._output: deque[str] = deque(maxlen=5)  #: The latest output of running commands.
        self._results: deque[str] = deque(maxlen=MAX_SHELL_RESULTS)

    def stop(self, key: str) -> bool:
        """Stop the commands that run; return whether there are any."""
        for cancel in self._cancels:
            cancel.cancel(f"stopped by {key}")
        return bool(self._cancels)

    def take_results(self) -> list[str]:
        """Return the commands with their output since the last call."""
        results = list(self._results)
        self._results.clear()
        return results

    @property
    def tail(self) -> list[str]:
        """The last lines of the output of running commands."""
        lines = plain("".join(self._output)).split("\n")
        return [line for line in lines if line.strip()][-5:]

    async def run(self, agent: Agent, command: str, *, during_turn: bool = False) -> None:
        """Run a command, show it, and keep both for the next message to the model.

        The agent may use its shell during a turn, so the command then runs in a shell of its
        own: in the same folder, but without a lasting effect on folder and variables.
        """
        shell, cancel = self._app.session(agent).place.workplace.shell, CancelToken()
        options: dict[str, Any] = {
            "timeout": self._app.loaded.settings.terminal.timeout,
            "on_output": self._output.append,
            "cancel": cancel,
        }
        self._cancels.append(cancel)
        try:
            if during_turn:
                result = await run_beside(shell, command, cwd=None, pty=False, **options)
            else:
                result = await shell.run(command, **options)
        except HermesError as error:
            self._view.note(str(error), "dim" if isinstance(error, Interrupted) else "error")
            return
        finally:
            self._cancels.remove(cancel)
            self._output.clear()
            self._printer.refresh()
        output, half = plain(result.output).rstrip(), MAX_SHELL_LINES // 2
        lines = output.split("\n") if output else []
        if (more := len(lines) - 2 * half) > 0:
            lines = [*lines[:half], f"… {many(more, 'line')} …", *lines[-half:]]
        code = f"[exit code {result.exit_code}]" if result.exit_code else ""
        self._view.note("\n".join([*lines, *filter(None, [code])]), "text")
        self._view.gap()
        shown = cut_middle(output, MAX_SHELL_CHARS) or "[no output]"
        texts = ("[The user ran this command:]", f"$ {command}", shown, code)
        self._results.append("\n".join(filter(None, texts)))


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
        self._steered: list[UserInput] = []  #: Messages passed to the running turn.
        self._first_press: tuple[float, int] | None = None
        """When Ctrl-C was pressed with an empty input, and the number of that key."""
        self._stopped_at = -DOUBLE_PRESS_SECONDS
        self._replacing: tuple[str, int] | None = None
        """Session and position of the question that the next message replaces."""
        self._shell = OwnCommands(app, self.view, self._printer)
        self._told_plan = False  #: Whether the model was told that plan mode is on.
        self.notify: Callable[[str], bool] = lambda _text: False
        """Notifies the user, if they are away; returns whether it did. Set by the caller."""
        self.restore: Callable[[Sequence[UserInput]], object] = lambda _inputs: None
        """Puts messages back into the input. Set by the caller."""

    # The protocol of commands

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def busy(self) -> bool:
        """True while a turn runs. Commands that start no turn do not count."""
        return self._in_turn or self._agent.running

    @property
    def permission_mode(self) -> str:
        """The permission mode, for people."""
        approvals = self.app.session(self._agent).approvals
        return (
            "no approvals" if approvals.allow_all else approvals.permission_mode.replace("-", " ")
        )

    def next_permission_mode(self) -> None:
        """Switch to the next permission mode. `auto` is skipped where it is not possible."""
        approvals = self.app.session(self._agent).approvals
        modes = list(PERMISSION_MODES)
        at = (modes.index(approvals.permission_mode) + 1) % len(modes)
        try:
            approvals.set_permission_mode(modes[at])
        except UsageError:
            at = (at + 1) % len(modes)
            approvals.set_permission_mode(modes[at])
        if modes[at] == "auto":
            self.view.note(f"Permission mode auto: {PERMISSION_MODES['auto']}.", "dim")
        self._printer.refresh()

    async def continue_with(self, agent: Agent) -> None:
        mode = self.app.session(self._agent).approvals.permission_mode
        self._agent = agent
        approvals = self.app.session(agent).approvals
        if approvals.permission_mode != mode:  # what the person chose holds for the next session
            approvals.set_permission_mode(mode)
        self._listen()

    async def ask(self, message: User | None) -> None:
        """Run a turn inside of the running task; None continues the interrupted turn."""
        self._in_turn, self._command_started = True, None
        self._steered.clear()
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
        self._first_press = None
        if self._replacing is not None and not user_input.is_command:
            session, position = self._replacing
            self._replacing = None
            if session == self._agent.session_id:
                user_input = msgspec.structs.replace(user_input, replaces=position)
        steers = self.display.busy == "steer" and not user_input.images
        if self.busy and (user_input.is_command or user_input.shell_command or steers):
            task = asyncio.ensure_future(self._take_during_turn(user_input))
            self._commands.add(task)
            task.add_done_callback(self._commands.discard)
            task.add_done_callback(self._check_task)
        else:
            self._add(user_input)
            if self.busy and self.display.busy == "interrupt":
                self._agent.interrupt("stopped by the next message")
        self._printer.refresh()

    async def _take_during_turn(self, user_input: UserInput) -> None:
        """Run a command, or send a message to the running turn with what it refers to."""
        if user_input.shell_command:
            self.view.user_message(user_input.text)
            await self._shell.run(self._agent, user_input.shell_command, during_turn=True)
            return
        if user_input.is_command:
            self.view.user_message(user_input.text)
            if not await self.take(user_input.text):
                self._add(UserInput(user_input.text, shown=True))
            return
        message = user_input.message
        try:
            message = await self._expand(self._agent, message)
        except HermesError as error:
            self.view.note(f"{error}\n{error.hint}" if error.hint else str(error), "error")
            return
        # A message with pictures, or one that comes after the end of the turn, waits.
        has_images = any(isinstance(part, Image) for part in message.parts)
        if not has_images and self._agent.steer(message.text):
            self._steered.append(user_input)
            self.view.note(f"↪ {one_line(user_input.text, self.columns() - 3)}", "accent")
        else:
            self._add(user_input)
        self._printer.refresh()

    def stop(self, key: str) -> bool:
        """Stop the question, turn or command that runs; return False if nothing runs.

        Messages that the agent has not read yet go back into the input.
        """
        if self.questions.kind:
            self.questions.decline()
        has_shell = self._shell.stop(key)
        if self.busy:
            self._agent.interrupt(f"stopped by {key}")
            undelivered = self._agent.pending.discard_steering()
            kept = self._steered[len(self._steered) - len(undelivered) :] if undelivered else []
            kept += [each for each in self._waiting if not each.is_command]
            self._waiting = deque(each for each in self._waiting if each.is_command)
            if kept:
                self.restore(kept)
        elif not has_shell:
            if self._command_started is None or self._work is None:
                return False
            self._work.cancel()
            self.view.note(f"stopped by {key}", "dim")
        self._stopped_at = time.monotonic()
        return True

    def on_interrupt(self, typed: Buffer, keys: int) -> None:
        """Handle Ctrl-C: stop what runs, else clear the input; twice in a row leaves.

        `keys` is the number of keys pressed so far. Only two presses with an empty input and no
        key between them leave, and none shortly after a stop, since people press it repeatedly.
        """
        now = time.monotonic()
        first, self._first_press = self._first_press, None
        if self.stop("Ctrl-C"):
            return
        if typed.text:
            typed.append_to_history()
            typed.reset()
            self._replacing = None
        elif now - self._stopped_at < DOUBLE_PRESS_SECONDS:
            return
        elif first is not None and keys == first[1] + 1 and now - first[0] < DOUBLE_PRESS_SECONDS:
            self.leave(0)
        else:
            self._first_press = (now, keys)
            self.view.note("Ctrl-C again leaves, and so does Ctrl-D.", "dim")

    def expand_result(self) -> None:
        """Print the latest folded result completely; each further call the one before."""
        if not self.view.expand_last_result():
            self.view.note("Nothing is folded.", "dim")

    # Going back to an earlier question

    def earlier_questions(self) -> list[tuple[int, str]]:
        """Return the user's questions with their positions, the newest first."""
        asked = [message for message in self._agent.history if isinstance(message, User)]
        texts = [typed_text(User(message.said).text) for message in asked]
        not_typed = (COMPACTED, STEERED, *NOT_THE_USER)
        found = [(at, text) for at, text in enumerate(texts) if not text.startswith(not_typed)]
        return found[::-1]

    def replace_question(self, position: int) -> None:
        """Continue before this question with the next message that is sent."""
        self._replacing = (self._agent.session_id, position)
        self._printer.refresh()

    async def _go_back(self, position: int) -> None:
        agent = self._agent
        turns = sum(isinstance(message, User) for message in agent.history) - position
        if turns > 0:
            text = await take_back(self.app, agent, turns)
            self.view.note(f"↩ back to before: {one_line(text, self.columns() - 20)}", "dim")

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
            if user_input.shell_command:
                self._command_started = time.monotonic()
                try:
                    await self._shell.run(self._agent, user_input.shell_command)
                finally:
                    self._command_started = None
                continue
            if user_input.replaces is not None:
                await self._go_back(user_input.replaces)
            await self.ask(user_input.message)

    async def _answer(self, message: User | None) -> None:
        agent = self._agent
        try:
            message = None if message is None else await self._expand(agent, message)
        except HermesError as error:
            self.view.note(f"{error}\n{error.hint}" if error.hint else str(error), "error")
            return
        if message is not None:
            message = attach_texts(message, self._take_context())
        events = agent.resume() if message is None else agent.run(message)
        async with aclosing(events) as stream:
            async for event in stream:
                self.view.show(event)
                if isinstance(event, TurnFinished):
                    called = self.notify("the answer is here")
                    if self.display.bell and not called:
                        self.area.output.write_raw("\a")
                        self.area.output.flush()

    def _take_context(self) -> list[str]:
        """Return what the model has to know in addition to the next message."""
        plans = self.app.session(self._agent).approvals.permission_mode == "plan"
        texts = [] if plans == self._told_plan else [PLAN_ON if plans else PLAN_OFF]
        self._told_plan = plans
        return [*texts, *self._shell.take_results()]

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
        called = False  # whether the user was notified of the open question
        while True:
            await asyncio.sleep(0.1)
            waiting = bool(self.questions.kind)  # nothing moves then
            called = waiting and (called or self.notify("waiting for your answer"))
            if (self.busy and not waiting) or self._command_started is not None:
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
        lines = self.view.live(waiting=bool(self.questions.kind))
        started = self._command_started
        if not lines and (self.busy or (started and time.monotonic() - started > 0.3)):
            lines = [paint("dim", WORKING)]
        lines = [*(paint("dim", one_line(line, columns)) for line in self._shell.tail), *lines]
        if self._replacing is not None:
            lines.append(paint("accent", one_line(REPLACING, columns - 1)))
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
        waiting = bool(self.questions.kind)
        vi = self.display.vim and self.area.vi_state.input_mode is InputMode.NAVIGATION
        notes = {"vim: normal": vi, f"{running} in background": running > 0}
        standing = StatusInfo(
            model=gauge.model,
            share=gauge.share if gauge.window and gauge.questions else None,
            cache=view.used.hits if view.used.prompt else None,
            cost=view.cost,
            seconds=view.took if view.phase == "idle" or waiting else time.monotonic() - view.began,
            notes=tuple(note for note, applies in notes.items() if applies),
            folder=str(view.folder),
            mode=self.permission_mode,
            enter=self.display.busy if self.busy and not waiting else "",
        )
        return [status_line(standing, self.columns() - 1, self.display.paint)]

    def offers(self, command: str, skins: Path) -> list[Offer]:
        """Return the arguments of a command for the completion menu; for "", more commands.

        Called in worker threads.
        """
        app, settings = self.app, self.app.loaded.settings
        match command:
            case "resume" | "sessions":
                wanted = app.store.sessions(SessionFilter(has_messages=True, limit=50))
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
        prompts = find_prompt_commands(app.home, Path(app.session(self._agent).place.folder))
        quick += [
            Offer(each.name, f"{each.description} ({each.source})", takes_more=True)
            for each in prompts.values()
        ]
        session = app.session(self._agent).skills
        skills = skill_commands(session.catalog.skills.entries(), session.context).items()
        return [*own, *quick, *(Offer(name, about, takes_more=True) for name, about in skills)]


HINT = "Alt-Enter begins a new line, Ctrl-C stops, /help lists the commands."


def greet(conversation: "Conversation", complaint: str, resume_display: str) -> None:
    """Print the header: model and folder, the recap, and a problem with the skin."""
    view, agent, display = conversation.view, conversation.agent, conversation.display
    branding, paint = display.skin.branding, display.paint
    app = conversation.app
    model = f"{agent.models.name} on {agent.models.provider}"
    where = f"{view.folder} · approvals: {conversation.permission_mode}"
    name = paint("banner", branding.agent_name)
    if width(f"{branding.agent_name}  {model} · {where}") <= conversation.columns():
        view.out([f"{name}  {paint('dim', f'{model} · {where}')}"])
    else:
        view.out([f"{name}  {paint('dim', one_line(model, conversation.columns() - 10))}"])
        view.note(where, "dim")
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
