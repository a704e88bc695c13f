"""The gateway's end of the connection to a local platform."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from hermes.gateway.platforms.base import NotConnected, SendUnsure
from hermes.gateway.platforms.kit.tasks import Tasks, ended
from hermes.gateway.platforms.local.wire import Answer, News, Said, line

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
        self._offers = Tasks()
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
        await ended(self._reading)
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
