"""The input: several lines, as high as they need up to a third of the screen."""

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.widgets import TextArea

from hermes.tui.cells import TAB, cut, width
from hermes.tui.entry.completing import EntryCompleter
from hermes.tui.entry.history import EntryHistory
from hermes.tui.entry.searching import HistorySearch
from hermes.tui.entry.showing import Plain
from hermes.tui.entry.steps import Steps
from hermes.tui.entry.suggesting import FromHistory
from hermes.tui.looks import Looks

SHARE = 3
"""The input takes at most one row of so many."""


def make_input(
    looks: Looks,
    completer: EntryCompleter,
    history: EntryHistory,
    search: HistorySearch,
    steps: Steps,
) -> TextArea:
    """The prompt follows the skin that is worn."""

    def margin() -> int:
        return width(looks.skin.branding.prompt_symbol) + 1

    def before_row(line: int, wrapped: int) -> AnyFormattedText:
        if line or wrapped:
            return " " * margin()
        if search.active:
            half = get_app().output.get_size().columns // 2
            return ANSI(looks.paint("accent", f"{cut(search.prompt, half)} "))
        return ANSI(looks.paint("prompt", f"{looks.skin.branding.prompt_symbol} "))

    area = TextArea(
        multiline=True,
        wrap_lines=True,
        dont_extend_height=True,
        height=lambda: Dimension(min=1, max=max(1, get_app().output.get_size().rows // SHARE)),
        get_line_prefix=before_row,
        completer=completer,
        complete_while_typing=Condition(lambda: completer.wants(area.document)),
        auto_suggest=FromHistory(history),
        history=history,
        input_processors=[Plain(margin), TabsProcessor(tabstop=TAB, char1=" ", char2=" ")],
    )
    completer.answers.news = lambda: _offer_again(area.buffer, completer)
    _keep_outside(area.buffer, steps)
    return area


def _offer_again(buffer: Buffer, completer: EntryCompleter) -> None:
    """A list came late: show it, unless the user has gone on."""
    state = buffer.complete_state
    chosen = state is not None and state.complete_index is not None
    if not chosen and get_app().current_buffer is buffer and completer.wants(buffer.document):
        buffer.complete_state = None
        buffer.start_completion()


def _keep_outside(buffer: Buffer, steps: Steps) -> None:
    """A cursor that is moved, by whatever key, does not stay inside of a sign or a placeholder."""
    last = buffer.cursor_position

    def changed(_: Buffer) -> None:
        nonlocal last
        last = buffer.cursor_position  # where a change put it is where it belongs

    def moved(_: Buffer) -> None:
        nonlocal last
        at, came_from = buffer.cursor_position, last
        last = at
        if at != came_from:
            buffer.cursor_position = steps.outside(buffer.text, at, came_from)

    buffer.on_text_changed += changed
    buffer.on_cursor_position_changed += moved
