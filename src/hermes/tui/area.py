"""The repainted area at the bottom of the terminal.

Finished output is printed above it, once. From then on it belongs to the terminal: it scrolls, can
be searched and copied, and is never drawn again.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.formatted_text import ANSI, to_formatted_text
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.layout.containers import Container
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from wcwidth import iter_graphemes, wcswidth

from hermes.config.environment import variable
from hermes.tui.text import COLOUR, Depth, Rgb, terminal_depth, width
from hermes.util.text import terminal_text

BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised update: terminals that support it show nothing until the end; others ignore it."""
COLOR_DEPTHS = {
    Depth.NONE: ColorDepth.DEPTH_1_BIT,
    Depth.NAMED: ColorDepth.DEPTH_4_BIT,
    Depth.INDEXED: ColorDepth.DEPTH_8_BIT,
    Depth.TRUE: ColorDepth.DEPTH_24_BIT,
}


PLACEHOLDER = 0x3F000  #: The first of unassigned characters that are two columns wide.


class FrameOutput(Vt100_Output):
    """Holds back output that is flushed inside a frame until the frame ends."""

    _held = 0

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._clusters: dict[str, str] = {}  #: By placeholder.

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

    def placeholder(self, cluster: str) -> str:
        """Return a character of two columns that is written as `cluster`, such as joined emoji."""
        for placeholder, known in self._clusters.items():
            if known == cluster:
                return placeholder
        placeholder = chr(PLACEHOLDER + len(self._clusters) % 0xFFF)
        self._clusters[placeholder] = cluster
        return placeholder

    def write(self, data: str) -> None:
        cluster = self._clusters.get(data) if self._clusters else None
        if cluster is None:
            super().write(data)
        else:  # the cursor is then where it should be, whatever the terminal thinks of the width
            self.write_raw(f"\x1b7{cluster}\x1b8\x1b[2C")

    @contextmanager
    def frame(self) -> Iterator[None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self.flush()

    def checkpoint(self) -> Callable[[], None]:
        """Return a function that drops the output that was held back since now."""
        kept = len(self._buffer)

        def restore() -> None:
            del self._buffer[kept:]

        return restore

    def flush(self) -> None:
        if self._held or not self._buffer:
            return
        self._buffer.insert(0, BEGIN_FRAME)
        self._buffer.append(END_FRAME)
        try:
            super().flush()
        except OSError:  # the terminal was closed; `TerminalUI` notices that and ends the program
            self._buffer.clear()


QUIET_SECONDS = 0.3
"""Seconds after a resize in which streamed output waits and the area is small. More resizes often
follow, and terminals report them late, tmux after a quarter of a second: what is drawn in between
has another size than the program knows."""
MAX_QUIET_SECONDS = 3.0  #: Output waits so long at most while one resize follows another.
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


# The background of the terminal, to which colours are adapted.

ASK_BACKGROUND = "\x1b]11;?\x1b\\"
ANSWER_SECONDS = 2.0  #: Seconds in which the terminal may answer.
_ANSWER = re.compile(
    r"\x1b\]11;rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})[^\x07\x1b]*(?:\x07|\x1b\\)",
    re.I,
)
_ANSWER_START = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,40}\x1b?)?)?)?\Z")


def background_of_variable() -> Rgb | None:
    """Return the background that `COLORFGBG` names, as some terminals set it."""
    number = (variable("COLORFGBG") or "").rpartition(";")[2]
    if not number.isdecimal():
        return None
    return (255, 255, 255) if int(number) in (7, 15) else (0, 0, 0)


class BackgroundQuery:
    """Asks the terminal for its background, and takes the answer out of what is typed.

    Nothing waits for the answer; a terminal that does not answer changes nothing.
    """

    def __init__(self, area: "Area", on_answer: Callable[[Rgb], object]) -> None:
        self._area, self._on_answer = area, on_answer
        self._until = float("-inf")
        self._held = ""  #: The beginning of an answer.
        if isinstance(area.input, Vt100Input):
            parser = area.input.vt100_parser
            self._feed, parser.feed = parser.feed, self.feed  # type: ignore[method-assign]  # a filter
            area.after_render += self._ask

    def _ask(self, area: "Application[Any]") -> None:
        area.after_render -= self._ask  # the prompt is on the screen, and keys are read
        self._until = time.monotonic() + ANSWER_SECONDS
        self._area.output.write_raw(ASK_BACKGROUND)
        self._area.output.flush()

    def feed(self, data: str) -> None:
        if not self._held and time.monotonic() > self._until:
            self._feed(data)
            return
        data, self._held = self._held + data, ""
        if answer := _ANSWER.search(data):
            self._until = float("-inf")
            red, green, blue = (
                int(each, 16) * 255 // (16 ** len(each) - 1) for each in answer.groups()
            )
            self._on_answer((red, green, blue))
            data = data[: answer.start()] + data[answer.end() :]
        elif start := _ANSWER_START.search(data):
            self._held, data = data[start.start() :], data[: start.start()]
        if data:
            self._feed(data)


