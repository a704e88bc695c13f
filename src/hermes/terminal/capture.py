"""What a command prints: kept for the result, and shown to the user while it runs."""

import asyncio
import codecs
from collections.abc import Callable

from hermes.terminal.output import HeadAndTail, OutputLimits

SHOW_EVERY = 0.1
"""Seconds between two pieces shown to the user."""
SHOW_MOST = 16_384
"""Bytes of a piece; a command that prints forever must not flood the screen."""


class Capture:
    """Made and used in the event loop's thread."""

    def __init__(self, limits: OutputLimits, show: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept = HeadAndTail(limits)
        self._show = show
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        self._kept.add(data)
        self._pending += data
        if len(self._pending) > 2 * SHOW_MOST:
            del self._pending[SHOW_MOST:-SHOW_MOST]
        if self._timer is None:
            self._timer = self._loop.call_later(SHOW_EVERY, self._flush)

    def finish(self) -> tuple[str, bool]:
        """The kept text and whether it was cut; no more comes."""
        self._flush()
        return self._kept.text()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending:
            text = self._decoder.decode(bytes(self._pending[-SHOW_MOST:]))
            self._pending.clear()
            if text:
                self._show(text)
