"""The gateway on a local platform."""

import asyncio
import contextlib
import itertools
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from hermes.gateway.platforms.kit.connection import (
    ConnectedAdapter,
    Connection,
    TaskSet,
    cancel_and_wait,
)
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    CredentialsRefused,
    Media,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendLater,
    SendRefused,
    SendUnsure,
    SessionSource,
)
from hermes.gateway.platforms.kit.inbound import deliver_once, mentions, strip_mention
from hermes.gateway.platforms.kit.media import MediaCache, open_upload
from hermes.gateway.platforms.local import server
from hermes.gateway.platforms.local.manifest import HERE
from hermes.gateway.platforms.local.server import (
    Answer,
    LocalPlatform,
    News,
    Press,
    Said,
    Say,
    Shown,
    line,
)
from hermes.store.records import OutboxRow

# The gateway's end of the connection to a local platform.

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_news = msgspec.json.Decoder(News)


class Line:
    """Questions with numbers, answers in any order, and what comes unasked in between."""

    def __init__(
        self,
        streams: Streams,
        said: Callable[[Said], Coroutine[Any, Any, None]],
    ) -> None:
        self._reader, self._writer = streams
        self._said = said
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._offers = TaskSet()
        self._reading = asyncio.create_task(self._read())

    @property
    def broken(self) -> bool:
        return self._reading.done() or self._writer.is_closing()

    async def ask(self, question: Callable[[int], msgspec.Struct]) -> Answer:
        """`question` makes the request of its number. Raises `NotConnected` when it was surely not
        read, `SendUnsure` when the line broke before the answer came."""
        if self.broken:
            raise NotConnected("the local platform is not connected")
        number = next(self._numbers)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            self.tell(question(number))
            return await future
        finally:
            self._asked.pop(number, None)

    def tell(self, frame: msgspec.Struct) -> None:
        self._writer.write(line(frame))

    async def close(self) -> None:
        self._writer.close()
        await cancel_and_wait(self._reading)
        await self._offers.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            # Broken is like an end: whoever waits for an answer hears of it below.
            with contextlib.suppress(OSError, ValueError):
                while data := await self._reader.readline():
                    self._take(_news.decode(data))
        finally:
            self._writer.close()
            for future in self._asked.values():
                if not future.done():
                    future.set_exception(SendUnsure("the connection to the local platform broke"))

    def _take(self, frame: Any) -> None:
        if isinstance(frame, Said):
            self._offers.start(self._said(frame))
            return
        asked = self._asked.get(frame.n) if isinstance(frame, Answer) else None
        if asked and not asked.done():  # whoever asked may have been cancelled just now
            asked.set_result(frame)


# One connection to a local platform.

_REFUSALS: dict[str, Callable[[server.Answer], AdapterError]] = {
    "credentials": lambda _: CredentialsRefused("the Local platform does not accept LOCAL_TOKEN"),
    "rate_limited": lambda answer: SendLater("too many messages", seconds=answer.seconds),
    "server_error": lambda _: SendLater("the local platform has a fault"),
    "chat_gone": lambda _: SendRefused("the chat is gone"),
    "empty": lambda _: SendRefused("a message must say something"),
    "unknown": lambda _: SendRefused("there is no such message"),
}


class Link(Connection):
    line: Line

    def __init__(
        self,
        context: AdapterContext,
        receive: Receive,
        place: tuple[str, str],
        reach: Callable[[], Awaitable[Streams]],
        event: Callable[[server.Said], MessageEvent],
    ) -> None:
        """`place` is the socket and the token."""
        super().__init__(context, receive)
        self.identities, self._token = ("\0".join(place),), place[1]
        self._reach, self._event = reach, event

    async def open(self) -> None:
        self.line = Line(await self._reach(), self._said)
        self.resources.push_async_callback(self.line.close)
        await self.answer(lambda n: server.Hello(n, "gateway", self._token))

    async def ask(self) -> None:
        await self.answer(server.Ping)

    async def answer(self, question: Callable[[int], msgspec.Struct]) -> server.Answer:
        """For what may be asked twice: a broken line is no matter of doubt."""
        try:
            return accepted(await self.line.ask(question))
        except SendUnsure as error:
            raise NotConnected(str(error)) from error

    async def _said(self, said: server.Said) -> None:
        word = (
            server.Kept if await deliver_once(self.receive, self._event(said)) else server.NotKept
        )
        self.line.tell(word(said.id))


def accepted(answer: server.Answer) -> server.Answer:
    if not answer.error:
        return answer
    known = _REFUSALS.get(answer.error)
    raise known(answer) if known else SendRefused(f"the local platform says: {answer.error}")


# A person at the terminal, or at the other end of a pipe: lines in, answers out.

CHAT = USER = "terminal"
PRESS = ":"
"""`:2` presses the second button of the message that has some."""


