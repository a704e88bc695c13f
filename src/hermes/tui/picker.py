"""A list to choose from with the arrow keys, with a filter and a preview.

`pick` works in the conversation, where it takes the place of the input area until the user has
chosen, and in a command that has the terminal for itself.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any, Generic, NamedTuple, TextIO, TypeVar

import msgspec
from prompt_toolkit.application import get_app_or_none, get_app_session, in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import DynamicContainer, HSplit, Layout, VSplit
from prompt_toolkit.layout.containers import Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.widgets import TextArea

from hermes.core.errors import HermesError, Interrupted
from hermes.tui.area import Area, FrameOutput, LineBox
from hermes.tui.completion import Offer, OfferIndex
from hermes.tui.text import Paint, cut, one_line, terminal_depth, width, wrap
from hermes.util.text import terminal_text

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_ROWS = 14  #: Rows of the list, and of a preview next to it.
SIDE_COLUMNS = 90  #: Columns from which the preview is next to the list, not below it.
MIN_PREVIEW_ROWS = 3
SEARCH_SECONDS = 0.15  #: Pause in typing after which `search` is called.
KEY_SECONDS, ESCAPE_SECONDS = 0.2, 0.05
FLUSH_MARGIN = 0.02  #: Seconds after which the timer of the conversation has certainly ended.


class PickerItem(msgspec.Struct, Generic[T_co], frozen=True):
    label: str
    detail: str  #: Shown after the label; the filter searches it too.
    value: T_co


Preview = Callable[[T], str | Awaitable[str]]
"""Returns the text shown for a value. Lines with colours are cut at the edge, others wrapped."""
Search = Callable[[str], Awaitable[Sequence[PickerItem[T]]]]
"""Returns further items for the typed text, such as sessions that contain it."""


async def pick(
    title: str,
    items: Sequence[PickerItem[T]],
    *,
    preview: Preview[T] | None = None,
    search: Search[T] | None = None,
    selected: T | None = None,
    paint: Paint | None = None,
    stdout: TextIO | None = None,
) -> T | None:
    """Let the user choose an item and return its value; return None after Escape.

    `selected` is the value that is marked at first. `stdout` is the terminal of a command; in the
    conversation it is not needed. Ctrl-C returns None in the conversation, and raises
    `Interrupted` in a command.
    """
    outer = get_app_or_none()
    picker = Picker(title, items, preview, search, selected, paint or Paint(None, terminal_depth()))
    if isinstance(outer, Area):
        area = picker.area(outer.output, outer.input)
    else:
        area = picker.area(FrameOutput.on(stdout or sys.stdout), None)
    chosen: PickerItem[T] | None = None
    async with AsyncExitStack() as stack:
        if isinstance(outer, Area):
            # Keys that were pressed after the choice are for what the caller makes of it.
            stack.callback(asyncio.get_running_loop().call_soon, _pass_keys_on, outer)
            await stack.enter_async_context(in_terminal())
            # Its last timer would take an Escape that is meant for the list.
            await asyncio.sleep((outer.ttimeoutlen or 0.0) + FLUSH_MARGIN)
        try:
            chosen = await area.run_async(set_exception_handler=False)
        except (KeyboardInterrupt, EOFError):
            if not isinstance(outer, Area):
                raise Interrupted from None
        finally:
            picker.close()
    return None if chosen is None else chosen.value


def take_typed_ahead() -> str:
    """Return the text of the keys that were read after the choice from the last list of a command,
    and forget it."""
    return "".join(key.data for key in get_typeahead(get_app_session().input))


def _pass_keys_on(area: Area) -> None:
    area.key_processor.feed_multiple(get_typeahead(area.input))
    area.key_processor.process_keys()


def preview_columns(columns: int) -> int:
    """Return the columns of a preview in a terminal with `columns`."""
    return columns // 2 - 2 if columns >= SIDE_COLUMNS else columns - 1


class PickerLayout(NamedTuple):
    columns: int  #: Of the list, and of the preview.
    list_rows: int
    preview_rows: int = 0
    is_wide: bool = False  #: The preview is next to the list.


class Picker(Generic[T]):
    """The state of one list: what is typed, what it matches, and which item is marked."""

    def __init__(
        self,
        title: str,
        items: Sequence[PickerItem[T]],
        preview: Preview[T] | None,
        search: Search[T] | None,
        selected: T | None,
        paint: Paint,
    ) -> None:
        self._title, self._paint = title, paint
        self._items = list(items)
        self._preview, self._search = preview, search
        self._previews: dict[int, str] = {}  #: By the position in `_items`.
        self._tasks: set[asyncio.Task[None]] = set()
        self._found = list(range(len(self._items)))  #: Positions of the items that match.
        values = [item.value for item in self._items]
        self._at = values.index(selected) if selected is not None and selected in values else 0
        self.changed: Callable[[], object] = lambda: None  #: Called when the area must be drawn.

    @property
    def current(self) -> PickerItem[T] | None:
        return self._items[self._found[self._at]] if self._found else None

    # Changes by the user

    def filter(self, typed: str) -> None:
        """Show the items that match: those whose label does first, then those with all words."""
        self._find(typed)
        self._at = 0
        if self._search is not None:
            for task in self._tasks:
                if task.get_name() == "search":
                    task.cancel()
            if typed.strip():
                self._run(self._add_results(self._search, typed.strip()), "search")

    def _find(self, typed: str) -> None:
        typed = typed.strip()
        if not typed:
            self._found = list(range(len(self._items)))
            return
        offers = [Offer(item.label) for item in self._items]
        places = {id(offer): at for at, offer in enumerate(offers)}
        matches = OfferIndex(offers).find(typed, len(offers))
        named = [places[id(match.offer)] for match in matches]
        words, known = typed.lower().split(), set(named)
        for at, item in enumerate(self._items):
            text = f"{item.label} {item.detail}".lower()
            if at not in known and all(word in text for word in words):
                named.append(at)
        self._found = named

    async def _add_results(self, search: Search[T], typed: str) -> None:
        await asyncio.sleep(SEARCH_SECONDS)
        known = [item.value for item in self._items]
        found = await search(typed)
        self._items += [item for item in found if item.value not in known]
        wanted = [item.value for item in found]
        shown = set(self._found)
        self._found += [
            at for at, item in enumerate(self._items) if item.value in wanted and at not in shown
        ]
        self.changed()

    def move(self, by: int) -> None:
        """Mark another item; single steps go round at the ends."""
        last = len(self._found) - 1
        if abs(by) == 1 and last >= 0:
            self._at = (self._at + by) % (last + 1)
        else:
            self._at = max(0, min(last, self._at + by))

    # What is shown

    def list_lines(self, columns: int, rows: int) -> list[str]:
        """Return the rows around the marked item."""
        paint = self._paint
        if not self._found:
            return [paint("dim", cut("  nothing matches", columns))]
        start = max(0, min(self._at - rows // 2, len(self._found) - rows))
        shown = self._found[start : start + rows]
        widest = max(width(one_line(self._items[at].label, columns)) for at in shown)
        room = min(widest, columns - 2 if columns < 50 else (columns - 2) * 2 // 3)
        lines = []
        for number, at in enumerate(shown, start):
            item = self._items[at]
            label = one_line(item.label, room)
            label += " " * (room - width(label))
            detail = one_line(item.detail, max(0, columns - room - 4)) if item.detail else ""
            line = paint("strong", f"▸ {label}") if number == self._at else f"  {label}"
            lines.append(f"{line}  {paint('dim', detail)}" if detail else line)
        return lines

    def preview_lines(self, columns: int, rows: int) -> list[str]:
        """Return `rows` lines: the beginning of the preview of the marked item. Load it if needed.

        There are always as many, so that the area does not jump from item to item.
        """
        if self._preview is None or not self._found or not rows:
            return [""] * rows
        at = self._found[self._at]
        if at not in self._previews:
            self._load_preview(self._preview, at)
        text = terminal_text(self._previews[at].expandtabs(4).strip("\n"))
        lines: list[str] = []
        for line in text.split("\n")[: rows + 1]:
            lines += [line] if "\x1b" in line else wrap(line, columns)
        if len(lines) > rows:
            return [*lines[: rows - 1], self._paint("dim", "…")]
        return lines + [""] * (rows - len(lines))

    def _load_preview(self, preview: Preview[T], at: int) -> None:
        try:
            text = preview(self._items[at].value)
        except HermesError as error:
            text = str(error)
        if isinstance(text, str):
            self._previews[at] = text
            return
        self._previews[at] = ""
        awaited = text

        async def load() -> None:
            try:
                self._previews[at] = await awaited
            except HermesError as error:
                self._previews[at] = str(error)
            self.changed()

        self._run(load(), "preview")

    def _run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    def title_line(self, columns: int) -> str:
        count = f"{len(self._found)} of {len(self._items)}"
        title = one_line(self._title, columns - len(count) - 2)
        return f"{self._paint('accent', title)}  {self._paint('dim', count)}"

    def hint_line(self, columns: int) -> str:
        texts = ("↑ ↓ PageUp PageDown · type to filter · Enter chooses · Esc cancels",
                 "↑ ↓ · type to filter · Enter · Esc")  # fmt: skip
        fitting = next((text for text in texts if width(text) <= columns), texts[-1])
        return self._paint("dim", cut(fitting, columns))

    # The area

    def layout(self, size: Size) -> PickerLayout:
        room = max(1, size.rows - 4)  # without the title, filter and hint
        if self._preview is None:
            return PickerLayout(size.columns - 1, min(MAX_ROWS, room))
        if size.columns >= SIDE_COLUMNS:
            rows = min(MAX_ROWS, room)
            return PickerLayout(preview_columns(size.columns), rows, rows, is_wide=True)
        rows = min(MAX_ROWS, room // 2) if room >= 3 * MIN_PREVIEW_ROWS else min(MAX_ROWS, room)
        below = min(8, room - rows - 1)
        return PickerLayout(size.columns - 1, rows, below if below >= MIN_PREVIEW_ROWS else 0)

    def area(self, output: FrameOutput, terminal: Any) -> Area:
        """Return the application; its result is the chosen item, or None."""
        field = TextArea(
            multiline=False, height=1, prompt=lambda: ANSI(self._paint("prompt", "› "))
        )

        def box(lines: Callable[[PickerLayout], list[str]]) -> LineBox:
            """Return a box for lines that depend on the size of the terminal."""
            return LineBox(
                lambda: lines(self.layout(output.get_size())), 10_000, lambda: area.frames
            )

        items = box(lambda room: self.list_lines(room.columns, room.list_rows))
        shown = box(lambda room: self.preview_lines(room.columns, room.preview_rows))
        rule = box(lambda room: ["─" * room.columns] if room.preview_rows else [])
        bar = Window(width=1, char="│", style="fg:ansibrightblack")
        wide, narrow = VSplit([items, bar, Window(width=1), shown]), HSplit([items, rule, shown])
        hint = FormattedTextControl(lambda: ANSI(self.hint_line(output.get_size().columns - 1)))
        body = HSplit([
            box(lambda _room: [self.title_line(output.get_size().columns - 1)]),
            field,
            DynamicContainer(lambda: wide if self.layout(output.get_size()).is_wide else narrow),
            Window(hint, height=1),
        ])  # fmt: skip
        area = Area(
            output=output,
            input=terminal,
            layout=Layout(body, field),
            key_bindings=self._keys(lambda: self.layout(output.get_size()).list_rows),
            mouse_support=False,
        )
        area.timeoutlen, area.ttimeoutlen = KEY_SECONDS, ESCAPE_SECONDS
        self.changed = area.invalidate
        field.buffer.on_text_changed += lambda buffer: self.filter(buffer.text)
        return area

    def _keys(self, page: Callable[[], int]) -> KeyBindings:
        keys = KeyBindings()
        for names, by in (
            (("up", "c-p", "s-tab"), lambda: -1),
            (("down", "c-n", "tab"), lambda: 1),
            (("pageup",), lambda: -page()),
            (("pagedown",), page),
            (("home",), lambda: -len(self._items)),
            (("end",), lambda: len(self._items)),
        ):
            for name in names:
                keys.add(name, eager=True)(lambda _event, by=by: self.move(by()))

        @keys.add("enter", eager=True)
        def _choose(event: KeyPressEvent) -> None:
            if self.current is not None:
                event.app.exit(result=self.current)

        keys.add("escape")(lambda event: event.app.exit(result=None))
        keys.add("c-g", eager=True)(lambda event: event.app.exit(result=None))
        keys.add("c-c", eager=True)(lambda event: event.app.exit(exception=KeyboardInterrupt))
        keys.add("c-d", eager=True)(lambda event: event.app.exit(exception=EOFError))
        return keys
