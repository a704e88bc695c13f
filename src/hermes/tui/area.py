"""The repainted area at the bottom of the terminal.

Finished output is printed above it, once. From then on it belongs to the terminal: it scrolls, can
be searched and copied, and is never drawn again.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.layout.containers import Container
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from wcwidth import iter_graphemes, wcswidth

from hermes.config.environment import variable
from hermes.tui.text import Depth, terminal_depth
from hermes.util.text import terminal_text

BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised update: terminals that support it show nothing until the end; others ignore it."""
COLOR_DEPTHS = {
    Depth.NONE: ColorDepth.DEPTH_1_BIT,
    Depth.NAMED: ColorDepth.DEPTH_4_BIT,
    Depth.INDEXED: ColorDepth.DEPTH_8_BIT,
    Depth.TRUE: ColorDepth.DEPTH_24_BIT,
}


class FrameOutput(Vt100_Output):
    """Holds back output that is flushed inside a frame until the frame ends."""

    _held = 0

    @classmethod
    def on(cls, stdout: TextIO) -> "FrameOutput":
        # Text passes `print_above` and the layout; the sequences of the screen go to the terminal.
        terminal = getattr(stdout, "terminal", stdout)
        output = cls.from_pty(terminal, default_color_depth=COLOR_DEPTHS[terminal_depth()])
        # Do not ask for the cursor position: the answer would arrive between keys, and some
        # terminals do not answer.
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
        self._buffer.insert(0, BEGIN_FRAME)
        self._buffer.append(END_FRAME)
        try:
            super().flush()
        except OSError:  # the terminal was closed; `TerminalUI` notices that and ends the program
            self._buffer.clear()


SETTLE_SECONDS = 0.05
"""Seconds after which the terminal has drawn the output at the size it was written for."""
_REFLOWING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID",
    "KONSOLE_VERSION", "WT_SESSION", "ITERM_SESSION_ID", "GHOSTTY_RESOURCES_DIR")  # fmt: skip


def terminal_reflows() -> bool:
    """Return whether the terminal rewraps long lines when it becomes narrower.

    This is a guess from environment variables.
    """
    term = variable("TERM") or ""
    return term.startswith(("tmux", "foot", "alacritty", "xterm-kitty", "xterm-ghostty")) or any(
        map(variable, _REFLOWING)
    )


