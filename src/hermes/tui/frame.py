"""Terminal output in frames: what belongs together reaches the terminal in one piece."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from hermes.tui.paint import Depth, terminal_depth

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised update: a terminal that knows it shows nothing until the end; others ignore it."""
DEPTHS = {
    Depth.NONE: ColorDepth.DEPTH_1_BIT,
    Depth.NAMED: ColorDepth.DEPTH_4_BIT,
    Depth.INDEXED: ColorDepth.DEPTH_8_BIT,
    Depth.TRUE: ColorDepth.DEPTH_24_BIT,
}
"""What prompt_toolkit calls them."""


class FrameOutput(Vt100_Output):
    """Holds back what is flushed inside a frame until its end."""

    _held = 0

    @classmethod
    def on(cls, stdout: TextIO) -> "FrameOutput":
        output = cls.from_pty(stdout, default_color_depth=DEPTHS[terminal_depth()])
        # The position of the cursor is not asked for: the answer would come between keys, and
        # some terminals have none.
        output.enable_cpr = False
        assert isinstance(output, cls)
        return output

    @contextmanager
    def frame(self) -> Iterator[None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self.flush()

    def flush(self) -> None:
        if self._held or not self._buffer:
            return
        self._buffer.insert(0, BEGIN)
        self._buffer.append(END)
        try:
            super().flush()
        except OSError:  # the terminal was closed; whoever watches it ends the program
            self._buffer.clear()
