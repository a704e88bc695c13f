"""The platform itself: it lives on while gateways come, go and crash.

    python -m hermes.gateway.platforms.local.platform --socket PATH --journal PATH

What people say waits until a gateway has it. Each chat is delivered one message at a time, so its
order holds also when one is refused. Every message of the gateway is shown and written to the
journal, even twice if it is sent twice: whoever reads the journal sees what people saw.
"""

import argparse
import asyncio
import contextlib
import hmac
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.gateway.platforms.local.room import Room
from hermes.gateway.platforms.local.wire import (
    MAX_LINE,
    Answer,
    Chats,
    Edit,
    Find,
    Hello,
    Kept,
    Look,
    NotKept,
    Ping,
    Press,
    React,
    Request,
    Said,
    Say,
    Send,
    Shown,
    Typing,
    Watch,
    line,
    write,
)

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
