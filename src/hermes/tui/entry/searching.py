"""Looking for something that was typed before (Ctrl-R), shown in the input itself."""

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from hermes.tui.cells import one_line
from hermes.tui.entry.history import EntryHistory

QUERY_COLUMNS = 20


class HistorySearch:
    """The input shows the entry that is found; whatever changes it otherwise ends the search."""

    def __init__(self, history: EntryHistory) -> None:
        self._history = history
        self._buffer: Buffer | None = None
        self._before = self._shown = Document()
        self._entries: list[tuple[str, str]] = []
        """In small letters and as they are, the newest first."""
        self._found: list[tuple[str, str]] = []
        self._at = 0
        self._query = ""

    @property
    def active(self) -> bool:
        buffer, shown = self._buffer, self._shown
        if buffer is None:
            return False
        if buffer.text != shown.text or buffer.cursor_position != shown.cursor_position:
            self._buffer = None
            return False
        return True

    @property
    def prompt(self) -> str:
        """Stands before the input meanwhile."""
        none = self._query and not self._found
        return f"{'no match' if none else 'search'}: {one_line(self._query, QUERY_COLUMNS)} ❯"

    def begin(self, buffer: Buffer) -> None:
        self._buffer, self._before, self._query = buffer, buffer.document, ""
        entries = dict.fromkeys(self._history.newest_first())
        self._entries = [(each.lower(), each) for each in entries]
        self._found = []
        self._show(self._before)

    def type(self, text: str) -> None:
        self._look_for(self._query + text)

    def shorten(self) -> None:
        self._look_for(self._query[:-1])

    def older(self) -> None:
        self._go(self._at + 1)

    def newer(self) -> None:
        self._go(self._at - 1)

    def take(self) -> None:
        """End with what was found in the input."""
        self._buffer = None

    def cancel(self) -> None:
        """End with what was there before."""
        if self.active:
            self._show(self._before)
        self._buffer = None

    def _look_for(self, query: str) -> None:
        self._query = query
        wanted = query.lower()
        self._found = [each for each in self._entries if wanted in each[0]] if query else []
        if self._found:
            self._go(0)
        elif not query:
            self._show(self._before)

    def _go(self, number: int) -> None:
        if 0 <= number < len(self._found):
            self._at = number
            lowered, entry = self._found[number]
            # Small letters may be more than there were (İ); then the position is near enough.
            self._show(Document(entry, min(lowered.find(self._query.lower()), len(entry))))

    def _show(self, document: Document) -> None:
        if self._buffer is not None:
            self._buffer.document = self._shown = document
