"""The local platform itself, a process that survives gateways that come, go and crash.

python -m tests.fakes.local.server --socket PATH --journal PATH

Messages of users wait until a gateway has stored them. Each chat is delivered one message at a
time, so its order holds even when one is rejected. Every message of the gateway is shown and
written to the journal, even twice if it is sent twice: the journal is what users saw.

The protocol is one JSON object per line, distinguished by `op`. A client first sends `hello`, as
the gateway or as a person. A request with a number `n` gets an `answer` with the same number.
"""

import argparse
import asyncio
import contextlib
import hmac
import itertools
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from hermes.gateway.platforms.local import (
    MAX_LINE,
    REDELIVERY_SECONDS,
    LocalFile,
    LocalReply,
    LocalRequest,
    UserMessage,
    encode_frame,
)
from hermes.sdk.platforms import Button, ChatType


class ShownMessage(msgspec.Struct, frozen=True, tag_field="op", tag="shown", omit_defaults=True):
    """A message of the gateway as users see it."""

    id: str
    chat: str
    text: str
    key: str = ""  #: The gateway's key. The same key twice means that it was sent twice.
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()
    edits: int = 0
    at: float = 0.0


class EditedMessage(msgspec.Struct, frozen=True, tag_field="op", tag="edited"):
    id: str
    text: str


class MessageStored(msgspec.Struct, frozen=True, tag_field="op", tag="kept"):
    """The gateway has stored a user's message; it is not delivered again."""

    id: str


class ServerRequest(LocalRequest, frozen=True, omit_defaults=True):
    """A request of a gateway or a person. What persons can do:

    say: write a message, answered with its id; press: press the button `data` of the message `id`;
    look: answered with the messages of the gateway in a chat, or in all chats; watch: get every
    message shown or edited from now on over this connection.
    """

    user: str = ""
    chat_type: ChatType = "dm"
    files: tuple[LocalFile, ...] = ()
    bot: bool = False
    data: str = ""


LogEntry = UserMessage | MessageStored | ShownMessage | EditedMessage  #: A line of the journal.


async def send_frame(writer: asyncio.StreamWriter, frame: msgspec.Struct) -> None:
    writer.write(encode_frame(frame))
    await writer.drain()


