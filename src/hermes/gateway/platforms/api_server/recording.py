"""A stream that is kept: who comes later hears it from the beginning."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hermes.gateway.platforms.api_server.exchange import to_the_end


class Recording:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self.complete = False
        self.size = 0

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)
        self._wake()

    def end(self) -> None:
        self.complete = True
        self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def play(self, start: int = 0) -> AsyncGenerator[bytes, None]:
        """The pieces from number `start` on, until the end."""
        while True:
            while start < len(self._pieces):
                yield self._pieces[start]
                start += 1
            if self.complete:
                return
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    async def take(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Record all of `pieces`."""
        try:
            async with aclosing(to_the_end(pieces)) as whole:
                async for piece in whole:
                    self.add(piece)
        finally:
            self.end()