class Area(Application[Any]):
    """An application below the output, which shrinks when it can and handles resizing."""

    output: FrameOutput

    def __init__(self, *, output: FrameOutput, **more: Any) -> None:
        super().__init__(
            output=output,
            full_screen=False,
            erase_when_done=True,
            # SIGWINCH is enough. Polling would paint again what has just been painted.
            terminal_size_polling_interval=None,
            **more,
        )
        self._reflows = terminal_reflows()
        self._drawn_at = 0.0
        self._unprinted: list[str] = []
        """Output that waits while another program, such as an editor, uses the terminal."""
        self.frames = 0  #: Number of times the area was painted.

    def print_above(self, text: str) -> None:
        """Print finished lines. `text` ends with a line end. Escape sequences other than colours
        are shown, not obeyed."""
        text = terminal_text(text)
        with self.output.frame():
            if self.is_running:
                self._unprinted.append(text)
                self._redraw()
            else:
                self.output.write_raw(text)

    def repaint(self) -> None:
        """Paint everything again, whatever is on the screen."""
        self.renderer.reset()
        self.draw()

    def draw(self) -> None:
        """Paint the area if it is shown."""
        if self.is_running:
            self._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        self.frames += 1
        with self.output.frame():
            screen = self.renderer.last_rendered_screen
            if self._unprinted and not self._running_in_terminal:
                self._take_away()
                self.output.write_raw("".join(self._unprinted))
                self._unprinted.clear()
            elif screen is not None and not render_as_done:
                # prompt_toolkit never gives rows back, and draws over what another size left.
                size = self.output.get_size()
                wanted = self.layout.container.preferred_height(size.columns, size.rows)
                is_resized = size != self.renderer._last_size  # noqa: SLF001 - see above
                if is_resized or min(wanted.preferred, size.rows) < screen.height:
                    self._take_away()
            super()._redraw(render_as_done)
            self._drawn_at = time.monotonic()

    def _on_resize(self) -> None:
        with self.output.frame():
            self._take_away()
            self._redraw()

    def _take_away(self) -> None:
        """Clear the rows of the area and move the cursor to its first row.

        Row by row: tmux keeps a copy of a screen that is cleared from its first cell on.
        """
        renderer, output = self.renderer, self.output
        screen = renderer.last_rendered_screen
        cursor = renderer._cursor_pos  # noqa: SLF001 - prompt_toolkit shows it nowhere else
        if screen is not None:
            above, rows = self._rows_now(screen, cursor)
            output.write_raw("\r")
            output.cursor_up(above)
            output.write_raw("\x1b[2K" + "\x1b[B\x1b[2K" * (rows - 1))
            output.cursor_up(rows - 1)
        output.reset_attributes()
        output.enable_autowrap()
        renderer.reset(leave_alternate_screen=False)

    def _rows_now(self, screen: Screen, cursor: Point) -> tuple[int, int]:
        """Return the rows above the cursor and all rows, as they are after a resize."""
        drawn: Size | None = self.renderer._last_size  # noqa: SLF001 - what the rows were made for
        columns = self.output.get_size().columns
        # Output written just before may have been drawn at the new size, cut instead of rewrapped.
        # Assuming that leaves a line behind in the worst case; the opposite would lose one.
        settled = time.monotonic() - self._drawn_at > SETTLE_SECONDS
        if drawn is None or drawn.columns <= columns or not self._reflows or not settled:
            return cursor.y, screen.height
        heights = []  # the rows that each row takes when it is rewrapped
        for cells in (screen.data_buffer[row] for row in range(screen.height)):
            ends = (at + cell.width for at, cell in cells.items() if cell.char != " ")
            heights.append(max(1, -(-max(ends, default=0) // columns)))
        return sum(heights[: cursor.y]) + cursor.x // columns, sum(heights)


Cell = tuple[str, str, int]  #: A character, its style, and its columns.


class LineBox(Container):
    """Shows the lines that `lines` returns, one row each, cut at the right edge.

    It avoids the cost of a prompt_toolkit window. An empty list hides it.
    """

    def __init__(self, lines: Callable[[], list[str]], most: int, frame: Callable[[], int]) -> None:
        """`frame` returns the frame number: `lines` is called once per frame."""
        self._lines, self._most, self._frame = lines, most, frame
        self._asked, self._shown = -1, list[str]()

    def _now(self) -> list[str]:
        frame = self._frame()
        if frame != self._asked:
            self._asked, self._shown = frame, self._lines()[-self._most :]
        return self._shown

    def reset(self) -> None:
        self._asked = -1

    def preferred_width(self, max_available_width: int) -> Dimension:  # noqa: ARG002 - any
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:  # noqa: ARG002 - as many as there are
        return Dimension.exact(len(self._now()))

    def write_to_screen(
        self,
        screen: Screen,
        mouse_handlers: MouseHandlers,  # noqa: ARG002 - nothing to click on
        write_position: WritePosition,
        parent_style: str,  # noqa: ARG002 - the lines have their own
        erase_bg: bool,  # noqa: ARG002 - the signature of the base class
        z_index: int | None,  # noqa: ARG002 - nothing is above
    ) -> None:
        right = write_position.xpos + write_position.width
        for row, line in enumerate(self._now()[: write_position.height]):
            cells, x = screen.data_buffer[write_position.ypos + row], write_position.xpos
            for sign, style, columns in _line_cells(line):
                if x + columns > right:
                    break
                cells[x] = Char(sign, style)
                for covered in range(x + 1, x + columns):
                    cells[covered] = Char("", style)
                x += columns

    def get_children(self) -> list[Container]:
        return []


@lru_cache(maxsize=256)
def _line_cells(line: str) -> tuple[Cell, ...]:
    found: list[Cell] = []
    for style, text, *_ in to_formatted_text(ANSI(line)):
        for sign in text if text.isascii() else iter_graphemes(text):
            columns = 1 if sign.isascii() else max(0, wcswidth(sign))
            if columns:
                found.append((sign, style, columns))
    return tuple(found)


class Printer:
    """Prints lines above the area at a limited frame rate, in the thread of the event loop.

    The first line of a burst does not wait.
    """

    def __init__(self, area: Area) -> None:
        self._area = area
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stale = False
        self._next = 0.0

    def lines(self, lines: Iterable[str]) -> None:
        self._lines += lines
        self.refresh()

    def refresh(self, *, at_once: bool = False) -> None:
        """Schedule a frame, because the area has changed."""
        self._stale = True
        if at_once:
            self.flush()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            wait = self._next - loop.time()
            if wait <= 0:
                self.flush()
            else:
                self._timer = loop.call_later(wait, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._next = asyncio.get_running_loop().time() + 0.03
        if self._lines:
            text = "".join(f"{line}\n" for line in self._lines)
            self._lines.clear()
            self._area.print_above(text)
        elif self._stale:
            self._area.draw()
        self._stale = False