class ChatLog:
    """All chats with their messages. A journal lets another process continue where this one
    stopped."""

    def __init__(self, journal: Path | None = None) -> None:
        self.waiting: dict[str, deque[UserMessage]] = {}
        """Messages the gateway has not stored yet, by chat, oldest first."""
        self.said: dict[str, UserMessage] = {}
        self.shown: dict[str, ShownMessage] = {}
        self.reactions: dict[str, list[str]] = {}
        self.typed: dict[str, int] = {}
        self._numbers = itertools.count(1)
        # Without a journal, ids given before are unknown; a random prefix keeps them unique.
        self._id_prefix = "" if journal else f"{secrets.token_hex(4)}-"
        self._journal: BinaryIO | None = None
        if journal is not None:
            self._replay(journal)
            self._journal = journal.open("ab")

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def say(self, message: ServerRequest) -> UserMessage:
        """Add a user's message; it waits for the gateway."""
        answered = self.shown.get(message.reply_to) or self.said.get(message.reply_to)
        said = UserMessage(
            id=f"in-{self._id_prefix}{next(self._numbers)}",
            chat=message.chat,
            user=message.user,
            text=message.text,
            chat_type=message.chat_type,
            thread=message.thread,
            reply_to=message.reply_to,
            reply_text=answered.text if answered else "",
            reply_to_us=message.reply_to in self.shown,
            files=message.files,
            bot=message.bot,
            at=time.time(),
        )
        return self._add(said)

    def press(self, press: ServerRequest) -> UserMessage:
        """Add a pressed button. Raises KeyError when there is no such message or button."""
        shown = self.shown[press.id]
        if press.data not in {button.data for button in shown.buttons}:
            raise KeyError(press.data)
        kinds = [said.chat_type for said in self.said.values() if said.chat == shown.chat]
        said = UserMessage(
            id=f"in-{self._id_prefix}{next(self._numbers)}",
            chat=shown.chat,
            user=press.user,
            chat_type=kinds[-1] if kinds else "dm",
            thread=shown.thread,
            reply_to=shown.id,
            button=press.data,
            at=time.time(),
        )
        return self._add(said)

    def redeliver(self, message_id: str) -> None:
        """Deliver a message again, as if the gateway had not acknowledged it."""
        said = self.said[message_id]
        queue = self.waiting.setdefault(said.chat, deque())
        if said not in queue:
            queue.append(said)

    def mark_stored(self, message_id: str) -> str:
        """Record that the gateway has stored a message; return its chat, or "" if it was not
        waiting."""
        said = self.said.get(message_id)
        queue = self.waiting.get(said.chat) if said else None
        if said is None or not queue or queue[0].id != message_id:
            return ""
        self._record(MessageStored(message_id))
        queue.popleft()
        return said.chat

    def show(self, message: LocalRequest) -> ShownMessage:
        shown = ShownMessage(
            id=f"out-{self._id_prefix}{next(self._numbers)}",
            chat=message.chat,
            text=message.text,
            key=message.key,
            thread=message.thread,
            reply_to=message.reply_to,
            media=message.media,
            buttons=message.buttons,
            at=time.time(),
        )
        self._record(shown)
        self.shown[shown.id] = shown
        return shown

    def edit(self, message_id: str, text: str) -> ShownMessage:
        """Replace the text of a message. Raises KeyError when there is no such message of ours."""
        before = self.shown[message_id]
        if before.text == text:
            return before
        self._record(EditedMessage(message_id, text))
        return self._edit(before, text)

    def find(self, key: str) -> str | None:
        return next((shown.id for shown in self.shown.values() if shown.key == key), None)

    def react(self, message_id: str, emoji: str, *, on: bool) -> None:
        ours = self.reactions.setdefault(message_id, [])
        if on and emoji not in ours:
            ours.append(emoji)
        elif not on and emoji in ours:
            ours.remove(emoji)

    def typing(self, chat: str) -> None:
        self.typed[chat] = self.typed.get(chat, 0) + 1

    def chats(self) -> dict[str, str]:
        """Return the chats with their types."""
        return {said.chat: said.chat_type for said in self.said.values()}

    def _add(self, said: UserMessage) -> UserMessage:
        self._record(said)
        self._enqueue(said)
        return said

    def _enqueue(self, said: UserMessage) -> None:
        self.said[said.id] = said
        self.waiting.setdefault(said.chat, deque()).append(said)

    def _edit(self, before: ShownMessage, text: str) -> ShownMessage:
        after = msgspec.structs.replace(before, text=text, edits=before.edits + 1)
        self.shown[after.id] = after
        return after

    def _record(self, entry: LogEntry) -> None:
        if self._journal is not None:
            self._journal.write(encode_frame(entry))
            self._journal.flush()

    def _replay(self, journal: Path) -> None:
        count = 0
        for entry in read_journal(journal):
            match entry:
                case UserMessage():
                    self._enqueue(entry)
                case MessageStored(id=message_id):
                    self.mark_stored(message_id)
                case ShownMessage():
                    self.shown[entry.id] = entry
                case EditedMessage(id=message_id, text=text):
                    self._edit(self.shown[message_id], text)
            count += isinstance(entry, UserMessage | ShownMessage)
        self._numbers = itertools.count(count + 1)


def read_journal(journal: Path) -> Iterator[LogEntry]:
    """Yield the entries of a journal, oldest first. A last line cut off by a crash is skipped."""
    if not journal.exists():
        return
    decoder = msgspec.json.Decoder(LogEntry)
    with journal.open("rb") as file:
        for entry in file:
            if entry.endswith(b"\n"):
                yield decoder.decode(entry)


DRAIN_SECONDS = 1.0
"""Seconds for which requests of the previous gateway are still read before a new one is
accepted."""
_requests = msgspec.json.Decoder(ServerRequest)
_OF_GATEWAYS = frozenset({"send", "edit", "find", "typing", "react", "chats", "ping"})


