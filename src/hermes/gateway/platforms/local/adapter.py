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
    LocalReply,
    LocalServer,
    PressRequest,
    SayRequest,
    ServerFrame,
    ShownMessage,
    UserMessage,
    encode_frame,
)
from hermes.store.records import OutboxRow

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_frames = msgspec.json.Decoder(ServerFrame)


class RequestChannel:
    """Sends numbered requests, matches replies in any order, and passes on messages in between."""

    def __init__(
        self,
        streams: Streams,
        said: Callable[[UserMessage], Coroutine[Any, Any, None]],
    ) -> None:
        self._reader, self._writer = streams
        self._on_message = said
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[LocalReply]] = {}
        self._deliveries = TaskSet()
        self._reader_task = asyncio.create_task(self._read())

    @property
    def is_broken(self) -> bool:
        return self._reader_task.done() or self._writer.is_closing()

    async def request(self, question: Callable[[int], msgspec.Struct]) -> LocalReply:
        """Send the request that `question` makes for a number, and return its reply. Raises
        `NotConnected` when it was certainly not read, and `SendUnsure` when the connection broke
        before the reply."""
        if self.is_broken:
            raise NotConnected("the local platform is not connected")
        number = next(self._numbers)
        future: asyncio.Future[LocalReply] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            self.send_frame(question(number))
            return await future
        finally:
            self._pending.pop(number, None)

    def send_frame(self, frame: msgspec.Struct) -> None:
        self._writer.write(encode_frame(frame))

    async def close(self) -> None:
        self._writer.close()
        await cancel_and_wait(self._reader_task)
        await self._deliveries.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        try:
            # A broken connection is like its end: waiting requests fail below.
            with contextlib.suppress(OSError, ValueError):
                while data := await self._reader.readline():
                    self._dispatch(_frames.decode(data))
        finally:
            self._writer.close()
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(SendUnsure("the connection to the local platform broke"))

    def _dispatch(self, frame: Any) -> None:
        if isinstance(frame, UserMessage):
            self._deliveries.start(self._on_message(frame))
            return
        asked = self._pending.get(frame.n) if isinstance(frame, LocalReply) else None
        if asked and not asked.done():  # the caller may have been cancelled just now
            asked.set_result(frame)


_ERRORS: dict[str, Callable[[server.LocalReply], AdapterError]] = {
    "credentials": lambda _: CredentialsRefused("the Local platform does not accept LOCAL_TOKEN"),
    "rate_limited": lambda answer: SendLater("too many messages", seconds=answer.seconds),
    "server_error": lambda _: SendLater("the local platform reports an error"),
    "chat_gone": lambda _: SendRefused("the chat is gone"),
    "empty": lambda _: SendRefused("a message must have content"),
    "unknown": lambda _: SendRefused("there is no such message"),
}


class LocalConnection(Connection):
    channel: RequestChannel

    def __init__(
        self,
        context: AdapterContext,
        receive: Receive,
        place: tuple[str, str],
        reach: Callable[[], Awaitable[Streams]],
        event: Callable[[server.UserMessage], MessageEvent],
    ) -> None:
        """`place` is the socket and the token."""
        super().__init__(context, receive)
        self.identities, self._token = ("\0".join(place),), place[1]
        self._reach, self._event = reach, event

    async def open(self) -> None:
        self.channel = RequestChannel(await self._reach(), self._on_message)
        self.resources.push_async_callback(self.channel.close)
        await self.request(lambda n: server.HelloRequest(n, "gateway", self._token))

    async def ping(self) -> None:
        await self.request(server.PingRequest)

    async def request(self, question: Callable[[int], msgspec.Struct]) -> server.LocalReply:
        """Make a request that may be repeated: a broken connection causes no uncertainty."""
        try:
            return raise_for_error(await self.channel.request(question))
        except SendUnsure as error:
            raise NotConnected(str(error)) from error

    async def _on_message(self, said: server.UserMessage) -> None:
        word = (
            server.MessageStored
            if await deliver_once(self.receive, self._event(said))
            else server.MessageRejected
        )
        self.channel.send_frame(word(said.id))


def raise_for_error(answer: server.LocalReply) -> server.LocalReply:
    if not answer.error:
        return answer
    known = _ERRORS.get(answer.error)
    raise known(answer) if known else SendRefused(f"the local platform says: {answer.error}")


TERMINAL_CHAT = TERMINAL_USER = "terminal"
PRESS_PREFIX = ":"
"""`:2` presses the second button of the last message with buttons."""


