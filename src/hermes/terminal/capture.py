"""Reading what a command prints, without ever waiting for it."""

import asyncio
import codecs
import os
from collections.abc import Callable

from hermes.terminal.output import HeadAndTail, OutputLimits

CHUNK = 65_536
LAST_READS = 16
"""Chunks read after the command ended: what a full pipe can hold, even if others still write."""
SHOW_EVERY = 0.1
"""Seconds between two pieces shown to the user."""
SHOW_MOST = 16_384
"""Bytes of a piece; a command that prints forever must not flood the screen."""


class Capture:
    """A pipe whose read end is watched by the event loop.

    The write end is `descriptor`, for the child. Made, used and closed in the event loop's thread.
    """

    def __init__(self, limits: OutputLimits, show: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._reading, self.descriptor = os.pipe()
        os.set_blocking(self._reading, False)
        self._kept = HeadAndTail(limits)
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._discarding = False
        self.closed = False

    def begin(self) -> None:
        """The child has its copy of the write end: start reading."""
        os.close(self.descriptor)
        self.descriptor = -1
        self._loop.add_reader(self._reading, self._read)

    def finish(self) -> tuple[str, bool]:
        """The kept text and whether it was cut, once the command has ended.

        Something left in the background may still hold the pipe. It is read on and thrown away,
        so that a server started with `&` does not die of a closed pipe.
        """
        for _ in range(LAST_READS):
            if self.closed or not self._read():
                break
        self._flush()
        self._discarding = True
        return self._kept.text()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._reading)
            os.close(self._reading)

    def _read(self) -> bool:
        """Take one chunk; False when there is none now."""
        try:
            data = os.read(self._reading, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._flush()
            self.close()
            return False
        if not self._discarding:
            self._kept.add(data)
            self._queue(data)
        return True

    def _queue(self, data: bytes) -> None:
        self._pending += data
        if len(self._pending) > 2 * SHOW_MOST:
            del self._pending[SHOW_MOST:-SHOW_MOST]
        if self._timer is None:
            self._timer = self._loop.call_later(SHOW_EVERY, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            text = self._decoder.decode(bytes(self._pending[-SHOW_MOST:]))
            self._pending.clear()
            if text:
                self._show(text)
