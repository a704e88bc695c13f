"""Ends of pipes and terminals that the event loop reads from and writes to without ever waiting."""

import asyncio
import os
from collections.abc import Callable

from hermes.core.errors import ToolError

CHUNK = 65_536
LAST_READS = 16
"""Chunks read after a program ended: what a full pipe can hold, even if others still write."""


class Reading:
    """Hands over what comes; made, used and closed in the event loop's thread."""

    def __init__(
        self, descriptor: int, on_data: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor, self._on_data, self._on_end = descriptor, on_data, on_end
        self._discarding = False
        self.ended = False
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._read)

    def drain(self) -> None:
        """Take what is there now."""
        for _ in range(LAST_READS):
            if self.ended or not self._read():
                break

    def discard(self) -> None:
        """Read on but throw away, so that nobody who still writes dies of a closed pipe."""
        self._discarding = True

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read(self) -> bool:
        """Take one chunk; False when there is none now."""
        try:
            data = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # a terminal that no program has open any more
            data = b""
        if not data:
            self.close()
            self._on_end()
        elif not self._discarding:
            self._on_data(data)
        return bool(data)


class Writing:
    """Writes in the order of the calls; `close` is the end of the other side's input."""

    def __init__(self, descriptor: int, *, terminal: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor, self._terminal = descriptor, terminal
        self._lock = asyncio.Lock()
        self._writable = asyncio.Event()
        self._closed = False
        os.set_blocking(descriptor, False)

    async def write(self, data: bytes) -> None:
        async with self._lock:
            while data:
                if self._closed:
                    raise ToolError("the program takes no more input")
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:
                    await self._room()
                except OSError as error:
                    self.close()
                    raise ToolError("the program takes no more input") from error

    async def end(self) -> None:
        """Tell the program that no more comes. A terminal stays open; it is told by Ctrl-D."""
        if self._terminal and not self._closed:
            await self.write(b"\x04")
        else:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._writable.set()

    async def _room(self) -> None:
        self._writable.clear()
        self._loop.add_writer(self._descriptor, self._writable.set)
        try:
            await self._writable.wait()
        finally:
            if not self._closed:
                self._loop.remove_writer(self._descriptor)
