"""The terminal application: input, output area and the conversation.

The prompt is shown first. The agent is imported and opened while the user reads and types;
messages that are sent in the meantime wait.
"""

import asyncio
import io
import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import msgspec
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import (
    Condition,
    has_completions,
    vi_mode,
    vi_navigation_mode,
)
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style

from hermes.app import complete_reference
from hermes.config.home import Home
from hermes.config.settings import DisplaySettings
from hermes.core.approval_text import hook_request, render_approval
from hermes.core.events import QuestionAsked
from hermes.tui.area import (
    Area,
    BackgroundQuery,
    FrameOutput,
    LineBox,
    background_of_variable,
    terminal_links,
)
from hermes.tui.clipboard import ImageAttachments, notification
from hermes.tui.completion import InputCompleter, Offer
from hermes.tui.input import (
    KEYBOARD_OFF,
    KEYBOARD_ON,
    InputField,
    UserInput,
    input_keys,
    read_keys,
)
from hermes.tui.picker import PickerItem, pick
from hermes.tui.questions import Questions
from hermes.tui.skins import DisplayState, skin_or_default
from hermes.tui.text import Depth, Rgb, one_line, terminal_depth, wrap

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
DOUBLE_ESCAPE_SECONDS = 1.0  #: A second Escape within this time offers earlier questions.
AWAY_SECONDS = 10.0  #: Without a key for so long, the user is notified.
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

    has_picker = True

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
        self._keys, self._key_at = 0, time.monotonic()
        """Number of keys pressed so far, and when the last one was."""
        self._escaped_at = -DOUBLE_ESCAPE_SECONDS
        self._progress = ""
        self.input = InputField(
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
            repaint=lambda: self.raw("\x1b[2J\x1b[H"),
        )
        self.area = self._make_area(changes)
        self.set_vim(self.display.vim)
        self._use_terminal(settings, folder)

    def _make_area(self, changes: LayoutOverrides) -> Area:
        extension_keys, input_area = KeyBindings(), self.input.area
        changes.keys(extension_keys, input_area=input_area)
        widgets: dict[str, Any] = {
            **self.questions.widgets,
            "spinner_widget": LineBox(self._live, 30, lambda: self.area.frames),
            "spacer": _empty_widget(),
            "status_bar": LineBox(self._status, 1, lambda: self.area.frames),
            "input_rule_top": LineBox(self._rule, 1, lambda: self.area.frames),
            "image_bar": LineBox(self._image_bar, 2, lambda: self.area.frames),
            # A question has a prompt of its own.
            "input_area": ConditionalContainer(
                input_area, ~Condition(lambda: self.questions.is_focused)
            ),
            "input_rule_bot": _empty_widget(),
            "voice_status_bar": _empty_widget(),
            "completions_menu": CompletionsMenu(max_height=8, scroll_offset=1),
        }
        area = Area(
            output=FrameOutput.on(self.stdout),
            layout=Layout(HSplit(changes.children(**widgets)), input_area),
            key_bindings=merge_key_bindings(
                [input_keys(self.input), ui_keys(self), extension_keys]
            ),
            style=Style.from_dict({**STYLES, **changes.styles()}),
            mouse_support=False,
        )
        area.timeoutlen, area.ttimeoutlen = KEY_SECONDS, ESCAPE_SECONDS
        read_keys(area.input)
        area.key_processor.before_key_press += self._count_key
        return area

    def _count_key(self, _sender: object) -> None:
        self._keys += 1
        self._key_at = time.monotonic()

    def notify(self, text: str) -> bool:
        """Notify the user, if they pressed no key for a while; return whether that is so."""
        if time.monotonic() - self._key_at < AWAY_SECONDS:
            return False
        if self.display.notify != "off":
            self._write("\a" if self.display.notify == "bell" else notification(f"Hermes: {text}"))
        return True

    def set_vim(self, on: bool) -> None:
        """Edit messages as in vi, or as readline does."""
        self.display.vim = on
        self.area.editing_mode = EditingMode.VI if on else EditingMode.EMACS

    def _use_terminal(self, settings: DisplaySettings, folder: Path) -> None:
        """Adapt to the background of the terminal and use its links."""
        if settings.background == "auto":
            if (colour := background_of_variable()) is not None:
                self.display.set_background(colour)
            if terminal_depth() >= Depth.INDEXED:
                BackgroundQuery(self.area, self._set_background)
        if settings.links == "on" or (settings.links == "auto" and terminal_links()):
            self.area.link_folder = folder

    def _set_background(self, colour: Rgb) -> None:
        self.display.set_background(colour)
        self.area.invalidate()

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
        loop.add_signal_handler(signal.SIGCONT, self._write, KEYBOARD_ON)
        self._write(KEYBOARD_ON)
        try:
            with redirect_stdout(StdoutProxy(self.note, self.stdout)):
                loop.set_exception_handler(LoopErrorHandler(self.note))
                await self.area.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:  # the terminal was closed
            self.code = 128 + signal.SIGHUP
        finally:
            loop.set_exception_handler(None)
            watching.cancel()
            self._write(KEYBOARD_OFF)
            for number in (signal.SIGCONT, *EXIT_SIGNALS):
                loop.remove_signal_handler(number)

    def _write(self, sequence: str) -> None:
        self.area.output.write_raw(sequence)
        self.area.output.flush()

    def suspend(self) -> None:
        """Stop the program as Ctrl-Z does; the shell gets the usual keys."""
        self._write(KEYBOARD_OFF)
        self.area.suspend_to_background()

    def attach(self, app: "App", agent: "Agent", folder: Path) -> "Conversation":
        """Begin the conversation and connect it to the area."""
        # Loads the agent and the app: the prompt must appear before that.
        from hermes.tui.conversation import Conversation
        from hermes.tui.plain import reference_expander
        from hermes.tui.view import FolderLabel

        expand = reference_expander(app, folder, self.note)
        talk = Conversation(app, agent, self.display, self.questions, self.area, self.leave, expand)
        talk.view.folder = FolderLabel(folder)
        talk.restore, talk.notify = self._restore, self.notify
        if self.area.link_folder is not None:
            self.area.link_folder = folder
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
        asked = "\n".join((*request.lines, "Allow it, now and in the future?"))
        while True:
            user_input = await self.questions.clarify(QuestionAsked("", asked, ("no", "yes")))
            if (answer := YES_NO.get(user_input.strip().lower())) is not None:
                return answer
            self.note("please answer yes or no")

    def _live(self) -> list[str]:
        if self.conversation is not None:
            return self.conversation.live_lines() if not self.area.is_resizing else []
        waiting = [f"⧗ {one_line(each.text, self.columns() - 3)}" for each in self._early]
        return [self.display.paint("dim", line) for line in (self._progress, *waiting) if line]

    def _status(self) -> list[str]:
        if self.area.is_resizing:
            return []
        if self.conversation is not None:
            return self.conversation.status_lines()
        return [self.display.paint("dim", "starting …")]

    def _rule(self) -> list[str]:
        return (
            [self.display.paint("rule", "─" * self.columns())] if not self.area.is_resizing else []
        )

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
        self.area.vi_state.input_mode = InputMode.INSERT
        user_input = UserInput(text, self.images.take(), self.input.pastes.expand(text))
        if self.conversation is not None:
            self.conversation.submit(user_input)
        else:
            self._early.append(user_input)

    def on_interrupt(self) -> None:
        if self.input.search.active:
            self.input.search.cancel()
        elif self.conversation is not None:
            self.conversation.on_interrupt(self.typed, self._keys)
        elif self.typed.text:
            self.typed.append_to_history()
            self.typed.reset()
        else:
            self.leave(130)

    def on_escape(self) -> None:
        """Handle Escape: stop what runs. Twice while nothing runs and nothing is typed offers the
        earlier questions."""
        talk, now = self.conversation, time.monotonic()
        again, self._escaped_at = now - self._escaped_at < DOUBLE_ESCAPE_SECONDS, now
        if talk is None or talk.stop("Esc"):
            self._escaped_at = -DOUBLE_ESCAPE_SECONDS
        elif again and not self.typed.text:
            self._escaped_at = -DOUBLE_ESCAPE_SECONDS
            self.area.create_background_task(self._choose_earlier(talk))

    async def _choose_earlier(self, talk: "Conversation") -> None:
        questions = dict(talk.earlier_questions())
        if not questions:
            talk.view.note("There is no earlier question to go back to.", "dim")
            return
        items = [PickerItem(text, "", at) for at, text in questions.items()]
        title = "Go back to before which question?"
        paint = self.display.paint
        chosen = await pick(title, items, preview=questions.__getitem__, paint=paint)
        if chosen is not None and not talk.busy:
            self._set_input(self.input.pastes.collapse(questions[chosen]))
            talk.replace_question(chosen)

    def _restore(self, inputs: Sequence[UserInput]) -> None:
        """Put messages that were not delivered back into the input, before what is typed."""
        self._set_input("\n".join(filter(None, (*(each.text for each in inputs), self.typed.text))))
        for each in inputs:
            self.images.put_back(each.images)

    def _set_input(self, text: str) -> None:
        self.typed.document = Document(text, len(text))

    def on_ctrl_d(self, buffer: Buffer) -> None:
        """Handle Ctrl-D: delete the character under the cursor; leave when nothing is typed."""
        if not buffer.text:
            self.leave()
        else:
            at = buffer.cursor_position
            buffer.delete(self.input.steps.after(buffer.text, at) - at)

    # What the questions need

    def focus(self, control: Any) -> None:
        """Move the keyboard focus to a control; None is the input."""
        self.area.layout.focus(control or self.input.area)
        self.area.invalidate()

    @property
    def typed(self) -> Buffer:
        return self.input.area.buffer

    # The protocol `CommandTerminal`

    def out(self, lines: Sequence[str]) -> None:
        """Print lines with a blank line before and after them."""
        if self.conversation is not None and lines:
            view = self.conversation.view
            view.gap()
            view.out(list(lines))
            view.gap()

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
    at_input = Condition(lambda: ui.area.current_buffer is ui.typed and not ui.input.search.active)
    # Escape closes the menu, and ends the insert mode of vi.
    typing = at_input & ~has_completions & (~vi_mode | vi_navigation_mode)
    keys.add("escape", filter=typing)(lambda _event: ui.on_escape())

    @keys.add("s-tab")
    def _next_mode(_event: KeyPressEvent) -> None:
        if ui.conversation is not None:
            ui.conversation.next_permission_mode()

    @keys.add("c-o")
    def _expand(_event: KeyPressEvent) -> None:
        if ui.conversation is not None:
            ui.conversation.expand_result()

    @keys.add("escape", "escape", filter=typing)
    def _twice(_event: KeyPressEvent) -> None:
        ui.on_escape()
        ui.on_escape()

    keys.add("c-d")(lambda event: ui.on_ctrl_d(event.current_buffer))
    keys.add("tab", filter=deferred, eager=True)(lambda _event: ui.questions.resume())
    keys.add("c-z")(lambda _event: ui.suspend())
    return keys
