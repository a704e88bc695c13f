"""Line mode, for screen readers and simple terminals, and the slash commands of terminals."""

import asyncio
import shutil
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Protocol, TextIO

import msgspec

from hermes.agent import Agent
from hermes.app import App, CommandCall, CommandHandler, Surface, command_handlers
from hermes.config.home import tilde
from hermes.config.settings import DisplaySettings
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Event, Notice
from hermes.core.messages import Assistant, Image, Message, Text, User
from hermes.ops import export_sessions, format_of, replaced
from hermes.tui.clipboard import ImageAttachments, copy_text
from hermes.tui.markdown import MarkdownStream
from hermes.tui.skins import PLAIN_SKIN, DisplayState, find_skin, skin_names
from hermes.tui.text import Depth, Paint, one_line, safe, terminal_depth, wrap
from hermes.util.text import many

PROMPT = "> "
EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

ReadLine = Callable[[], Awaitable[str]]
"""Returns the next line with its line end; "" at the end of the input."""


Expand = Callable[[Agent, User], Awaitable[User]]
"""Returns the message with the contents it refers to. Raises `HermesError`."""


class Renderer(Protocol):
    def show(self, event: Event) -> None: ...


class PlainConversation:
    """Implements `Talk` and `CommandTerminal`: one step after another."""

    place = Surface.TERMINAL
    has_picker = False
    take: Callable[[str], Awaitable[bool]]  #: Runs a slash command; see `Conversation.take`.

    def __init__(
        self,
        app: App,
        agent: Agent,
        renderer: Renderer,
        stdout: TextIO,
        read_line: ReadLine,
        expand: Expand,
    ) -> None:
        self._expand = expand
        self.app, self._agent = app, agent
        self._renderer, self._stdout, self._read_line = renderer, stdout, read_line
        self._kept: deque[str] = deque()
        self.images = ImageAttachments()
        self.display = DisplayState(DisplaySettings(), PLAIN_SKIN, Depth.NONE)
        self._running = False
        self._left, self._code = False, 0
        self._stop: Callable[[], object] | None = None  #: Called on Ctrl-C.

    @property
    def agent(self) -> Agent:
        return self._agent

    @property
    def busy(self) -> bool:
        return self._running

    async def continue_with(self, agent: Agent) -> None:
        self._agent = agent

    def later(self, text: str) -> None:
        self._kept.append(text)

    def show(self, markdown: str) -> None:
        stream = MarkdownStream(Paint(), self.columns())
        self.out([*stream.feed(safe(markdown)), *stream.finish()])

    def out(self, lines: Sequence[str]) -> None:
        self._stdout.write("".join(f"{line}\n" for line in lines))
        self._stdout.flush()

    def columns(self) -> int:
        return shutil.get_terminal_size().columns

    def raw(self, sequence: str) -> None:
        """Write no escape sequences: the terminal may not support them."""

    def set_vim(self, on: bool) -> None:
        """Do nothing: the terminal itself edits lines."""

    def leave(self, code: int = 0) -> None:
        self._left, self._code = True, code

    async def ask(self, message: User | None) -> None:
        """Run a turn; None continues the interrupted turn."""
        agent = self._agent
        try:
            message = None if message is None else await self._expand(self._agent, message)
        except HermesError as error:
            self.show(f"{error}\n{error.hint}" if error.hint else str(error))
            return
        events = agent.resume() if message is None else agent.run(message)
        self._running = True
        try:
            with self._stopped_by(self._interrupt):
                async with aclosing(events) as stream:
                    async for event in stream:
                        self._renderer.show(event)
        finally:
            self._running = False

    async def run(self) -> int:
        """Run until the user leaves or the input ends; return the exit code."""
        with self._stopped_by(self._interrupt):
            while not self._left:
                text = (self._kept.popleft() if self._kept else await self._line()).strip()
                if not text:
                    continue
                if text.startswith("/") and await self.take(text):
                    continue
                await self.ask(User((Text(text), *self.images.take())))
        return self._code

    def _interrupt(self) -> None:
        self._agent.interrupt("the conversation was left" if self._left else "stopped by Ctrl-C")

    @contextmanager
    def _stopped_by(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call `stop` on Ctrl-C and on signals that end the conversation."""
        loop = asyncio.get_running_loop()
        outer, self._stop = self._stop, stop
        if outer is None:
            loop.add_signal_handler(signal.SIGINT, self._ctrl_c)
            for number in EXIT_SIGNALS:
                loop.add_signal_handler(number, self._ctrl_c, 128 + number)
        try:
            yield
        finally:
            self._stop = outer
            if outer is None:
                for number in (signal.SIGINT, *EXIT_SIGNALS):
                    loop.remove_signal_handler(number)

    def _ctrl_c(self, code: int | None = None) -> None:
        """Stop what runs; with an exit code, also end the conversation."""
        if code is not None:
            self.leave(code)
        if self._stop is not None:
            self._stop()

    async def _line(self) -> str:
        """Return the next input of the user, or "" after a message of a background process.

        A backslash at the end of a line continues it on the next.
        """
        reading = asyncio.ensure_future(self._lines())
        hearing = asyncio.ensure_future(self._agent.pending.wait())
        try:
            with self._stopped_by(reading.cancel):
                self._stdout.write(PROMPT)
                self._stdout.flush()
                await asyncio.wait({reading, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if reading.cancelled():
                self._stdout.write("\n")
                return ""
            return reading.result() if reading.done() else await self._news(reading)
        finally:
            hearing.cancel()

    async def _lines(self) -> str:
        line = await self._read_line()
        if not line:
            self._stdout.write("\n")
            self.leave()
        while line.endswith("\\\n"):
            line = f"{line[:-2]}\n{await self._read_line()}"
        return line

    async def _news(self, reading: "asyncio.Task[str]") -> str:
        reading.cancel()
        news = self._agent.pending.take()
        if news is not None:
            self._stdout.write("\n")
            self._renderer.show(Notice(news.text.partition("\n")[0]))
            await self.ask(news)
        return ""


def reference_expander(app: App, folder: Path, warn: Callable[[str], object]) -> Expand:
    """Return a function that adds the contents of references such as `@file:…` to a message.

    `warn` is called for what could not be attached or is large. A message that would be too large
    raises `UsageError`.
    """

    async def expand(agent: Agent, message: User) -> User:
        if "@" not in message.text:
            return message
        # Most messages refer to nothing, so this is loaded when the first one does.
        from hermes.app import ReferenceContext, expand_references, page_fetch
        from hermes.security import PathGuard

        session, home = app.session(agent), app.home
        context = ReferenceContext(
            guard=PathGuard(Path.home(), (folder,), (home.root, home.default_root)),
            folder=folder,
            context_length=session.target.profile.context_length,
            redact=app.redactor.redact,
            fetch=page_fetch(session.session_tools.deps),
            images=session.target.profile.images is not False,
            on_read=session.record_read,
        )
        expanded = await expand_references(message.text, context)
        for warning in expanded.warnings:
            warn(warning)
        images = [part for part in message.parts if isinstance(part, Image)]
        return User((*expanded.message.parts, *images))

    return expand


# Slash commands that only the terminal has.


class CommandTerminal(Protocol):
    """The terminal as these commands use it, in addition to `Talk`."""

    display: DisplayState
    images: ImageAttachments
    has_picker: bool  #: The user can choose from lists with the arrow keys.

    def out(self, lines: Sequence[str]) -> None: ...

    def columns(self) -> int: ...

    def leave(self, code: int = 0) -> None: ...

    def raw(self, sequence: str) -> None: ...

    def set_vim(self, on: bool) -> None: ...


class TerminalCommands:
    """The handlers of the commands; `Commands` adds them to the shared ones."""

    def __init__(self, terminal: CommandTerminal, skins: Path) -> None:
        self._terminal, self._skins = terminal, skins
        self._display = terminal.display
        names = (
            "clear", "history", "resume", "rollback", "model", "save", "verbose", "reasoning",
            "skin", "statusbar", "details", "busy", "vim", "diff", "paste", "image", "copy",
            "terminal-setup", "quit",
        )  # fmt: skip
        self.handlers: dict[str, CommandHandler] = {
            name: getattr(self, f"_{name.replace('-', '_')}") for name in names
        }

    async def _clear(self, call: CommandCall) -> str:
        agent = await call.app.renew(call.agent, call.talk.continue_with)
        self._terminal.raw("\x1b[2J\x1b[3J\x1b[H")  # clears the screen and what scrolled off it
        return f"A new conversation: session `{agent.session_id}`"

    async def _history(self, call: CommandCall) -> str:
        lines = self._recap(call, _parse_number(call, 0))
        self._terminal.out(lines)
        return "" if lines else "There are no messages yet."

    def _picks(self, call: CommandCall) -> bool:
        """Return whether a list is shown for the missing argument. During a turn it is not: the
        answer needs the screen."""
        return not call.arguments and self._terminal.has_picker and not call.talk.busy

    async def _resume(self, call: CommandCall) -> str:
        if self._picks(call):
            from hermes.tui.command_choices import choose_session  # rarely needed

            chosen = await choose_session(call, self._display, self._terminal.columns())
            if not chosen:
                return "" if chosen is None else "There is no other conversation to continue."
            call = msgspec.structs.replace(call, arguments=chosen)
        before = call.agent.session_id
        message = await command_handlers.resume(call)
        if call.agent.session_id != before:
            self._terminal.out(self._recap(call))
        return message

    async def _model(self, call: CommandCall) -> str:
        remote = call.app.session(call.agent).request.remote is not None
        if self._picks(call) and not remote:
            from hermes.tui.command_choices import choose_model  # rarely needed

            chosen = await choose_model(call, self._display)
            if chosen is None:
                return ""
            if chosen:
                answer = await command_handlers.model(
                    msgspec.structs.replace(call, arguments=chosen)
                )
                return f"{answer}\n\n`/model {chosen} --global` keeps it for new conversations."
        return await command_handlers.model(call)

    async def _rollback(self, call: CommandCall) -> str:
        has_checkpoints = call.app.session(call.agent).session_tools.has_checkpoints
        if self._picks(call) and has_checkpoints:
            from hermes.tui.command_choices import choose_checkpoint  # rarely needed

            chosen = await choose_checkpoint(call, self._display, self._terminal.columns())
            if chosen is None:
                return ""
            call = msgspec.structs.replace(call, arguments=chosen)
        return await command_handlers.rollback(call)

    def _recap(self, call: CommandCall, most: int = 0) -> list[str]:
        display, most = self._display, most or MAX_EXCHANGES
        symbol = display.skin.branding.prompt_symbol
        return recap(call.agent.history, display.paint, self._terminal.columns(), symbol, most)

    async def _save(self, call: CommandCall) -> str:
        session = call.agent.session_id
        path = Path(call.arguments or f"hermes-{session}.md").expanduser()
        info = await call.app.store.info(session)
        with replaced(path, overwrite=False) as file:
            async for piece in export_sessions(call.app.store, [info], format_of(path)):
                file.write(piece)
        return f"Saved as `{tilde(path.resolve())}`"

    async def _diff(self, call: CommandCall) -> str:
        from hermes.app.project_commands import folder_changes  # rarely needed
        from hermes.tui.tool_view import unified_diff_rows

        found = await folder_changes(call)
        paint, columns = self._display.paint, self._terminal.columns()
        if not found.diff and not found.untracked:
            return f"{found.title}: none"
        self._terminal.out(
            [paint("dim", found.title), *unified_diff_rows(found.diff, columns, paint)]
        )
        return found.untracked_line

    async def _verbose(self, call: CommandCall) -> str:
        if wanted := call.arguments.lower():
            mode = _check_word(wanted, call.command.words)
            self._display.tool_progress = mode  # type: ignore[assignment]  # checked
        return f"Tool calls: {self._display.tool_progress}. {_change_hint(call)}"

    async def _details(self, call: CommandCall) -> str:
        if wanted := call.arguments.lower():
            mode = _check_word(wanted, call.command.words)
            self._display.set_detail(mode)  # type: ignore[arg-type]  # checked
        return f"Thinking and results: {self._display.results}. {_change_hint(call)}"

    async def _busy(self, call: CommandCall) -> str:
        wanted = call.arguments.lower()
        if wanted not in ("", "status"):
            modes = [word for word in call.command.words if word != "status"]
            self._display.busy = _check_word(wanted, modes)  # type: ignore[assignment]  # checked
        does = {
            "interrupt": "stops the agent and is answered then",
            "queue": "waits until the agent is done",
            "steer": "is passed to the agent after its next step",
        }
        mode = self._display.busy
        return f"While the agent works, a message {does[mode]} ({mode})."

    async def _vim(self, call: CommandCall) -> str:
        if call.arguments:
            on = _check_word(call.arguments.lower(), ("on", "off")) == "on"
            self._terminal.set_vim(on)
        now = "on" if self._display.vim else "off"
        return f"Vim mode: {now}. `/vim on | off` changes it, display.vim_mode permanently."

    async def _reasoning(self, call: CommandCall) -> str:
        if call.arguments in ("show", "hide"):
            self._display.reasoning = call.arguments == "show"
            return f"Thinking is {'shown' if self._display.reasoning else 'folded'}."
        return await command_handlers.reasoning(call)

    async def _skin(self, call: CommandCall) -> str:
        lasting = command_handlers.GLOBAL in call.words
        name = " ".join(word for word in call.words if word != command_handlers.GLOBAL)
        if not name and not lasting and self._picks(call):
            from hermes.tui.command_choices import choose_skin  # rarely needed

            name = await choose_skin(self._display, self._skins) or ""
            if not name:
                return ""
        if not name and not lasting:
            names = ", ".join(skin_names(self._skins))
            return f"Skin: **{self._display.skin.name}**. Available: {names}."
        if name:
            self._display.set_skin(find_skin(name, self._skins))
        skin = self._display.skin.name
        if not lasting:
            return f"Skin: **{skin}**, until you leave. `/skin {skin} --global` keeps it."
        from hermes.config import edit  # a slow YAML library, needed only for changes

        await asyncio.to_thread(edit.set_value, call.app.home, ("display", "skin"), skin)
        return f"Skin: **{skin}**, also in new conversations."

    async def _statusbar(self, call: CommandCall) -> str:
        if wanted := call.arguments.lower():
            self._display.status_bar = _check_word(wanted, call.command.words) == "on"
        return f"Status line: {'on' if self._display.status_bar else 'off'}. {_change_hint(call)}"

    async def _paste(self, _call: CommandCall) -> str:
        return f"Attached {await self._terminal.images.paste()}"

    async def _image(self, call: CommandCall) -> str:
        if not call.arguments:
            raise UsageError("the name of the image is missing", hint="/image FILE")
        return f"Attached {self._terminal.images.add_file(call.arguments)}"

    async def _copy(self, call: CommandCall) -> str:
        said = [m for m in call.agent.history if isinstance(m, Assistant) and m.text.strip()]
        number = _parse_number(call, 1)
        if not said:
            raise UsageError("there is no answer to copy yet")
        if number > len(said):
            raise UsageError(f"there are only {many(len(said), 'answer')}; /copy 1 is the last one")
        return await copy_text(said[-number].text, self._terminal.raw)

    async def _terminal_setup(self, _call: CommandCall) -> str:
        colours, columns = COLOURS[terminal_depth()], self._terminal.columns()
        return TERMINAL_HELP.format(colours=colours, columns=columns)

    async def _quit(self, _call: CommandCall) -> str:
        self._terminal.leave()
        return ""


TERMINAL_HELP = """\
- colours: {colours} (`TERM`, `COLORTERM`, `NO_COLOR`)
- columns: {columns}
- a new line: Alt-Enter, Ctrl-J, or a backslash at the end of the line
- where Alt does nothing: let the terminal send Escape for it (“Option as Meta key”)
- Shift-Enter: works in terminals with the keyboard protocol of kitty or modifyOtherKeys of xterm;
  tmux needs `set -s extended-keys on`; elsewhere let the terminal send Ctrl-J for it"""
COLOURS = {Depth.NONE: "none", Depth.NAMED: "16", Depth.INDEXED: "256", Depth.TRUE: "all"}


def _parse_number(call: CommandCall, default: int) -> int:
    if not call.arguments:
        return default
    if not call.arguments.isdecimal() or not int(call.arguments):
        raise UsageError(f"{call.arguments!r} is not a number", hint=f"/{call.command.name} [N]")
    return int(call.arguments)


def _check_word(word: str, words: Sequence[str]) -> str:
    if word not in words:
        raise UsageError(f"{word!r} must be one of {', '.join(words)}")
    return word


def _change_hint(call: CommandCall) -> str:
    """Return how to change what a command without arguments shows; "" with arguments."""
    words = " | ".join(call.command.words)
    return "" if call.arguments else f"`/{call.command.name} {words}` changes it."


MAX_EXCHANGES = 10
ANSWER_CHARS, ANSWER_LINES = 200, 3


def recap(
    history: Sequence[Message], paint: Paint, columns: int, symbol: str, most: int = MAX_EXCHANGES
) -> list[str]:
    """Return the last exchanges as lines: each question and the beginning of its answer."""
    starts = [at for at, message in enumerate(history) if isinstance(message, User)]
    shown = starts[-most:]
    if not shown:
        return []
    lines: list[str] = []
    if earlier := len(starts) - len(shown):
        lines.append(paint("dim", f"… {many(earlier, 'earlier question')}"))
    for start, end in zip(shown, [*shown[1:], len(history)], strict=True):
        lines += _exchange_lines(history[start:end], paint, columns, symbol)
    return lines


def _exchange_lines(part: Sequence[Message], paint: Paint, columns: int, symbol: str) -> list[str]:
    asked = part[0]
    text = User(asked.said).text if isinstance(asked, User) else ""
    first, *rest = wrap(_shorten(text, 300, 1)[0], columns - 2)
    lines = [f"{paint('prompt', symbol)} {paint('user', first)}"]
    lines += [f"  {paint('user', row)}" for row in rest]
    replies = [message for message in part[1:] if isinstance(message, Assistant)]
    if calls := sum(len(reply.calls) for reply in replies):
        lines.append(paint("dim", f"  ● {many(calls, 'tool call')}"))
    answer = next((reply.text for reply in reversed(replies) if reply.text.strip()), "")
    begun = _shorten(answer, ANSWER_CHARS, ANSWER_LINES) if answer else []
    return [*lines, *(paint("dim", f"  {one_line(line, columns - 3)}") for line in begun)]


def _shorten(text: str, most: int, lines: int) -> list[str]:
    text = safe(text).strip()
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    found = [line for line in cut.split("\n") if line.strip()] or [""]
    if len(found) <= lines:
        return found
    return [*found[: lines - 1], f"{found[lines - 1]} …"] if lines > 1 else [f"{found[0]} …"]
