"""A conversation on a terminal, put together.

The prompt is there before anything else: what a conversation needs beside it is loaded while the
user reads and types. What is sent meanwhile waits.
"""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings

from hermes.config.home import Home
from hermes.config.settings.display import DisplaySettings
from hermes.core.events import QuestionAsked
from hermes.tui.cells import one_line
from hermes.tui.entry.completing import EntryCompleter
from hermes.tui.entry.images import Images
from hermes.tui.entry.keys import input_keys
from hermes.tui.entry.offers import Offer
from hermes.tui.entry.parts import make_entry
from hermes.tui.frame import FrameOutput
from hermes.tui.looks import Looks
from hermes.tui.mishaps import Mishaps
from hermes.tui.paint import terminal_depth
from hermes.tui.prints import Prints
from hermes.tui.questions import Questions
from hermes.tui.said import Said
from hermes.tui.screen import Changes, Parts, make_area
from hermes.tui.skins.loading import skin_or_default

if TYPE_CHECKING:
    from hermes.agent import Agent
    from hermes.app.app import App
    from hermes.tui.conversation import Conversation

ENDING = (signal.SIGTERM, signal.SIGHUP)
WATCH_SECONDS = 0.5
ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}
"""To whether a hook may run; Escape leaves it empty."""
OFFERED = ("resume", "sessions", "model", "personality", "skin")
"""Commands behind which something is offered; see `offering`."""


