"""The local platform: this terminal, or a program behind a Unix socket.

The protocol of the socket is one JSON object per line, distinguished by `op`. A request with a
number `n` gets an `answer` with the same number. The platform delivers the messages of a chat one
at a time and repeats a message until the gateway has stored it.
"""

import asyncio
import contextlib
import itertools
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO

import msgspec

from hermes.gateway.platforms.local.manifest import HERE
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    Button,
    ChatInfo,
    ChatTarget,
    ChatType,
    ConnectedAdapter,
    Connection,
    CredentialsRefused,
    DeliveryQuery,
    Media,
    MediaCache,
    MediaKind,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendLater,
    SendRefused,
    SendUnsure,
    SessionSource,
    TaskSet,
    cancel_and_wait,
    deliver_once,
    mentions,
    open_upload,
    strip_mention,
)

MAX_LINE = 16 * 1024 * 1024


class LocalFile(msgspec.Struct, frozen=True):
    """A file that a user sends, by its path on this machine."""

    kind: MediaKind
    path: str
    name: str = ""
    mime: str = ""


class UserMessage(msgspec.Struct, frozen=True, tag_field="op", tag="said", omit_defaults=True):
    """A message of a user, or a button they pressed."""

    id: str
    chat: str
    user: str
    text: str = ""
    chat_type: ChatType = "dm"
    thread: str = ""
    reply_to: str = ""
    reply_text: str = ""
    reply_to_us: bool = False
    files: tuple[LocalFile, ...] = ()
    bot: bool = False
    button: str = ""
    at: float = 0.0


class MessageStored(msgspec.Struct, frozen=True, tag_field="op", tag="kept"):
    """The gateway has stored a user's message; it is not delivered again."""

    id: str


class MessageRejected(msgspec.Struct, frozen=True, tag_field="op", tag="not_kept"):
    """The gateway could not store the message; it is delivered again."""

    id: str


class HelloRequest(msgspec.Struct, frozen=True, tag_field="op", tag="hello"):
    n: int = 0
    role: Literal["gateway", "person"] = "person"
    token: str = ""


class SendRequest(msgspec.Struct, frozen=True, tag_field="op", tag="send", omit_defaults=True):
    n: int
    chat: str
    text: str
    key: str
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()


class EditRequest(msgspec.Struct, frozen=True, tag_field="op", tag="edit"):
    n: int
    id: str
    text: str


class FindRequest(msgspec.Struct, frozen=True, tag_field="op", tag="find"):
    """Return the id of the message with this key, or null."""

    n: int
    key: str


class TypingRequest(msgspec.Struct, frozen=True, tag_field="op", tag="typing"):
    n: int
    chat: str


class ReactRequest(msgspec.Struct, frozen=True, tag_field="op", tag="react"):
    n: int
    id: str
    emoji: str
    on: bool = True


class ChatsRequest(msgspec.Struct, frozen=True, tag_field="op", tag="chats"):
    """Return a list of [chat, type]."""

    n: int


class PingRequest(msgspec.Struct, frozen=True, tag_field="op", tag="ping"):
    n: int


class LocalReply(msgspec.Struct, frozen=True, tag_field="op", tag="answer", omit_defaults=True):
    n: int
    value: Any = None
    error: str = ""
    seconds: float = 0.0


_frames = msgspec.json.Decoder(LocalReply | UserMessage)
_encoder = msgspec.json.Encoder()
Deliver = Callable[[UserMessage], Awaitable[bool]]
"""Passes a message to the gateway; returns True if it was stored."""
Question = Callable[[int], msgspec.Struct]  #: Makes the request with a number.


def encode_frame(frame: msgspec.Struct) -> bytes:
    return _encoder.encode(frame) + b"\n"


class LocalChannel(Protocol):
    """A way to the platform: a socket, or this terminal."""

    async def request(self, question: Question) -> LocalReply:
        """Make a request. Raises `NotConnected` when it was certainly not read, and `SendUnsure`
        when the connection broke before the reply."""
        ...

    async def close(self) -> None: ...


