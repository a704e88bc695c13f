"""The terminal application: input, output area and the conversation.

The prompt is shown first. The agent is imported and opened while the user reads and types;
messages that are sent in the meantime wait.
"""

import asyncio
import io
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style

from hermes.app import complete_reference
from hermes.config.home import Home
from hermes.config.settings import DisplaySettings
from hermes.core.approval_text import hook_request, render_approval
from hermes.core.events import QuestionAsked
from hermes.tui.area import Area, FrameOutput, LineBox
from hermes.tui.clipboard import ImageAttachments
from hermes.tui.completion import InputCompleter, Offer
from hermes.tui.input import InputField, UserInput, input_keys, read_pastes_quickly
from hermes.tui.questions import Questions
from hermes.tui.skins import DisplayState, skin_or_default
from hermes.tui.text import one_line, terminal_depth, wrap

if TYPE_CHECKING:
    from hermes.agent import Agent
    from hermes.app import App
    from hermes.tui.conversation import Conversation


STYLES = {
    "completion-menu": "bg:default fg:default noreverse",
    "completion-menu.completion": "bg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "bg:default fg:ansibrightblack",
    "completion-menu.meta.completion.current": "bg:default fg:default",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "bg:default reverse",
    "auto-suggestion": "fg:ansibrightblack",
}
KEY_SECONDS, ESCAPE_SECONDS = 0.2, 0.05  #: Seconds to wait for the next key of a sequence.


class LayoutOverrides(msgspec.Struct, frozen=True):
    """Changes of the screen by a subclass of `HermesCLI`."""

    keys: Callable[..., None]  #: Adds key bindings: `keys(kb, input_area=…)`.
    children: Callable[..., list[Any]]
    """Gets the widgets by name; returns them from top to bottom."""
    styles: Callable[[], dict[str, str]]


def _empty_widget() -> ConditionalContainer:
    """Return a widget that is never shown: a place in the layout that extensions know."""
    return ConditionalContainer(Window(), filter=Condition(lambda: False))


log = logging.getLogger(__name__)


