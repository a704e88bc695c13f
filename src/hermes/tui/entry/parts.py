"""Everything around typing, put together."""

from collections.abc import Callable
from pathlib import Path

import msgspec
from prompt_toolkit.widgets import TextArea

from hermes.tui.entry.completing import EntryCompleter
from hermes.tui.entry.history import EntryHistory
from hermes.tui.entry.images import Images
from hermes.tui.entry.input_area import make_input
from hermes.tui.entry.pastes import Pastes
from hermes.tui.entry.searching import HistorySearch
from hermes.tui.entry.steps import Steps
from hermes.tui.looks import Looks


class Entry(msgspec.Struct, frozen=True):
    area: TextArea
    completer: EntryCompleter
    search: HistorySearch
    steps: Steps
    pastes: Pastes
    images: Images
    send: Callable[[str], object]
    """Gets what was typed, with placeholders for pastes (see `Pastes.whole`); the pictures that go
    with it are in `images`."""
    tell: Callable[[str], object]
    """Shows a line to the user."""
    repaint: Callable[[], object]
    """Paints the area anew, whatever is on the screen."""


def make_entry(
    looks: Looks,
    completer: EntryCompleter,
    images: Images,
    *,
    history: Path,
    redact: Callable[[str], str],
    send: Callable[[str], object],
    tell: Callable[[str], object],
    repaint: Callable[[], object],
) -> Entry:
    """`history` is the file of what was typed before, and `redact` takes secrets out of what it
    gets."""
    pastes = Pastes()
    steps = Steps(pastes)
    entries = EntryHistory(history, lambda text: redact(pastes.remembered(text)))
    search = HistorySearch(entries)
    area = make_input(looks, completer, entries, search, steps)
    return Entry(area, completer, search, steps, pastes, images, send, tell, repaint)