class SocketChannel:
    """Sends numbered requests, matches replies in any order, and passes on messages in between."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, deliver: Deliver
    ) -> None:
        self._reader, self._writer, self._deliver = reader, writer, deliver
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[LocalReply]] = {}
        self._deliveries = TaskSet()
        self._reader_task = asyncio.create_task(self._read())

    async def request(self, question: Question) -> LocalReply:
        if self._reader_task.done() or self._writer.is_closing():
            raise NotConnected("the local platform is not connected")
        number = next(self._numbers)
        future: asyncio.Future[LocalReply] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            self._writer.write(encode_frame(question(number)))
            return await future
        finally:
            self._pending.pop(number, None)

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
                    frame = _frames.decode(data)
                    if isinstance(frame, UserMessage):
                        self._deliveries.start(self._receive(frame))
                    elif (asked := self._pending.get(frame.n)) and not asked.done():
                        asked.set_result(frame)  # unless the caller was cancelled just now
        finally:
            self._writer.close()
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(SendUnsure("the connection to the local platform broke"))

    async def _receive(self, message: UserMessage) -> None:
        word = MessageStored if await self._deliver(message) else MessageRejected
        self._writer.write(encode_frame(word(message.id)))


TERMINAL_CHAT = "terminal"  #: The name of the only chat and its only user.
PRESS_PREFIX = ":"  #: `:2` presses the second button of the last message with buttons.
REDELIVERY_SECONDS = 0.05  #: Seconds until a rejected message is delivered again.


class TerminalChat:
    """A platform with one chat, on stdin and stdout. It lives as long as its adapter, across
    reconnections."""

    def __init__(self, lines: TextIO | None = None, out: TextIO | None = None) -> None:
        self._lines, self._out = lines or sys.stdin, out or sys.stdout
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._typed: deque[UserMessage] = deque()  #: Messages that the gateway has not stored yet.
        self._arrived = asyncio.Event()
        self._shown: dict[str, SendRequest] = {}
        self._choices = ""  #: The last message with buttons.
        self._last = ("", "")  #: Id and text of the last printed message.
        self._reads = False
        self._delivery: asyncio.Task[None] | None = None

    def open(self, deliver: Deliver) -> None:
        """Deliver typed lines until `close`."""
        if not self._reads:
            self._reads = True
            loop = asyncio.get_running_loop()
            # A daemon thread, because reading a terminal cannot be interrupted.
            threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        self._delivery = asyncio.create_task(self._deliver_typed(deliver))

    async def close(self) -> None:
        await cancel_and_wait(self._delivery)

    async def request(self, question: Question) -> LocalReply:
        number = next(self._numbers)
        match question(number):
            case SendRequest() as sent:
                if not sent.text.strip() and not sent.media:
                    return LocalReply(number, error="empty")
                return LocalReply(number, self._show(f"out-{self._prefix}-{number}", sent))
            case EditRequest(id=name, text=text):
                if name not in self._shown:
                    return LocalReply(number, error="unknown")
                return LocalReply(
                    number, self._show(name, msgspec.structs.replace(self._shown[name], text=text))
                )
            case FindRequest(key=key):
                found = (name for name, sent in self._shown.items() if sent.key == key)
                return LocalReply(number, next(found, None))
            case ChatsRequest():
                return LocalReply(number, [(TERMINAL_CHAT, "dm")])
        return LocalReply(number)  # a terminal shows neither reactions nor who is typing

    def _show(self, name: str, message: SendRequest) -> str:
        """Print a message; of a text that only grew, the new part."""
        if self._shown.get(name) == message:
            return name
        self._shown[name] = message
        last, before = self._last
        grew = last == name and message.text.startswith(before)
        if new := message.text[len(before) if grew else 0 :]:
            self._out.write(f"{new}\n")
        self._last = (name, message.text)
        extra = [f"[file: {file}]" for file in message.media]
        extra += [f"[{PRESS_PREFIX}{n} {each.label}]" for n, each in enumerate(message.buttons, 1)]
        if extra:
            self._out.write("  ".join(extra) + "\n")
        if message.buttons:
            self._choices = name
        self._out.flush()
        return name

    def handle_line(self, line: str) -> None:
        """Handle a typed line."""
        text = line.rstrip("\n")
        self._last = ("", "")
        buttons = self._shown[self._choices].buttons if self._choices else ()
        pressed = {f"{PRESS_PREFIX}{n}": each.data for n, each in enumerate(buttons, 1)}
        button = pressed.get(text, "")
        text = "" if button else text
        if text.strip() or button:
            said = UserMessage(
                f"in-{self._prefix}-{next(self._numbers)}",
                TERMINAL_CHAT,
                TERMINAL_CHAT,
                text,
                reply_to=self._choices if button else "",
                button=button,
                at=time.time(),
            )
            self._typed.append(said)
            self._arrived.set()

    async def _deliver_typed(self, deliver: Deliver) -> None:
        while True:
            if not self._typed:
                self._arrived.clear()
                await self._arrived.wait()
            elif await deliver(self._typed[0]):
                self._typed.popleft()
            else:
                await asyncio.sleep(REDELIVERY_SECONDS)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        for text in self._lines:
            try:
                loop.call_soon_threadsafe(self.handle_line, text)
            except RuntimeError:  # the gateway has ended
                return


_ERRORS: dict[str, Callable[[LocalReply], AdapterError]] = {
    "credentials": lambda _: CredentialsRefused("the Local platform does not accept LOCAL_TOKEN"),
    "rate_limited": lambda answer: SendLater("too many messages", seconds=answer.seconds),
    "server_error": lambda _: SendLater("the local platform reports an error"),
    "chat_gone": lambda _: SendRefused("the chat is gone"),
    "empty": lambda _: SendRefused("a message must have content"),
    "unknown": lambda _: SendRefused("there is no such message"),
}


class LocalConnection(Connection):
    channel: LocalChannel

    def __init__(
        self,
        context: AdapterContext,
        receive: Receive,
        socket: str,
        reach: Callable[[Deliver], Awaitable[LocalChannel]],
        event: Callable[[UserMessage], MessageEvent],
    ) -> None:
        super().__init__(context, receive)
        self._token = context.variable("LOCAL_TOKEN") or ""
        self.identities = (f"{socket}\0{self._token}",)
        self._reach, self._event = reach, event

    async def open(self) -> None:
        self.channel = await self._reach(lambda said: deliver_once(self.receive, self._event(said)))
        self.resources.push_async_callback(self.channel.close)
        await self.request(lambda n: HelloRequest(n, "gateway", self._token))

    async def ping(self) -> None:
        await self.request(PingRequest)

    async def request(self, question: Question) -> LocalReply:
        """Make a request that may be repeated: a broken connection causes no uncertainty."""
        try:
            return raise_for_error(await self.channel.request(question))
        except SendUnsure as error:
            raise NotConnected(str(error)) from error


def raise_for_error(answer: LocalReply) -> LocalReply:
    if not answer.error:
        return answer
    known = _ERRORS.get(answer.error)
    raise known(answer) if known else SendRefused(f"the local platform says: {answer.error}")


MENTION_NAME = "hermes"  #: Users write this name after an @ to address us.
FORMAT_REFUSED = "format_refused"


class LocalAdapter(ConnectedAdapter[LocalConnection]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._socket = context.variable("LOCAL_SOCKET") or HERE
        self._cache = MediaCache(context.cache)
        self._terminal: TerminalChat | None = None

    def make_connection(self, receive: Receive) -> LocalConnection:
        return LocalConnection(self.context, receive, self._socket, self._open_channel, self._event)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        limit = self.manifest.capabilities.max_upload_bytes
        for media in message.media:
            open_upload(media, limit)
        names = tuple(media.name or Path(media.path).name for media in message.media)

        def request(number: int, text: str) -> SendRequest:
            return SendRequest(
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
        await self._write(lambda n, text: EditRequest(n, message_id, text), message)

    async def was_delivered(
        self,
        query: DeliveryQuery,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message: OutgoingMessage,  # noqa: ARG002 - the signature is given
    ) -> str | None:
        reply = await self.connection.request(lambda n: FindRequest(n, query.key))
        return None if reply.value is None else str(reply.value)

    async def typing(self, target: ChatTarget) -> None:
        await self.connection.request(lambda n: TypingRequest(n, target.chat_id))

    async def react(
        self,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message_id: str,
        emoji: str,
        *,
        on: bool = True,
    ) -> None:
        await self.connection.request(lambda n: ReactRequest(n, message_id, emoji, on))

    async def fetch(self, media: Media, limit: int) -> Media:
        return await self._cache.copy(Path(media.ref), media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        found = (await self.connection.request(ChatsRequest)).value
        return [ChatInfo(chat, chat, chat_type) for chat, chat_type in found]

    async def _write(
        self, request: Callable[[int, str], msgspec.Struct], message: OutgoingMessage
    ) -> LocalReply:
        channel = self.connection.channel
        answer = await channel.request(lambda n: request(n, message.text))
        if answer.error == FORMAT_REFUSED:
            answer = await channel.request(lambda n: request(n, message.plain))
        return raise_for_error(answer)

    async def _open_channel(self, deliver: Deliver) -> LocalChannel:
        if self._socket == HERE:
            self._terminal = self._terminal or TerminalChat()
            self._terminal.open(deliver)
            return self._terminal
        try:
            streams = await asyncio.open_unix_connection(self._socket, limit=MAX_LINE)
        except OSError as error:
            problem = NotConnected(f"the local platform cannot be reached: {error.strerror}")
            problem.hint = "start it, or correct LOCAL_SOCKET"
            raise problem from error
        return SocketChannel(*streams, deliver)

    def _event(self, said: UserMessage) -> MessageEvent:
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
            media=tuple(Media(f.kind, f.name, f.mime, ref=f.path) for f in said.files),
            reply_to_id=said.reply_to,
            reply_to_text=said.reply_text,
            addressed=said.chat_type == "dm" or named or said.reply_to_us,
            sent_at=said.at,
            button=said.button,
        )
