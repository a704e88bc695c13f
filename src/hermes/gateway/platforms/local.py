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
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

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
from hermes.util.text import escape_controls

HERE = "-"  #: The value of LOCAL_SOCKET for the terminal the gateway runs in.
MAX_LINE = 16 * 1024 * 1024
MENTION_NAME = "hermes"  #: Users write this name after an @ to address us.
FORMAT_REFUSED = "format_refused"


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


class LocalRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the gateway sends. Which fields count depends on `op`:

    hello: role, token; send: chat, text, key, thread, reply_to, media, buttons; edit: id, text;
    typing: chat; react: id, emoji, on; find: key, answered with the id of the message or null;
    chats: answered with a list of [chat, type]; ping. Without an answer, kept: the message `id` is
    stored; not_kept: it could not be stored and is delivered again.
    """

    op: str
    n: int = 0
    id: str = ""
    chat: str = ""
    text: str = ""
    key: str = ""
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()
    emoji: str = ""
    on: bool = True
    role: str = ""
    token: str = ""


class LocalReply(msgspec.Struct, frozen=True, tag_field="op", tag="answer", omit_defaults=True):
    n: int
    value: Any = None
    error: str = ""
    seconds: float = 0.0


_frames = msgspec.json.Decoder(LocalReply | UserMessage)
_encoder = msgspec.json.Encoder()
Deliver = Callable[[UserMessage], Awaitable[bool]]
"""Passes a message to the gateway; returns True if it was stored."""


def encode_frame(frame: msgspec.Struct) -> bytes:
    return _encoder.encode(frame) + b"\n"


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

    async def request(self, request: LocalRequest) -> LocalReply:
        """Make a request. Raises `NotConnected` when it was certainly not read, and `SendUnsure`
        when the connection broke before the reply."""
        if self._reader_task.done() or self._writer.is_closing():
            raise NotConnected("the local platform is not connected")
        number = next(self._numbers)
        future: asyncio.Future[LocalReply] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            self._writer.write(encode_frame(replace(request, n=number)))
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
        op = "kept" if await self._deliver(message) else "not_kept"
        self._writer.write(encode_frame(LocalRequest(op, id=message.id)))


TERMINAL_CHAT = "terminal"  #: The name of the only chat and its only user.
PRESS_PREFIX = ":"  #: `:2` presses the second button of the last message with buttons.
REDELIVERY_SECONDS = 0.05  #: Seconds until a rejected message is delivered again.


class TerminalChat:
    """A platform with one chat, on stdin and stdout, that survives reconnections."""

    def __init__(self, lines: TextIO | None = None, out: TextIO | None = None) -> None:
        self._lines, self._out = lines or sys.stdin, out or sys.stdout
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._typed: deque[UserMessage] = deque()  #: Messages that the gateway has not stored yet.
        self._arrived = asyncio.Event()
        self._shown: dict[str, LocalRequest] = {}
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

    async def request(self, request: LocalRequest) -> LocalReply:
        number = next(self._numbers)
        match request.op:
            case "send" if not request.text.strip() and not request.media:
                return LocalReply(number, error="empty")
            case "send":
                return LocalReply(number, self._show(f"out-{self._prefix}-{number}", request))
            case "edit" if request.id not in self._shown:
                return LocalReply(number, error="unknown")
            case "edit":
                edited = replace(self._shown[request.id], text=request.text)
                return LocalReply(number, self._show(request.id, edited))
            case "find":
                found = (name for name, sent in self._shown.items() if sent.key == request.key)
                return LocalReply(number, next(found, None))
            case "chats":
                return LocalReply(number, [(TERMINAL_CHAT, "dm")])
        return LocalReply(number)  # a terminal shows neither reactions nor who is typing

    def _show(self, name: str, message: LocalRequest) -> str:
        """Print a message; of a text that only grew, the new part."""
        if self._shown.get(name) == message:
            return name
        self._shown[name] = message
        last, before = self._last
        grew = last == name and message.text.startswith(before)
        if new := message.text[len(before) if grew else 0 :]:
            self._out.write(f"{escape_controls(new)}\n")
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
    channel: SocketChannel | TerminalChat

    def __init__(
        self, context: AdapterContext, receive: Receive, socket: str, terminal: TerminalChat | None
    ) -> None:
        super().__init__(context, receive)
        self._token = context.variable("LOCAL_TOKEN") or ""
        self.identities = (f"{socket}\0{self._token}",)
        self._socket, self._terminal = socket, terminal

    async def open(self) -> None:
        if self._terminal is not None:
            self._terminal.open(self._deliver)
            self.channel = self._terminal
        else:
            try:
                streams = await asyncio.open_unix_connection(self._socket, limit=MAX_LINE)
            except OSError as error:
                problem = NotConnected(f"the local platform cannot be reached: {error.strerror}")
                problem.hint = "start it, or correct LOCAL_SOCKET"
                raise problem from error
            self.channel = SocketChannel(*streams, self._deliver)
        self.resources.push_async_callback(self.channel.close)
        await self.request("hello", role="gateway", token=self._token)

    async def ping(self) -> None:
        await self.request("ping")

    async def request(self, op: str, **fields: Any) -> Any:
        """Make a request that may be repeated: a broken connection causes no uncertainty."""
        try:
            return raise_for_error(await self.channel.request(LocalRequest(op, **fields)))
        except SendUnsure as error:
            raise NotConnected(str(error)) from error

    async def write(self, request: LocalRequest, message: OutgoingMessage) -> Any:
        """Send or edit a message, without formatting if the platform refuses it."""
        answer = await self.channel.request(replace(request, text=message.text))
        if answer.error == FORMAT_REFUSED:
            answer = await self.channel.request(replace(request, text=message.plain))
        return raise_for_error(answer)

    async def _deliver(self, said: UserMessage) -> bool:
        return await deliver_once(self.receive, self.event(said))

    def event(self, said: UserMessage) -> MessageEvent:
        source = SessionSource(
            platform=self.context.manifest.name,
            chat_id=said.chat,
            chat_type=said.chat_type,
            user_id=said.user,
            user_name=said.user,
            chat_name=said.chat,
            thread_id=said.thread,
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


def raise_for_error(answer: LocalReply) -> Any:
    """Return the value of a reply, or raise its error."""
    if not answer.error:
        return answer.value
    known = _ERRORS.get(answer.error)
    raise known(answer) if known else SendRefused(f"the local platform says: {answer.error}")


class LocalAdapter(ConnectedAdapter[LocalConnection]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._socket = context.variable("LOCAL_SOCKET") or HERE
        self._cache = MediaCache(context.cache)
        self._terminal = TerminalChat() if self._socket == HERE else None

    def make_connection(self, receive: Receive) -> LocalConnection:
        return LocalConnection(self.context, receive, self._socket, self._terminal)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        limit = self.manifest.capabilities.max_upload_bytes
        for media in message.media:
            open_upload(media, limit)
        request = LocalRequest(
            "send",
            chat=target.chat_id,
            key=key,
            thread=target.thread_id,
            reply_to=message.reply_to,
            media=tuple(media.name or Path(media.path).name for media in message.media),
            buttons=message.buttons,
        )
        return str(await self.connection.write(request, message))

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:  # noqa: ARG002 - the signature is given
        await self.connection.write(LocalRequest("edit", id=message_id), message)

    async def was_delivered(
        self,
        query: DeliveryQuery,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message: OutgoingMessage,  # noqa: ARG002 - the signature is given
    ) -> str | None:
        found = await self.connection.request("find", key=query.key)
        return None if found is None else str(found)

    async def typing(self, target: ChatTarget) -> None:
        await self.connection.request("typing", chat=target.chat_id)

    async def react(
        self,
        target: ChatTarget,  # noqa: ARG002 - the signature is given
        message_id: str,
        emoji: str,
        *,
        on: bool = True,
    ) -> None:
        await self.connection.request("react", id=message_id, emoji=emoji, on=on)

    async def fetch(self, media: Media, limit: int) -> Media:
        return await self._cache.copy(Path(media.ref), media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        found = await self.connection.request("chats")
        return [ChatInfo(chat, chat, chat_type) for chat, chat_type in found]