class _ConnectionDropped(Exception):
    """The connection is dropped on purpose."""


class _Client:
    """One connected client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.gateway = False
        self.watching = False
        self.ended = asyncio.Event()
        self.messages = 0  #: Number of messages that it got.
        self.in_flight: set[str] = set()
        """Chats with a message that the gateway has not acknowledged."""

    def send(self, frame: UserMessage | ShownMessage | LocalReply) -> None:
        if not self.writer.is_closing():
            self.writer.write(encode_frame(frame))


class LocalServer:
    """Serves a `ChatLog` to one gateway and any number of users.

    With `shared`, any number of gateways: `all` of them get every message, like the sessions of a
    bot on Discord, or the `one` with the fewest does, similar to those on Slack.
    """

    def __init__(
        self,
        log: ChatLog | None = None,
        *,
        token: str = "",
        shared: Literal["", "all", "one"] = "",
    ) -> None:
        self.log, self.token, self._shared = log or ChatLog(), token, shared
        self.refusing = False  #: Reject every token.
        self.troubles: list[str] = []  #: What the next sends and edits fail with; see `trouble`.
        self._server: asyncio.Server | None = None
        self._connections: set[_Client] = set()
        self._handlers: dict[str, Callable[[ServerRequest], Any]] = {
            "send": self._send,
            "edit": self._edit,
            "find": lambda request: self.log.find(request.key),
            "typing": lambda request: self.log.typing(request.chat),
            "react": lambda request: self.log.react(request.id, request.emoji, on=request.on),
            "chats": lambda _: list(self.log.chats().items()),
            "ping": lambda _: "pong",
            "say": lambda request: self._deliver_new(self.log.say(request)).id,
            "press": lambda request: self._deliver_new(self.log.press(request)).id,
            "look": lambda request: self.shown(request.chat),
        }

    async def listen(self, path: Path) -> None:
        """Listen on a Unix socket; one left by a crash is replaced."""
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_LINE)
        path.chmod(0o600)

    async def close(self) -> None:
        """Disconnect everyone and close the journal; may be called again."""
        if self._server is not None:
            self._server.close()
        await self.drop()
        self._server = None
        self.log.close()

    async def drop(self) -> None:
        """Break all connections."""
        ending = [connection.ended.wait() for connection in self._connections]
        for connection in list(self._connections):
            connection.writer.transport.abort()
        await asyncio.gather(*ending)

    def say(self, chat: str, user: str, text: str = "", **more: Any) -> UserMessage:
        request = ServerRequest("say", chat=chat, user=user, text=text, **more)
        return self._deliver_new(self.log.say(request))

    def press(self, message_id: str, data: str, user: str) -> UserMessage:
        request = ServerRequest("press", id=message_id, data=data, user=user)
        return self._deliver_new(self.log.press(request))

    def _deliver_new(self, said: UserMessage) -> UserMessage:
        self._deliver(said.chat)
        return said

    def redeliver(self, message_id: str) -> None:
        self.log.redeliver(message_id)
        self._deliver(self.log.said[message_id].chat)

    def shown(self, chat: str = "") -> list[ShownMessage]:
        """Return the gateway's messages, oldest first, in their current form."""
        return [each for each in self.log.shown.values() if not chat or each.chat == chat]

    def trouble(self, kind: str, times: int = 1) -> None:
        """Make the next sends and edits fail, with a `Trouble` of the adapter contract suite."""
        self.troubles.extend([kind] * times)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Client(writer)
        self._connections.add(connection)
        try:
            # A broken or unreadable connection ends alone.
            with contextlib.suppress(OSError, ValueError, _ConnectionDropped):
                while data := await reader.readline():
                    await self._handle(connection, _requests.decode(data))
        finally:
            self._connections.discard(connection)
            connection.ended.set()
            for chat in connection.in_flight if self._shared else ():
                self._deliver(chat)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _handle(self, connection: _Client, request: ServerRequest) -> None:
        if request.op == "hello":
            await self._accept_client(connection, request)
        elif request.op in ("kept", "not_kept"):
            self._on_receipt(connection, request)
        elif request.op == "watch":
            connection.watching = True
            await send_frame(connection.writer, LocalReply(request.n))
        else:
            await send_frame(connection.writer, self._reply(connection, request))

    async def _accept_client(self, connection: _Client, hello: ServerRequest) -> None:
        if hello.role == "gateway":
            if self.refusing or not hmac.compare_digest(self.token.encode(), hello.token.encode()):
                await send_frame(connection.writer, LocalReply(hello.n, error="credentials"))
                raise _ConnectionDropped
            if not self._shared:
                await self._drain_old_gateway()
            connection.gateway = True
        await send_frame(connection.writer, LocalReply(hello.n))
        for chat in self.log.waiting if connection.gateway else ():
            self._deliver(chat)

    async def _drain_old_gateway(self) -> None:
        """Read what a killed gateway had sent before the next one asks about it."""
        for old in [each for each in self._connections if each.gateway]:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await old.ended.wait()
            old.gateway = False
            old.writer.close()

    def _on_receipt(self, connection: _Client, word: ServerRequest) -> None:
        said = self.log.said.get(word.id)
        if said is None:
            return
        if word.op == "kept":
            if self.log.mark_stored(word.id) or not self._shared:
                for each in self._connections:
                    each.in_flight.discard(said.chat)
            self._deliver(said.chat)
        else:
            asyncio.get_running_loop().call_later(
                REDELIVERY_SECONDS, self._retry, connection, said.chat
            )

    def _retry(self, connection: _Client, chat: str) -> None:
        connection.in_flight.discard(chat)
        self._deliver(chat)

    def _deliver(self, chat: str) -> None:
        queue = self.log.waiting.get(chat)
        gateways = [each for each in self._connections if each.gateway]
        if self._shared == "one" and gateways:
            busy = any(chat in each.in_flight for each in gateways)
            gateways = [] if busy else [min(gateways, key=lambda each: each.messages)]
        for connection in gateways:
            if queue and chat not in connection.in_flight:
                connection.in_flight.add(chat)
                connection.messages += 1
                connection.send(queue[0])

    def _reply(self, connection: _Client, request: ServerRequest) -> LocalReply:
        if request.op in _OF_GATEWAYS and (not connection.gateway or self.refusing):
            return LocalReply(request.n, error="credentials")
        trouble = ""
        if request.op in ("send", "edit") and self.troubles:
            trouble = self.troubles.pop(0)
        if trouble == "cut_before":
            raise _ConnectionDropped
        if trouble not in {"", "cut_after"}:
            return LocalReply(request.n, error=trouble, seconds=0.05)
        try:
            value = self._handlers[request.op](request)
        except KeyError:
            return LocalReply(request.n, error="unknown")
        except ValueError as error:
            return LocalReply(request.n, error=str(error))
        if trouble == "cut_after":
            raise _ConnectionDropped
        return LocalReply(request.n, value)

    def _send(self, request: ServerRequest) -> str:
        if not request.text.strip() and not request.media:
            raise ValueError("empty")
        return self._announce(None, self.log.show(request)).id

    def _edit(self, request: ServerRequest) -> str:
        before = self.log.shown[request.id]
        return self._announce(before, self.log.edit(request.id, request.text)).id

    def _announce(self, before: ShownMessage | None, shown: ShownMessage) -> ShownMessage:
        if shown == before:
            return shown
        for connection in self._connections:
            if connection.watching:
                connection.send(shown)
        return shown


async def _run(arguments: argparse.Namespace) -> None:
    platform = LocalServer(ChatLog(arguments.journal), token=arguments.token)
    ending = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    await platform.listen(arguments.socket)
    await ending.wait()
    await platform.close()


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A chat platform on this machine.")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument("--journal", type=Path, help="where everything is written down")
    parser.add_argument("--token", default="", help="what a gateway must know")
    asyncio.run(_run(parser.parse_args(words)))


if __name__ == "__main__":
    main()
