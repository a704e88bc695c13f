"""A conversation in plain lines that never repaints: for screen readers and simple terminals."""

import asyncio
import shutil
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Protocol, TextIO

from hermes.agent import Agent
from hermes.app import App, Surface
from hermes.config.settings import DisplaySettings
from hermes.core.errors import HermesError
from hermes.core.events import Event, Notice
from hermes.core.messages import Image, Text, User
from hermes.tui.clipboard import ImageAttachments
from hermes.tui.display import DisplayState, no_command, unchanged
from hermes.tui.markdown import MarkdownStream
from hermes.tui.skins import PLAIN_SKIN
from hermes.tui.text import Depth, Paint, safe

PROMPT = "> "
EXIT_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

ReadLine = Callable[[], Awaitable[str]]
"""Returns the next line with its line end; "" at the end of the input."""


class Renderer(Protocol):
    def show(self, event: Event) -> None: ...


class PlainConversation:
    """Implements `Talk` and `CommandTerminal`: one step after another."""

    place = Surface.TERMINAL

    def __init__(
        self, app: App, agent: Agent, renderer: Renderer, stdout: TextIO, read_line: ReadLine
    ) -> None:
        self.app, self._agent = app, agent
        self._renderer, self._stdout, self._read_line = renderer, stdout, read_line
        self._kept: deque[str] = deque()
        self.images = ImageAttachments()
        self.display = DisplayState(DisplaySettings(), PLAIN_SKIN, Depth.NONE)
        self._running = False
        self.take: Callable[[str], Awaitable[bool]] = no_command
        self.expand: Callable[[User], Awaitable[User]] = unchanged
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

    def leave(self, code: int = 0) -> None:
        self._left, self._code = True, code

    async def ask(self, message: User | None) -> None:
        """Run a turn; None continues the interrupted turn."""
        agent = self._agent
        try:
            message = None if message is None else await self.expand(message)
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
                loop.add_signal_handler(number, self._end, 128 + number)
        try:
            yield
        finally:
            self._stop = outer
            if outer is None:
                for number in (signal.SIGINT, *EXIT_SIGNALS):
                    loop.remove_signal_handler(number)

    def _ctrl_c(self) -> None:
        if self._stop is not None:
            self._stop()

    def _end(self, code: int) -> None:
        self.leave(code)
        self._ctrl_c()

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


class ReferenceExpander:
    """Adds the contents of references such as `@file:…` and `@diff` to a message."""

    def __init__(
        self, app: App, agent: Callable[[], Agent], folder: Path, warn: Callable[[str], object]
    ) -> None:
        """`warn` is called for what could not be attached or is large."""
        self._app, self._agent, self._folder, self._warn = app, agent, folder, warn

    async def __call__(self, message: User) -> User:
        """Return the expanded message. Raises `UsageError` when it would be too large."""
        if "@" not in message.text:
            return message
        # Most messages refer to nothing, so this is loaded when the first one does.
        from hermes.app import ReferenceContext, expand_references, page_fetch
        from hermes.security import PathGuard

        session, home = self._app.session(self._agent()), self._app.home
        context = ReferenceContext(
            guard=PathGuard(Path.home(), (self._folder,), (home.root, home.default_root)),
            folder=self._folder,
            context_length=session.target.profile.context_length,
            redact=self._app.redactor.redact,
            fetch=page_fetch(session.session_tools.deps),
            images=session.target.profile.images is not False,
        )
        expanded = await expand_references(message.text, context)
        for warning in expanded.warnings:
            self._warn(warning)
        images = [part for part in message.parts if isinstance(part, Image)]
        return User((*expanded.message.parts, *images))