class LoopErrorHandler:
    """Exception handler of the event loop: logs an uncaught error and shows it to the user.

    The conversation continues. Each error is shown once, since code that paints may fail with
    every frame.
    """

    def __init__(self, note: Callable[[str], Any]) -> None:
        self._note = note
        self._reported: set[str] = set()

    def __call__(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        log.error("%s", context["message"], exc_info=error)
        text = repr(error) if error is not None else str(context["message"])
        if text not in self._reported:
            self._reported.add(text)
            self._note(f"hermes: unexpected error: {text}; for details: hermes logs errors")


class StdoutProxy(io.TextIOBase):
    """Standard output of plugins and wrappers: prints lines above the area.

    While the area is not shown, lines go to the real standard output.
    """

    def __init__(self, note: Callable[[str], bool], stdout: TextIO) -> None:
        self._note, self._stdout = note, stdout
        self._line = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if not self._note(line):
                self._stdout.write(f"{line}\n")
        return len(text)

    def fileno(self) -> int:
        return self._stdout.fileno()

    def isatty(self) -> bool:
        return self._stdout.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read only is enough
        return self._stdout.encoding


EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
YES_NO = {"y": True, "yes": True, "n": False, "no": False, "": False}
"""Answers to whether a hook may run. Escape gives an empty answer."""
COMMANDS_WITH_OFFERS = ("resume", "sessions", "model", "personality", "skin")
"""Commands whose arguments the menu completes; see `Conversation.offers`."""


class TerminalUI:
    """Shows the area from the start, and the conversation once it is attached."""

    def __init__(
        self,
        settings: DisplaySettings,
        home: Home,
        stdout: TextIO,
        folder: Path,
        changes: LayoutOverrides,
        redact: Callable[[str], str],
    ) -> None:
        self.stdout, self.skins = stdout, home.root / "skins"
        skin, self.complaint = skin_or_default(settings.skin, self.skins)
        self.display = DisplayState(settings, skin, terminal_depth())
        self.questions = Questions(self.display, self)
        self.images = ImageAttachments()
        self.conversation: Conversation | None = None
        self.code = 0
        self._early: list[UserInput] = []
        self._progress = ""
        self._input = InputField(
            self.display,
            InputCompleter(
                folder=folder,
                references=lambda fragment: complete_reference(fragment, folder),
                more=partial(self._offers, ""),
                arguments={name: partial(self._offers, name) for name in COMMANDS_WITH_OFFERS},
            ),
            self.images,
            history=home.root / "history",
            redact=redact,
            send=self._send,
            tell=self.note,
            repaint=lambda: self.area.repaint(),
        )
        self.area = self._make_area(changes)

    def _make_area(self, changes: LayoutOverrides) -> Area:
        extension_keys, input_area = KeyBindings(), self._input.area
        changes.keys(extension_keys, input_area=input_area)
        widgets: dict[str, Any] = {
            **self.questions.widgets,
            "spinner_widget": LineBox(self._live, 30, lambda: self.area.frames),
            "spacer": _empty_widget(),
            "status_bar": LineBox(self._status, 1, lambda: self.area.frames),
            "input_rule_top": _empty_widget(),
            "image_bar": LineBox(self._image_bar, 2, lambda: self.area.frames),
            "input_area": input_area,
            "input_rule_bot": _empty_widget(),
            "voice_status_bar": _empty_widget(),
            "completions_menu": CompletionsMenu(max_height=8, scroll_offset=1),
        }
        area = Area(
            output=FrameOutput.on(self.stdout),
            layout=Layout(HSplit(changes.children(**widgets)), input_area),
            key_bindings=merge_key_bindings(
                [input_keys(self._input), ui_keys(self), extension_keys]
            ),
            style=Style.from_dict({**STYLES, **changes.styles()}),
            mouse_support=False,
        )
        area.timeoutlen, area.ttimeoutlen = KEY_SECONDS, ESCAPE_SECONDS
        read_pastes_quickly(area.input)
        return area

    async def show(self) -> None:
        loop = asyncio.get_running_loop()
        for number in EXIT_SIGNALS:
            loop.add_signal_handler(number, self.leave, 128 + number)

        async def leave_when_closed() -> None:
            """A suspended program gets no signal when its terminal is closed."""
            while True:
                await asyncio.sleep(0.5)
                if not is_terminal_open(self.stdout):
                    self.leave(128 + signal.SIGHUP)
                    return

        watching = asyncio.ensure_future(leave_when_closed())
        try:
            with redirect_stdout(StdoutProxy(self.note, self.stdout)):
                loop.set_exception_handler(LoopErrorHandler(self.note))
                await self.area.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:  # the terminal was closed
            self.code = 128 + signal.SIGHUP
        finally:
            loop.set_exception_handler(None)
            watching.cancel()
            for number in EXIT_SIGNALS:
                loop.remove_signal_handler(number)

    def attach(self, app: "App", agent: "Agent", folder: Path) -> "Conversation":
        """Begin the conversation and connect it to the area."""
        # Loads the agent and the app: the prompt must appear before that.
        from hermes.tui.conversation import Conversation
        from hermes.tui.plain import reference_expander

        expand = reference_expander(app, folder, self.note)
        talk = Conversation(app, agent, self.display, self.questions, self.area, self.leave, expand)
        self.conversation = talk
        return talk

    def take_early_input(self) -> "list[UserInput]":
        """Return what the user sent before the conversation began, and forget it."""
        early, self._early = self._early, []
        return early

    def leave(self, code: int = 0) -> None:
        """Close the area; `code` becomes the exit code."""
        self.code = code
        if self.area.future is not None and not self.area.future.done():
            self.area.exit()

    def note(self, text: str) -> bool:
        """Print a message above the area. May be called from any thread.

        Returns False when the area is not shown.
        """
        loop = self.area.loop
        if loop is None or not self.area.is_running:
            return False
        if self.conversation is not None:
            loop.call_soon_threadsafe(self.conversation.view.note, text)
        else:
            rows = wrap(one_line(text, 10_000), self.columns())
            painted = "".join(f"{self.display.paint('warn', row)}\n" for row in rows)
            loop.call_soon_threadsafe(self.area.print_above, painted)
        return True

    async def approve_hook(self, event: str, command: str) -> bool:
        """Ask whether a hook may run, until the user answers yes or no."""
        request = render_approval(hook_request(event, command), columns=self.columns() - 4)
        asked = "\n".join((*request.lines, "Let it, now and later?"))
        while True:
            user_input = await self.questions.clarify(QuestionAsked("", asked, ("no", "yes")))
            if (answer := YES_NO.get(user_input.strip().lower())) is not None:
                return answer
            self.note("please answer yes or no")

    def _live(self) -> list[str]:
        if self.conversation is not None:
            return self.conversation.live_lines()
        waiting = [f"⧗ {one_line(each.text, self.columns() - 3)}" for each in self._early]
        return [self.display.paint("dim", line) for line in (self._progress, *waiting) if line]

    def _status(self) -> list[str]:
        if self.conversation is not None:
            return self.conversation.status_lines()
        return [self.display.paint("dim", "starting …")]

    def _image_bar(self) -> list[str]:
        labels = self.images.labels
        return [self.display.paint("accent", f"🖼 {'  '.join(labels)}")] if labels else []

    # The protocol `DownloadProgress`, for long work before the conversation begins

    def say(self, text: str) -> None:
        self.note(text)

    def report(self, label: str, done: int, total: int) -> None:
        self._progress = f"{label} {done / total:.0%}" if total else label
        self.area.invalidate()

    def _offers(self, command: str) -> Sequence[Offer]:
        return self.conversation.offers(command, self.skins) if self.conversation else ()

    def _send(self, text: str) -> None:
        text = text.strip()
        user_input = UserInput(text, self.images.take(), self._input.pastes.expand(text))
        if self.conversation is not None:
            self.conversation.submit(user_input)
        else:
            self._early.append(user_input)

    def on_interrupt(self) -> None:
        if self._input.search.active:
            self._input.search.cancel()
        elif self.conversation is not None:
            self.conversation.on_interrupt()
        else:
            self.leave(130)

    def on_ctrl_d(self, buffer: Buffer) -> None:
        """Handle Ctrl-D: delete the character under the cursor; leave when nothing is typed."""
        if not buffer.text:
            self.leave()
        else:
            at = buffer.cursor_position
            buffer.delete(self._input.steps.after(buffer.text, at) - at)

    # What the questions need

    def focus(self, control: Any) -> None:
        """Move the keyboard focus to a control; None is the input."""
        self.area.layout.focus(control or self._input.area)
        self.area.invalidate()

    def show_text(self, text: str) -> None:
        if self.conversation is not None:
            self.conversation.view.note(text, "text")

    @property
    def typed(self) -> Buffer:
        return self._input.area.buffer

    # The protocol `CommandTerminal`

    def out(self, lines: Sequence[str]) -> None:
        if self.conversation is not None:
            self.conversation.view.out(list(lines))

    def columns(self) -> int:
        return self.area.output.get_size().columns

    def raw(self, sequence: str) -> None:
        self.area.output.write_raw(sequence)
        self.area.output.flush()
        self.area.repaint()


def is_terminal_open(stream: TextIO) -> bool:
    import termios  # does not exist on every system

    try:
        termios.tcgetattr(stream)
    except (termios.error, OSError, ValueError):
        return False
    return True


def ui_keys(ui: TerminalUI) -> KeyBindings:
    keys, deferred = KeyBindings(), Condition(lambda: ui.questions.is_deferred)
    keys.add("c-c")(lambda _event: ui.on_interrupt())
    keys.add("c-d")(lambda event: ui.on_ctrl_d(event.current_buffer))
    keys.add("tab", filter=deferred, eager=True)(lambda _event: ui.questions.resume())
    keys.add("c-z")(lambda event: event.app.suspend_to_background())
    return keys
