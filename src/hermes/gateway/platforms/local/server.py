"""The platform itself: it lives on while gateways come, go and crash.

    python -m hermes.gateway.platforms.local.server --socket PATH --journal PATH

What people say waits until a gateway has it. Each chat is delivered one message at a time, so its
order holds also when one is refused. Every message of the gateway is shown and written to the
journal, even twice if it is sent twice: whoever reads the journal sees what people saw.
"""

import argparse
import asyncio
import contextlib
import hmac
import itertools
import secrets
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec

from hermes.gateway.platforms.kit.contract import Button, ChatType, MediaKind

# What goes over the socket of a local platform: one JSON object a line, told apart by `op`.
#
# Whoever connects says `hello` first, as the gateway or as a person. A request with a number `n`
# gets
# an `answer` with the same number.

MAX_LINE = 16 * 1024 * 1024


class Attached(msgspec.Struct, frozen=True):
    """A file that a person sends: where it is on this machine."""

    kind: MediaKind
    path: str
    name: str = ""
    mime: str = ""


class Said(msgspec.Struct, frozen=True, tag_field="op", tag="said", omit_defaults=True):
    """A message of a person, or a button they pressed."""

    id: str
    chat: str
    user: str
    text: str = ""
    chat_type: ChatType = "dm"
    thread: str = ""
    reply_to: str = ""
    reply_text: str = ""
    reply_to_us: bool = False
    files: tuple[Attached, ...] = ()
    bot: bool = False
    button: str = ""
    at: float = 0.0


class Shown(msgspec.Struct, frozen=True, tag_field="op", tag="shown", omit_defaults=True):
    """A message of the gateway as people see it."""

    id: str
    chat: str
    text: str
    key: str = ""
    """What the gateway calls it. Twice the same key means that it was sent twice."""
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()
    edits: int = 0
    at: float = 0.0


class Edited(msgspec.Struct, frozen=True, tag_field="op", tag="edited"):
    id: str
    text: str


class Kept(msgspec.Struct, frozen=True, tag_field="op", tag="kept"):
    """The gateway has a message of a person; it does not come again."""

    id: str


class NotKept(msgspec.Struct, frozen=True, tag_field="op", tag="not_kept"):
    """The gateway could not keep it; it comes again."""

    id: str


class Hello(msgspec.Struct, frozen=True, tag_field="op", tag="hello"):
    n: int = 0
    role: Literal["gateway", "person"] = "person"
    token: str = ""


class Send(msgspec.Struct, frozen=True, tag_field="op", tag="send", omit_defaults=True):
    n: int
    chat: str
    text: str
    key: str
    thread: str = ""
    reply_to: str = ""
    media: tuple[str, ...] = ()
    buttons: tuple[Button, ...] = ()


class Edit(msgspec.Struct, frozen=True, tag_field="op", tag="edit"):
    n: int
    id: str
    text: str


class Find(msgspec.Struct, frozen=True, tag_field="op", tag="find"):
    """Was the message with this key shown? The answer's value is its id or null."""

    n: int
    key: str


class Typing(msgspec.Struct, frozen=True, tag_field="op", tag="typing"):
    n: int
    chat: str


class React(msgspec.Struct, frozen=True, tag_field="op", tag="react"):
    n: int
    id: str
    emoji: str
    on: bool = True


class Chats(msgspec.Struct, frozen=True, tag_field="op", tag="chats"):
    """The answer's value: a list of [chat, type]."""

    n: int


class Ping(msgspec.Struct, frozen=True, tag_field="op", tag="ping"):
    n: int


class Say(msgspec.Struct, frozen=True, tag_field="op", tag="say"):
    """A person writes. The answer's value is the id of the message."""

    chat: str
    user: str
    text: str = ""
    n: int = 0
    chat_type: ChatType = "dm"
    thread: str = ""
    reply_to: str = ""
    files: tuple[Attached, ...] = ()
    bot: bool = False


class Press(msgspec.Struct, frozen=True, tag_field="op", tag="press"):
    """A person presses a button of a message."""

    id: str
    data: str
    user: str
    n: int = 0