# Links (OSC 8), added to finished output as it is printed.

_LINKING = ("KITTY_WINDOW_ID", "WEZTERM_PANE", "KONSOLE_VERSION", "WT_SESSION", "ITERM_SESSION_ID",
    "GHOSTTY_RESOURCES_DIR", "ALACRITTY_WINDOW_ID")  # fmt: skip
_TARGET = re.compile(
    r"(?P<url>https?://[^\s\x1b<>\"'`|\\^{}\x7f-\U0010ffff]*[\w/#=&+~-])"
    r"|(?<![\w./~-])(?P<path>~?(?:[\w.@+-]*/)+[\w.@+-]*\w|[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9})(?![\w/…])"
)
MAX_LINKS = 200  #: In one piece of output; each path costs a look at the disk.


def terminal_links() -> bool:
    """Return whether the terminal is known to show links. tmux passes them on since 3.4."""
    if variable("TMUX"):
        version = re.match(r"(\d+)\.(\d+)", variable("TERM_PROGRAM_VERSION") or "")
        return version is not None and (int(version[1]), int(version[2])) >= (3, 4)
    vte = variable("VTE_VERSION") or ""
    is_vte = vte.isdecimal() and int(vte) >= 5000
    return is_vte or (variable("TERM") or "").startswith("foot") or any(map(variable, _LINKING))