class TerminalChat:
    """A platform with one chat, on stdin and stdout. It lives as long as its adapter, across
    reconnections."""

    def __init__(self, lines: TextIO | None = None, out: TextIO | None = None) -> None:
        self._lines, self._out = lines or sys.stdin, out or sys.stdout
        self._platform = LocalServer(shown=self.show)
        self._choices: ShownMessage | None = None
        self._last = ("", "")
        """Id and text of the last printed message."""
        self._reader_task = False

    async def joined(self) -> Streams:
        if not self._reader_task:
            self._reader_task = True
            loop = asyncio.get_running_loop()
            # A daemon thread, because reading a terminal cannot be interrupted.
            threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        return await self._platform.connect_in_process()

    def show(self, shown: ShownMessage) -> None:
        """Print a message; of a text that only grew, the new part."""
        name, before = self._last
        grew = name == shown.id and shown.text.startswith(before)
        if new := shown.text[len(before) if grew else 0 :]:
            self._out.write(f"{new}\n")
        self._last = (shown.id, shown.text)
        extra = [f"[file: {file}]" for file in shown.media]
        extra += [f"[{PRESS_PREFIX}{n} {each.label}]" for n, each in enumerate(shown.buttons, 1)]
        if extra:
            self._out.write("  ".join(extra) + "\n")
        if shown.buttons:
            self._choices = shown
        self._out.flush()

    def handle_line(self, line: str) -> None:
        """Handle a typed line."""
        text = line.rstrip("\n")
        self._last = ("", "")
        number = text.removeprefix(PRESS_PREFIX)
        if text.startswith(PRESS_PREFIX) and number.isdecimal() and self._choices is not None:
            buttons = self._choices.buttons
            if 1 <= int(number) <= len(buttons):
                data = buttons[int(number) - 1].data
                self._platform.press(PressRequest(self._choices.id, data, TERMINAL_USER))
                return
        if text.strip():
            self._platform.say(SayRequest(TERMINAL_CHAT, TERMINAL_USER, text))

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for text in self._lines:
            try:
                loop.call_soon_threadsafe(self.handle_line, text)
            except RuntimeError:  # the gateway has ended
                return


MENTION_NAME = "hermes"
"""Users write this name after an @ to address us."""
FORMAT_REFUSED = "format_refused"


class LocalAdapter(ConnectedAdapter[LocalConnection]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._socket = context.variable("LOCAL_SOCKET") or HERE
        self._cache = MediaCache(context.cache)
        self._terminal: TerminalChat | None = None

    def make_connection(self, receive: Receive) -> LocalConnection:
        place = self._socket, self.context.variable("LOCAL_TOKEN") or ""
        return LocalConnection(self.context, receive, place, self._streams, self._event)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        limit = self.manifest.capabilities.max_upload_bytes
        for media in message.media:
            open_upload(media, limit)
        names = tuple(media.name or Path(media.path).name for media in message.media)

        def request(number: int, text: str) -> server.SendRequest:
            return server.SendRequest(
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
        await self._write(lambda n, text: server.EditRequest(n, message_id, text), message)

    async def was_delivered(
        self,
        row: OutboxRow,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message: OutgoingMessage,  # noqa: ARG002 - the signature is given
    ) -> str | None:
        found: str | None = (
            await self.connection.request(lambda n: server.FindRequest(n, row.key))
        ).value
        return found

    async def typing(self, target: ChatTarget) -> None:
        await self.connection.request(lambda n: server.TypingRequest(n, target.chat_id))

    async def react(
        self,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message_id: str,
        emoji: str,
        *,
        on: bool = True,
    ) -> None:
        await self.connection.request(lambda n: server.ReactRequest(n, message_id, emoji, on))

    async def fetch(self, media: Media, limit: int) -> Media:
        return await self._cache.copy(Path(media.ref), media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        found = (await self.connection.request(server.ChatsRequest)).value
        return [ChatInfo(chat, chat, chat_type) for chat, chat_type in found]

    async def _write(
        self, request: Callable[[int, str], msgspec.Struct], message: OutgoingMessage
    ) -> server.LocalReply:
        channel = self.connection.channel
        answer = await channel.request(lambda n: request(n, message.text))
        if answer.error == FORMAT_REFUSED:
            answer = await channel.request(lambda n: request(n, message.plain))
        return raise_for_error(answer)

    async def _streams(self) -> Streams:
        if self._socket == HERE:
            self._terminal = self._terminal or TerminalChat()
            return await self._terminal.joined()
        try:
            return await asyncio.open_unix_connection(self._socket, limit=server.MAX_LINE)
        except OSError as error:
            problem = NotConnected(f"the local platform cannot be reached: {error.strerror}")
            problem.hint = "start it, or correct LOCAL_SOCKET"
            raise problem from error

    def _event(self, said: server.UserMessage) -> MessageEvent:
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
        named = mentions(said.text, (MENTION_NAME,))
        return MessageEvent(
            source=source,
            message_id=said.id,
            text=strip_mention(said.text, (MENTION_NAME,)) if named else said.text,
            media=tuple(_media(file) for file in said.files),
            reply_to_id=said.reply_to,
            reply_to_text=said.reply_text,
            addressed=said.chat_type == "dm" or named or said.reply_to_us,
            sent_at=said.at,
            button=said.button,
        )


def _media(file: server.LocalFile) -> Media:
    return Media(file.kind, file.name, file.mime, ref=file.path)