class Look(msgspec.Struct, frozen=True, tag_field="op", tag="look"):
    """The answer's value: the messages of the gateway in a chat, or in all."""

    n: int = 0
    chat: str = ""


class Watch(msgspec.Struct, frozen=True, tag_field="op", tag="watch"):
    """From now on every message that is shown or edited comes over this connection."""

    n: int = 0


class Answer(msgspec.Struct, frozen=True, tag_field="op", tag="answer", omit_defaults=True):
    n: int
    value: Any = None
    error: str = ""
    seconds: float = 0.0


Request = (
    Hello
    | Kept
    | NotKept
    | Send
    | Edit
    | Find
    | Typing
    | React
    | Chats
    | Ping
    | Say
    | Press
    | Look
    | Watch
)
News = Answer | Said | Shown
Recorded = Said | Kept | Shown | Edited
"""A line of the journal."""

_encoder = msgspec.json.Encoder()


async def write(writer: asyncio.StreamWriter, frame: msgspec.Struct) -> None:
    writer.write(line(frame))
    await writer.drain()


def line(frame: msgspec.Struct) -> bytes:
    return _encoder.encode(frame) + b"\n"


# What was said and shown on a local platform, and the journal it is written to.


class Room:
    """All chats. With a journal, another process that opens it goes on where this one was."""

    def __init__(self, journal: Path | None = None) -> None:
        self.waiting: dict[str, deque[Said]] = {}
        """What the gateway does not have yet, by chat, oldest first."""
        self.said: dict[str, Said] = {}
        self.shown: dict[str, Shown] = {}
        self.reactions: dict[str, list[str]] = {}
        self.typed: dict[str, int] = {}
        self._numbers = itertools.count(1)
        # Without a journal nobody knows which names were given before.
        self._mark = "" if journal else f"{secrets.token_hex(4)}-"
        self._journal: BinaryIO | None = None
        if journal is not None:
            self._replay(journal)
            self._journal = journal.open("ab")

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def say(self, message: Say) -> Said:
        """A person writes; waits for the gateway."""
        answered = self.shown.get(message.reply_to) or self.said.get(message.reply_to)
        said = Said(
            id=f"in-{self._mark}{next(self._numbers)}",
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
        return self._wait(said)

    def press(self, press: Press) -> Said:
        """Raises KeyError when there is no such message, or it has no such button."""
        shown = self.shown[press.id]
        if press.data not in {button.data for button in shown.buttons}:
            raise KeyError(press.data)
        kinds = [said.chat_type for said in self.said.values() if said.chat == shown.chat]
        said = Said(
            id=f"in-{self._mark}{next(self._numbers)}",
            chat=shown.chat,
            user=press.user,
            chat_type=kinds[-1] if kinds else "dm",
            thread=shown.thread,
            reply_to=shown.id,
            button=press.data,
            at=time.time(),
        )
        return self._wait(said)

    def again(self, message_id: str) -> None:
        """As if the gateway had never said that it has it."""
        said = self.said[message_id]
        queue = self.waiting.setdefault(said.chat, deque())
        if said not in queue:
            queue.append(said)

    def kept(self, message_id: str) -> str:
        """The gateway has it; its chat, or "" when nobody waited for that."""
        said = self.said.get(message_id)
        queue = self.waiting.get(said.chat) if said else None
        if said is None or not queue or queue[0].id != message_id:
            return ""
        self._record(Kept(message_id))
        queue.popleft()
        return said.chat

    def show(self, message: Send) -> Shown:
        shown = Shown(
            id=f"out-{self._mark}{next(self._numbers)}",
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

    def edit(self, message_id: str, text: str) -> Shown:
        """Raises KeyError when there is no such message of ours."""
        before = self.shown[message_id]
        if before.text == text:
            return before
        self._record(Edited(message_id, text))
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
        """Chats and their types."""
        return {said.chat: said.chat_type for said in self.said.values()}

    def _wait(self, said: Said) -> Said:
        self._record(said)
        self._keep(said)
        return said

    def _keep(self, said: Said) -> None:
        self.said[said.id] = said
        self.waiting.setdefault(said.chat, deque()).append(said)

    def _edit(self, before: Shown, text: str) -> Shown:
        after = msgspec.structs.replace(before, text=text, edits=before.edits + 1)
        self.shown[after.id] = after
        return after

    def _record(self, entry: Recorded) -> None:
        if self._journal is not None:
            self._journal.write(line(entry))
            self._journal.flush()

    def _replay(self, journal: Path) -> None:
        count = 0
        for entry in records(journal):
            match entry:
                case Said():
                    self._keep(entry)
                case Kept(id=message_id):
                    self.kept(message_id)
                case Shown():
                    self.shown[entry.id] = entry
                case Edited(id=message_id, text=text):
                    self._edit(self.shown[message_id], text)
            count += isinstance(entry, Said | Shown)
        self._numbers = itertools.count(count + 1)


def records(journal: Path) -> Iterator[Recorded]:
    """What a journal says, oldest first. A last line that was cut off by a crash is left out."""
    if not journal.exists():
        return
    decoder = msgspec.json.Decoder(Recorded)
    with journal.open("rb") as file:
        for entry in file:
            if entry.endswith(b"\n"):
                yield decoder.decode(entry)


AGAIN_AFTER = 0.05
"""Seconds until a message that was refused is delivered again."""
LAST_WORDS = 1.0
"""Seconds in which the previous gateway's requests are still read before a new one is welcome."""
_requests = msgspec.json.Decoder(Request)


class Cut(Exception):
    """The connection breaks here, on purpose."""


class Connection:
    """Somebody who is connected."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.gateway = False
        self.watching = False
        self.ended = asyncio.Event()
        self.in_flight: set[str] = set()
        """Chats with a message that the gateway has not answered for."""

    def tell(self, frame: Said | Shown | Answer) -> None:
        if not self.writer.is_closing():
            self.writer.write(line(frame))


class LocalPlatform:
    """Serves a `Room` to one gateway and any number of people."""

    def __init__(
        self,
        room: Room | None = None,
        *,
        token: str = "",
        shown: Callable[[Shown], None] = lambda _shown: None,
    ) -> None:
        self.room = room or Room()
        self._on_shown = shown
        self.token = token
        self.refusing = False
        """Nobody's token counts."""
        self.troubles: list[str] = []
        """What the next sends and edits run into; see `trouble`."""
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answers: dict[type, Callable[[Any], Any]] = {
            Send: self._send,
            Edit: lambda request: (
                self._news(self.room.shown[request.id], self.room.edit(request.id, request.text)).id
            ),
            Find: lambda request: self.room.find(request.key),
            Typing: lambda request: self.room.typing(request.chat),
            React: lambda request: self.room.react(request.id, request.emoji, on=request.on),
            Chats: lambda _: list(self.room.chats().items()),
            Ping: lambda _: "pong",
            Say: lambda request: self.say(request).id,
            Press: lambda request: self.press(request).id,
            Look: lambda request: self.shown(request.chat),
        }

    async def listen(self, path: Path) -> None:
        """Serve on a Unix socket; one that a crash left there is replaced."""
        path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_LINE)
        path.chmod(0o600)

    async def joined(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection within this process."""
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.open_connection(sock=theirs, limit=MAX_LINE)

    async def close(self) -> None:
        """Gone for everybody; may be called again."""
        if self._server is not None:
            self._server.close()
        await self.drop()
        self._server = None
        self.room.close()

    async def drop(self) -> None:
        """Break all connections."""
        ending = [connection.ended.wait() for connection in self._connections]
        for connection in list(self._connections):
            connection.writer.transport.abort()
        await asyncio.gather(*ending)

    # people

    def say(self, message: Say) -> Said:
        said = self.room.say(message)
        self._deliver(said.chat)
        return said

    def press(self, press: Press) -> Said:
        said = self.room.press(press)
        self._deliver(said.chat)
        return said

    def again(self, message_id: str) -> None:
        self.room.again(message_id)
        self._deliver(self.room.said[message_id].chat)

    def shown(self, chat: str = "") -> list[Shown]:
        """What the gateway wrote, oldest first, as it is now."""
        return [each for each in self.room.shown.values() if not chat or each.chat == chat]

    def trouble(self, kind: str, times: int = 1) -> None:
        """One of `Trouble` of the adapters' suite, for the next sends and edits."""
        self.troubles.extend([kind] * times)

    # the gateway

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(writer)
        self._connections.add(connection)
        try:
            # Broken, or it speaks another language: the connection ends, nothing else does.
            with contextlib.suppress(OSError, ValueError, Cut):
                while data := await reader.readline():
                    await self._take(connection, _requests.decode(data))
        finally:
            self._connections.discard(connection)
            connection.ended.set()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _take(self, connection: Connection, request: Any) -> None:
        if isinstance(request, Hello):
            await self._welcome(connection, request)
        elif isinstance(request, Kept | NotKept):
            self._heard(connection, request)
        elif isinstance(request, Watch):
            connection.watching = True
            await write(connection.writer, Answer(request.n))
        else:
            await write(connection.writer, self._answer(connection, request))

    async def _welcome(self, connection: Connection, hello: Hello) -> None:
        if hello.role == "gateway":
            if self.refusing or not hmac.compare_digest(self.token.encode(), hello.token.encode()):
                await write(connection.writer, Answer(hello.n, error="credentials"))
                raise Cut
            await self._last_words()
            connection.gateway = True
        await write(connection.writer, Answer(hello.n))
        for chat in self.room.waiting if connection.gateway else ():
            self._deliver(chat)

    async def _last_words(self) -> None:
        """What a gateway that was killed had sent is read before the next one asks about it."""
        for old in [each for each in self._connections if each.gateway]:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    await old.ended.wait()
            old.gateway = False
            old.writer.close()

    def _heard(self, connection: Connection, word: Kept | NotKept) -> None:
        said = self.room.said.get(word.id)
        if said is None:
            return
        if isinstance(word, Kept):
            self.room.kept(word.id)
            connection.in_flight.discard(said.chat)
            self._deliver(said.chat)
        else:
            asyncio.get_running_loop().call_later(AGAIN_AFTER, self._retry, connection, said.chat)

    def _retry(self, connection: Connection, chat: str) -> None:
        connection.in_flight.discard(chat)
        self._deliver(chat)

    def _deliver(self, chat: str) -> None:
        queue = self.room.waiting.get(chat)
        for connection in self._connections:
            if connection.gateway and queue and chat not in connection.in_flight:
                connection.in_flight.add(chat)
                connection.tell(queue[0])

    def _answer(self, connection: Connection, request: Any) -> Answer:
        ours = isinstance(request, Send | Edit | Find | Typing | React | Chats | Ping)
        if ours and (not connection.gateway or self.refusing):
            return Answer(request.n, error="credentials")
        trouble = ""
        if isinstance(request, Send | Edit) and self.troubles:
            trouble = self.troubles.pop(0)
        if trouble == "cut_before":
            raise Cut
        if trouble not in {"", "cut_after"}:
            return Answer(request.n, error=trouble, seconds=0.05)
        try:
            value = self._answers[type(request)](request)
        except KeyError:
            return Answer(request.n, error="unknown")
        except ValueError as error:
            return Answer(request.n, error=str(error))
        if trouble == "cut_after":
            raise Cut
        return Answer(request.n, value)

    def _send(self, request: Send) -> str:
        if not request.text.strip() and not request.media:
            raise ValueError("empty")
        return self._news(None, self.room.show(request)).id

    def _news(self, before: Shown | None, shown: Shown) -> Shown:
        if shown == before:
            return shown
        self._on_shown(shown)
        for connection in self._connections:
            if connection.watching:
                connection.tell(shown)
        return shown


async def _main(arguments: argparse.Namespace) -> None:
    platform = LocalPlatform(Room(arguments.journal), token=arguments.token)
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
    asyncio.run(_main(parser.parse_args(words)))


if __name__ == "__main__":
    main()