def add_links(text: str, folder: Path, columns: int) -> str:
    """Return finished lines with links on URLs and on paths of existing files.

    A URL that reaches the right edge may go on in the next row, so it gets no link.
    """
    if "/" not in text and "." not in text:
        return text
    left = MAX_LINKS

    def link(line: str, found: re.Match[str]) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            return found[0]
        target = found["url"]
        if target:
            rest = COLOUR.sub("", line[found.end() :])
            if rest.startswith("…") or (not rest.strip() and width(line) >= columns - 1):
                return found[0]
        else:
            try:
                path = (folder / Path(found["path"]).expanduser()).absolute()
                if not path.exists():
                    return found[0]
                target = path.as_uri()
            except (OSError, ValueError, RuntimeError):
                return found[0]
        return f"\x1b]8;;{target}\x1b\\{found[0]}\x1b]8;;\x1b\\"

    return "\n".join(_TARGET.sub(partial(link, line), line) for line in text.split("\n"))


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
        self.resized_at = float("-inf")
        self._unprinted: list[str] = []
        """Output that waits while another program, such as an editor, uses the terminal."""
        self.link_folder: Path | None = None
        """The folder of relative paths, if output has links."""
        self._in_tmux = bool(variable("TMUX"))
        self._used: list[int] = []
        self.frames = 0  #: Number of times the area was painted.

    def print_above(self, text: str) -> None:
        """Print finished lines. `text` ends with a line end. Escape sequences other than colours
        are shown, not obeyed."""
        text = terminal_text(text)
        if self.link_folder is not None:
            text = add_links(text, self.link_folder, self.output.get_size().columns)
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
            # If the window is resized meanwhile, the frame is dropped; `_on_resize` draws another.
            renderer, size = self.renderer, self.output.get_size()
            state, used, unprinted = vars(renderer).copy(), self._used[:], self._unprinted[:]
            restore_output = self.output.checkpoint()
            self._draw_frame(size, render_as_done)
            if not render_as_done and self.output.get_size() != size:
                restore_output()
                vars(renderer).update(state)
                self._used, self._unprinted = used, unprinted

    def _draw_frame(self, size: Size, render_as_done: bool) -> None:
        screen = self.renderer.last_rendered_screen
        if self._unprinted and not self._running_in_terminal:
            self._take_away()
            self.output.write_raw("".join(self._unprinted))
            self._unprinted.clear()
        elif screen is not None and not render_as_done:
            # prompt_toolkit never gives rows back, and draws over what another size left.
            wanted = self.layout.container.preferred_height(size.columns, size.rows)
            is_resized = size != self.renderer._last_size  # noqa: SLF001 - see above
            if is_resized or min(wanted.preferred, size.rows) < screen.height:
                self._take_away()
        super()._redraw(render_as_done)
        screen = self.renderer.last_rendered_screen
        if self._reflows and screen is not None:
            self._measure(screen)

    def _on_resize(self) -> None:
        with self.output.frame():
            self._take_away()
            self.resized_at = time.monotonic()
            self._redraw()
        if self.loop is not None:
            self.loop.call_later(QUIET_SECONDS, self.draw)

    @property
    def is_resizing(self) -> bool:
        """True for a while after a resize. The area should then have only a few short rows."""
        return time.monotonic() - self.resized_at < QUIET_SECONDS

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
        self._used.clear()
        output.reset_attributes()
        output.enable_autowrap()
        renderer.reset(leave_alternate_screen=False)

    def _rows_now(self, screen: Screen, cursor: Point) -> tuple[int, int]:
        """Return the rows above the cursor and all rows, as they are after a resize."""
        drawn: Size | None = self.renderer._last_size  # noqa: SLF001 - what the rows were made for
        columns = self.output.get_size().columns
        # Output written between resizes may have been drawn at the new size, cut instead of
        # rewrapped. Assuming that leaves a line behind in the worst case; the opposite would lose
        # one.
        unsure = self.is_resizing or not self._reflows
        if drawn is None or drawn.columns <= columns or unsure:
            return cursor.y, screen.height
        # The rows that each row takes when it is rewrapped.
        heights = [max(1, -(-used // columns)) for used in self._used[: screen.height]]
        return sum(heights[: cursor.y]) + cursor.x // columns, sum(heights)

    def _measure(self, screen: Screen) -> None:
        """Remember how many columns of each row were used since the row was cleared.

        tmux also rewraps cells that were erased up to the end of their row.
        """
        used = []
        for cells in (screen.data_buffer[row] for row in range(screen.height)):
            last = max(cells, default=-1)
            while last >= 0 and cells[last].char == " ":
                last -= 1
            used.append(last + cells[last].width if last >= 0 else 0)
        if self._in_tmux:
            used = [max(pair) for pair in zip_longest(used, self._used, fillvalue=0)]
        self._used = used


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
        place = write_position
        # prompt_toolkit counts only the rows of its own windows.
        screen.height = max(screen.height, place.ypos + place.height)
        for row, line in enumerate(self._now()[: place.height]):
            cells = screen.data_buffer[place.ypos + row]
            cells.update(_line_cells(line, place.xpos, place.xpos + place.width))

    def get_children(self) -> list[Container]:
        return []


@lru_cache(maxsize=256)
def _line_cells(line: str, x: int, right: int) -> Mapping[int, Char]:
    """Return the cells of a line that begins at column `x`. Cells are never changed, so that most
    rows of a frame are those of the frame before."""
    found: dict[int, Char] = {}
    for style, text, *_ in to_formatted_text(ANSI(line)):
        for sign in text if text.isascii() else iter_graphemes(text):
            columns = 1 if sign.isascii() else max(0, wcswidth(sign))
            if x + columns > right:
                return found
            if columns:
                found[x] = Char(sign, style)
                found.update(dict.fromkeys(range(x + 1, x + columns), Char("", style)))
            x += columns
    return found


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
        self._waits_since: float | None = None  #: For the end of the resizes.

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
        if (wait := self._quiet_time()) > 0:
            self._timer = asyncio.get_running_loop().call_later(wait, self.flush)
            return
        self._next = asyncio.get_running_loop().time() + 0.03
        if self._lines:
            text = "".join(f"{line}\n" for line in self._lines)
            self._lines.clear()
            self._area.print_above(text)
        elif self._stale:
            self._area.draw()
        self._stale = False

    def _quiet_time(self) -> float:
        """Return the seconds for which output waits, because the window was just resized."""
        now = time.monotonic()
        wait = self._area.resized_at + QUIET_SECONDS - now
        if wait <= 0 or not self._area.is_running:
            self._waits_since = None
            return 0.0
        if self._waits_since is None:
            self._waits_since = now
        if now - self._waits_since > MAX_QUIET_SECONDS:
            self._waits_since = None
            return 0.0
        return wait