class Room:
    """The area, from the first moment; and the conversation, once it is attached."""

    def __init__(
        self,
        display: DisplaySettings,
        home: Home,
        stdout: TextIO,
        folder: Path,
        changes: Changes,
        redact: Callable[[str], str],
    ) -> None:
        self.stdout, self.skins = stdout, home.root / "skins"
        skin, self.complaint = skin_or_default(display.skin, self.skins)
        self.looks = Looks(display, skin, terminal_depth())
        self.questions = Questions(self.looks)
        self.images = Images()
        self.talk: Conversation | None = None
        self.code = 0
        self._offering: Any = None
        self._early: list[Said] = []
        self.progress = StartProgress(self.note, lambda: self.area.invalidate())
        self._entry = make_entry(
            self.looks,
            EntryCompleter(
                folder=folder,
                references=lambda fragment: _references(fragment, folder),
                more=partial(self._offers, ""),
                arguments={name: partial(self._offers, name) for name in OFFERED},
            ),
            self.images,
            history=home.root / "history",
            redact=redact,
            send=self._send,
            tell=self.note,
            repaint=lambda: self.area.repaint(),
        )
        parts = Parts(
            self._entry.area,
            self.questions.widgets,
            self._live,
            self._status,
            self._pictures,
            lambda: self.area.frames,
        )
        keys = merge_key_bindings([input_keys(self._entry), room_keys(self)])
        self.area = make_area(FrameOutput.on(stdout), parts, keys, KeyBindings(), changes)
        self.questions.focus = self._focus
        self.questions.composing = lambda: bool(self._entry.area.text)
        self.questions.pass_on = self._entry.area.buffer.insert_text

    async def show(self) -> None:
        """The area, until it is left."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self.leave, 128 + number)
        watching = asyncio.ensure_future(self._watch_terminal())
        try:
            with redirect_stdout(Prints(self.note, self.stdout)):
                loop.set_exception_handler(Mishaps(self.note))
                await self.area.run_async(handle_sigint=False, set_exception_handler=False)
        except EOFError:  # the terminal was closed
            self.code = 128 + signal.SIGHUP
        finally:
            loop.set_exception_handler(None)
            watching.cancel()
            for number in ENDING:
                loop.remove_signal_handler(number)

    async def _watch_terminal(self) -> None:
        """End with the terminal. A program that was suspended hears no signal of its end, and
        would read from it for ever."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not terminal_is_there(self.stdout):
                self.leave(128 + signal.SIGHUP)
                return

    def attach(self, app: "App", agent: "Agent", folder: Path) -> "Conversation":
        """The conversation begins; what was sent before is answered first."""
        loop = asyncio.get_running_loop()
        talk: Conversation = import_module("hermes.tui.conversation").Conversation(
            app, agent, self.looks, self.questions, self.area, self.leave
        )
        self.talk = talk
        referring = import_module("hermes.tui.referring").Referring
        talk.turns.expand = referring(app, lambda: talk.agent, folder, self.note)
        self._offering = import_module("hermes.tui.offering").Offering(
            app,
            lambda: talk.agent,
            self.skins,
            lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(),
        )
        self.questions.show_whole = lambda text: talk.view.note(text, "text")
        return talk

    def sent_early(self) -> "list[Said]":
        """What was sent before the conversation began; it is forgotten here."""
        early, self._early = self._early, []
        return early

    def leave(self, code: int = 0) -> None:
        """End it."""
        self.code = code
        if self.area.future is not None and not self.area.future.done():
            self.area.exit()

    def note(self, text: str) -> bool:
        """A line beside the conversation, from any thread; False when nothing is shown."""
        loop = self.area.loop
        if loop is None or not self.area.is_running:
            return False
        if self.talk is not None:
            loop.call_soon_threadsafe(self.talk.view.note, text)
        else:
            painted = self.looks.paint("warn", one_line(text, 10_000))
            loop.call_soon_threadsafe(self.area.print_above, f"{painted}\n")
        return True

    async def consent(self, event: str, command: str) -> bool:
        """Whether a hook may run; asked until it is clear."""
        asked = (
            f"A hook of your settings wants to run at {event}:\n{command}\nLet it, now and later?"
        )
        while True:
            said = await self.questions.clarify(QuestionAsked("", asked, ("no", "yes")))
            if (answer := ANSWERS.get(said.strip().lower())) is not None:
                return answer
            self.note("please answer yes or no")

    # What is shown

    def _live(self) -> list[str]:
        if self.talk is not None:
            return self.talk.bars.live()
        paint, columns = self.looks.paint, self.area.output.get_size().columns
        waiting = [paint("dim", f"⧗ {one_line(each.text, columns - 3)}") for each in self._early]
        progress = self.progress.text
        return [*([paint("dim", progress)] if progress else []), *waiting]

    def _status(self) -> list[str]:
        return self.talk.bars.status() if self.talk else [self.looks.paint("dim", "starting …")]

    def _pictures(self) -> list[str]:
        labels = self.images.labels
        return [self.looks.paint("accent", f"🖼 {'  '.join(labels)}")] if labels else []

    def _offers(self, command: str) -> Sequence[Offer]:
        found: Sequence[Offer] = self._offering.of(command) if self._offering else ()
        return found

    # What is typed

    def _send(self, text: str) -> None:
        text = text.strip()
        said = Said(text, self.images.take(), self._entry.pastes.whole(text))
        if self.talk is not None:
            self.talk.entered(said)
        else:
            self._early.append(said)

    def interrupted(self) -> None:
        """Ctrl-C."""
        if self._entry.search.active:
            self._entry.search.cancel()
        elif self.talk is not None:
            self.talk.interrupted()
        else:
            self.leave(130)

    def delete(self, buffer: Buffer) -> None:
        """Ctrl-D: the sign under the cursor, or the end."""
        if not buffer.text:
            self.leave()
        else:
            at = buffer.cursor_position
            buffer.delete(self._entry.steps.after(buffer.text, at) - at)

    def _focus(self, control: Any) -> None:
        self.area.layout.focus(control or self._entry.area)
        self.area.invalidate()

    # What terminal commands use

    def out(self, lines: Sequence[str]) -> None:
        if self.talk is not None:
            self.talk.view.out(list(lines))

    def columns(self) -> int:
        return self.area.output.get_size().columns

    def raw(self, sequence: str) -> None:
        self.area.output.write_raw(sequence)
        self.area.output.flush()
        self.area.repaint()


class StartProgress:
    """Of long work before the conversation begins: a `providers.local.progress.Progress`."""

    def __init__(self, say: Callable[[str], object], changed: Callable[[], None]) -> None:
        self.say, self._changed = say, changed
        self.text = ""

    def report(self, label: str, done: int, total: int) -> None:
        self.text = f"{label} {done / total:.0%}" if total else label
        self._changed()


def terminal_is_there(stream: TextIO) -> bool:
    termios = import_module("termios")  # not on every system
    try:
        termios.tcgetattr(stream)
    except (termios.error, OSError, ValueError):
        return False
    return True


def room_keys(room: Room) -> KeyBindings:
    """Those beside typing."""
    keys = KeyBindings()

    @keys.add("c-c")
    def _stop(_event: KeyPressEvent) -> None:
        room.interrupted()

    @keys.add("c-d")
    def _end(event: KeyPressEvent) -> None:
        room.delete(event.current_buffer)

    @keys.add("tab", filter=Condition(lambda: room.questions.asleep), eager=True)
    def _answer(_event: KeyPressEvent) -> None:
        room.questions.wake()

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys


def _references(fragment: str, folder: Path) -> Sequence[Any]:
    found: Sequence[Any] = import_module("hermes.app.references.completing").complete(
        fragment, folder
    )
    return found
