"""The part of the terminal that is painted again and again: below everything that is finished.

Finished output is printed above it, once, and belongs to the terminal from then on: it scrolls,
can be searched and copied, and is never drawn a second time.
"""

import time
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout.screen import Screen

from hermes.config.environment import variable
from hermes.tui.frame import FrameOutput

SETTLED = 0.05
"""Seconds after which what was written has surely been drawn at the size it was written for."""
_REFLOWING = ("TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "WEZTERM_PANE", "ALACRITTY_WINDOW_ID",
    "KONSOLE_VERSION", "WT_SESSION", "ITERM_SESSION_ID", "GHOSTTY_RESOURCES_DIR")  # fmt: skip


def terminal_reflows() -> bool:
    """Whether the terminal breaks long lines anew when it becomes narrower, as far as its
    variables tell."""
    term = variable("TERM") or ""
    return term.startswith(("tmux", "foot", "alacritty", "xterm-kitty", "xterm-ghostty")) or any(
        map(variable, _REFLOWING)
    )


class Area(Application[Any]):
    """An application that stays where the output ends, shrinks when it can, and survives being
    resized."""

    output: FrameOutput

    def __init__(self, *, output: FrameOutput, **more: Any) -> None:
        super().__init__(
            output=output,
            full_screen=False,
            erase_when_done=True,
            # The signal tells. To look as well paints again what has just been painted.
            terminal_size_polling_interval=None,
            **more,
        )
        self._reflows = terminal_reflows()
        self._drawn_at = 0.0
        self._unprinted: list[str] = []
        """Waits while another program, such as an editor, has the terminal."""
        self.frames = 0
        """How often it was painted."""

    def print_above(self, text: str) -> None:
        """Print lines for good. `text` is finished: it ends with a line end and holds nothing
        that steers the terminal but colours."""
        with self.output.frame():
            if self.is_running:
                self._unprinted.append(text)
                self._redraw()
            else:
                self.output.write_raw(text)

    def repaint(self) -> None:
        """Paint it anew, whatever is on the screen now."""
        self.renderer.reset()
        self.draw()

    def draw(self) -> None:
        """Paint the area as it is now, if it is there."""
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
            elif screen is not None and not render_as_done and self._must_begin_anew(screen):
                self._take_away()
            super()._redraw(render_as_done)
            self._drawn_at = time.monotonic()

    def _must_begin_anew(self, screen: Screen) -> bool:
        """prompt_toolkit never gives rows back, and draws over what another size left behind."""
        size = self.output.get_size()
        if size != self.renderer._last_size:  # noqa: SLF001 - see above
            return True
        wanted = self.layout.container.preferred_height(size.columns, size.rows).preferred
        return min(wanted, size.rows) < screen.height

    def _on_resize(self) -> None:
        with self.output.frame():
            self._take_away()
            self._redraw()

    def _take_away(self) -> None:
        """Clear the rows of the area and put the cursor where it began.

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
        """Rows above the cursor and rows in all, as they are after a change of the size."""
        drawn: Size | None = self.renderer._last_size  # noqa: SLF001 - what the rows were made for
        columns = self.output.get_size().columns
        # What was written just before may have been drawn at the new size, cut rather than broken.
        # To be careful then leaves a line behind; the other way loses one.
        settled = time.monotonic() - self._drawn_at > SETTLED
        if drawn is None or drawn.columns <= columns or not self._reflows or not settled:
            return cursor.y, screen.height
        heights = [_broken(screen, row, columns) for row in range(screen.height)]
        return sum(heights[: cursor.y]) + cursor.x // columns, sum(heights)


def _broken(screen: Screen, row: int, columns: int) -> int:
    """How many rows a row takes when it is broken at `columns`."""
    cells = screen.data_buffer[row]
    used = max((at + cell.width for at, cell in cells.items() if cell.char != " "), default=0)
    return max(1, -(-used // columns))