class Terminal:
    """A platform with one chat. Lives as long as its adapter, over reconnections."""

    def __init__(self, lines: TextIO | None = None, out: TextIO | None = None) -> None:
        self._lines, self._out = lines or sys.stdin, out or sys.stdout
        self._platform = LocalPlatform(shown=self.show)
        self._choices: Shown | None = None
        self._last = ("", "")
        """The id and text of what was printed last."""
        self._reading = False

    async def joined(self) -> Streams:
        if not self._reading:
            self._reading = True
            loop = asyncio.get_running_loop()
            # A thread, since reading a terminal cannot be interrupted; it ends with the process.
            threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        return await self._platform.joined()

    def show(self, shown: Shown) -> None:
        """Of text that only grew, what is new."""
        name, before = self._last
        grew = name == shown.id and shown.text.startswith(before)
        if new := shown.text[len(before) if grew else 0 :]:
            self._out.write(f"{new}\n")
        self._last = (shown.id, shown.text)
        extra = [f"[file: {file}]" for file in shown.media]
        extra += [f"[{PRESS}{n} {each.label}]" for n, each in enumerate(shown.buttons, 1)]
        if extra:
            self._out.write("  ".join(extra) + "\n")
        if shown.buttons:
            self._choices = shown
        self._out.flush()

    def heard(self, line: str) -> None:
        """A line that was typed."""
        text = line.rstrip("\n")
        self._last = ("", "")
        number = text.removeprefix(PRESS)
        if text.startswith(PRESS) and number.isdecimal() and self._choices is not None:
            buttons = self._choices.buttons
            if 1 <= int(number) <= len(buttons):
                data = buttons[int(number) - 1].data
                self._platform.press(Press(self._choices.id, data, USER))
                return
        if text.strip():
            self._platform.say(Say(CHAT, USER, text))

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for text in self._lines:
            try:
                loop.call_soon_threadsafe(self.heard, text)
            except RuntimeError:  # the gateway has ended
                return


NAME = "hermes"
"""What people write after an @ to address us."""
FORMAT_REFUSED = "format_refused"


class LocalAdapter(ConnectedAdapter[Link]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._socket = context.variable("LOCAL_SOCKET") or HERE
        self._cache = MediaCache(context.cache)
        self._terminal: Terminal | None = None

    def make_connection(self, receive: Receive) -> Link:
        place = self._socket, self.context.variable("LOCAL_TOKEN") or ""
        return Link(self.context, receive, place, self._streams, self._event)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        limit = self.manifest.capabilities.max_upload_bytes
        for media in message.media:
            open_upload(media, limit)
        names = tuple(media.name or Path(media.path).name for media in message.media)

        def request(number: int, text: str) -> server.Send:
            return server.Send(
                n=number,
                chat=target.chat_id,
                text=text,
                key=key,
                thread=target.thread_id,
                reply_to=message.reply_to,
                media=names,
                buttons=message.buttons,
            )

        return str((await self._write(request, message)).value)

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:  # noqa: ARG002 - the signature is given
        await self._write(lambda n, text: server.Edit(n, message_id, text), message)

    async def was_delivered(
        self,
        row: OutboxRow,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message: OutgoingMessage,  # noqa: ARG002 - the signature is given
    ) -> str | None:
        found: str | None = (await self.connection.answer(lambda n: server.Find(n, row.key))).value
        return found

    async def typing(self, target: ChatTarget) -> None:
        await self.connection.answer(lambda n: server.Typing(n, target.chat_id))

    async def react(
        self,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message_id: str,
        emoji: str,
        *,
        on: bool = True,
    ) -> None:
        await self.connection.answer(lambda n: server.React(n, message_id, emoji, on))

    async def fetch(self, media: Media, limit: int) -> Media:
        return await self._cache.copy(Path(media.ref), media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        found = (await self.connection.answer(server.Chats)).value
        return [ChatInfo(chat, chat, chat_type) for chat, chat_type in found]

    async def _write(
        self, request: Callable[[int, str], msgspec.Struct], message: OutgoingMessage
    ) -> server.Answer:
        line = self.connection.line
        answer = await line.ask(lambda n: request(n, message.text))
        if answer.error == FORMAT_REFUSED:
            answer = await line.ask(lambda n: request(n, message.plain))
        return accepted(answer)

    async def _streams(self) -> Streams:
        if self._socket == HERE:
            self._terminal = self._terminal or Terminal()
            return await self._terminal.joined()
        try:
            return await asyncio.open_unix_connection(self._socket, limit=server.MAX_LINE)
        except OSError as error:
            problem = NotConnected(f"the local platform cannot be reached: {error.strerror}")
            problem.hint = "start it, or correct LOCAL_SOCKET"
            raise problem from error

    def _event(self, said: server.Said) -> MessageEvent:
        source = SessionSource(
            platform=self.manifest.name,
            chat_id=said.chat,
            chat_type=said.chat_type,
            user_id=said.user,
            user_name=said.user,
            chat_name=said.chat,
            thread_id=said.thread,
            account=self.account,
            is_bot=said.bot,
        )
        named = mentions(said.text, (NAME,))
        return MessageEvent(
            source=source,
            message_id=said.id,
            text=strip_mention(said.text, (NAME,)) if named else said.text,
            media=tuple(_media(file) for file in said.files),
            reply_to_id=said.reply_to,
            reply_to_text=said.reply_text,
            addressed=said.chat_type == "dm" or named or said.reply_to_us,
            sent_at=said.at,
            button=said.button,
        )


def _media(file: server.Attached) -> Media:
    return Media(file.kind, file.name, file.mime, ref=file.path)
