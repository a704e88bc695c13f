"""Finished lines as a part of the area, without the machinery of an editor."""

from collections.abc import Callable
from functools import lru_cache

from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.layout.containers import Container
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from wcwidth import iter_graphemes, wcswidth

Cell = tuple[str, str, int]
"""A sign, its style, and the columns it takes."""


class LineBox(Container):
    """Shows what `lines` gives, a row each, cut at the right edge; nothing hides it."""

    def __init__(self, lines: Callable[[], list[str]], most: int, frame: Callable[[], int]) -> None:
        """`frame` is another number for each painting: within one, the lines are asked for once."""
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
            for sign, style, columns in _cells(line):
                if x + columns > right:
                    break
                cells[x] = Char(sign, style)
                for beside in range(x + 1, x + columns):
                    cells[beside] = Char("", style)
                x += columns

    def get_children(self) -> list[Container]:
        return []


@lru_cache(maxsize=256)
def _cells(line: str) -> tuple[Cell, ...]:
    found: list[Cell] = []
    for style, text, *_ in to_formatted_text(ANSI(line)):
        for sign in text if text.isascii() else iter_graphemes(text):
            columns = 1 if sign.isascii() else max(0, wcswidth(sign))
            if columns:
                found.append((sign, style, columns))
    return tuple(found)
