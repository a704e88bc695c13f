"""The history of the input, its search (Ctrl-R) and suggestions.

Several processes write to the file at once. Its format is that of prompt_toolkit: `# time`, then
the lines of an entry with `+` before each.
"""

import asyncio
import fcntl
import logging
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from prompt_toolkit.auto_suggest import AutoSuggest, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from hermes.tui.text import one_line
from hermes.util.concurrency import in_thread
from hermes.util.files import write_bytes
from hermes.util.text import clean

MAX_ENTRIES = 10_000  #: Entries that the file keeps.
TRIM_SLACK = 500
"""Additional entries that are tolerated, so that not every start rewrites the file."""
MAX_READ_BYTES = 20_000_000  #: Bytes read from the end of the file.
BATCH = 500  #: Entries that are loaded before keys are handled again.

_log = logging.getLogger(__name__)
_ENTRY = re.compile(r"^(?:\+[^\n]*\n?)+", re.MULTILINE)


class InputHistory(History):
    """The history file. `redact` removes secrets from an entry before it is written.

    A file that cannot be read or written is logged; the input then has no history.
    """

    def __init__(self, file: Path, redact: Callable[[str], str] = str) -> None:
        super().__init__()
        self._file, self._redact = file, redact
        self._size: int | None = None  #: Size of the file before this process wrote to it.

    async def load(self) -> AsyncGenerator[str, None]:
        if not self._loaded:
            entries = await in_thread(self._read, self._size_before())
            if not self._loaded:
                self._loaded_strings += entries  # those of this process are newer
                self._loaded = True
        for number, entry in enumerate(tuple(self._loaded_strings), start=1):
            if number % BATCH == 0:
                await asyncio.sleep(0)
            yield entry

    def newest_first(self) -> Sequence[str]:
        return self._loaded_strings

    def load_history_strings(self) -> Iterable[str]:
        return self._read(self._size_before())

    def append_string(self, string: str) -> None:
        if string and self._loaded_strings[:1] != [string]:
            self._size_before()
            super().append_string(string)

    def store_string(self, string: str) -> None:
        try:
            lines = "".join(f"+{line}\n" for line in clean(self._redact(string)).split("\n"))
            self._append(f"\n# {datetime.now().astimezone():%Y-%m-%d %H:%M:%S}\n{lines}".encode())
        except OSError as error:
            _log.warning("the input history %s cannot be written: %s", self._file, error)

    def _size_before(self) -> int:
        if self._size is None:
            try:
                self._size = self._file.stat().st_size
            except OSError:
                self._size = 0
        return self._size

    def _append(self, data: bytes) -> None:
        """Append in one write, so that entries of several processes do not mix."""
        while True:
            with _open_private(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as descriptor:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                # Another process may have replaced the file by a trimmed one.
                if os.path.samestat(os.fstat(descriptor), self._file.stat()):
                    os.write(descriptor, data)
                    return

    def _read(self, size: int) -> list[str]:
        """Return the entries, the newest first."""
        if not size:
            return []
        try:
            entries: list[str] = []  # oldest first, without invalid lines and duplicates
            for written in _ENTRY.findall(clean(_read_tail(self._file, size))):
                entry = written.removesuffix("\n")[1:].replace("\n+", "\n")
                if entry and entries[-1:] != [entry]:
                    entries.append(entry)
            if len(entries) > MAX_ENTRIES + TRIM_SLACK or size > MAX_READ_BYTES:
                self._trim()
        except OSError as error:
            _log.warning("the input history %s cannot be read: %s", self._file, error)
            return []
        return entries[: -MAX_ENTRIES - 1 : -1]

    def _trim(self) -> None:
        with _open_private(self._file, os.O_RDONLY) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # another process uses it; the next start tries again
                return
            text = _read_tail(self._file, os.fstat(descriptor).st_size)
            starts = [found.start() for found in _ENTRY.finditer(text)]
            oldest = text.rfind("\n#", 0, starts[-MAX_ENTRIES]) if len(starts) > MAX_ENTRIES else 0
            write_bytes(self._file, text[max(0, oldest) :].encode(), mode=0o600)


@contextmanager
def _open_private(file: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(file, flags | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        yield descriptor
    finally:
        os.close(descriptor)


def _read_tail(file: Path, size: int) -> str:
    with file.open("rb") as opened:
        start = opened.seek(max(0, size - MAX_READ_BYTES))
        text = opened.read(size - start).decode("utf-8", "replace")
    return text if start == 0 else text.partition("\n# ")[2]


class HistorySearch:
    """Incremental search (Ctrl-R). The input shows the match; any other change ends the search."""

    def __init__(self, history: InputHistory) -> None:
        self._history = history
        self._buffer: Buffer | None = None
        self._before = self._shown = Document()
        self._entries: list[tuple[str, str]] = []
        """In lower case and as written, the newest first."""
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
        none = self._query and not self._found
        return f"{'no match' if none else 'search'}: {one_line(self._query, 20)} ❯"

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
        """End the search and keep the match."""
        self._buffer = None

    def cancel(self) -> None:
        """End the search and restore the input."""
        if self.active:
            self._show(self._before)
        self._buffer = None

    def _look_for(self, query: str) -> None:
        self._query, wanted = query, query.lower()
        self._found = [each for each in self._entries if wanted in each[0]] if query else []
        if self._found:
            self._go(0)
        elif not query:
            self._show(self._before)

    def _go(self, number: int) -> None:
        if 0 <= number < len(self._found):
            self._at = number
            lowered, entry = self._found[number]
            # Lower case may be longer (İ); then the position is only approximate.
            self._show(Document(entry, min(lowered.find(self._query.lower()), len(entry))))

    def _show(self, document: Document) -> None:
        if self._buffer is not None:
            self._buffer.document = self._shown = document


class HistorySuggest(AutoSuggest):
    """Suggests the rest of the newest entry that starts with the typed text; its first line."""

    def __init__(self, history: InputHistory) -> None:
        self._history = history

    def get_suggestion(self, _buffer: Buffer, document: Document) -> Suggestion | None:
        typed = document.text
        if len(typed.strip()) < 2 or "\n" in typed or not document.is_cursor_at_the_end:
            return None
        entries = self._history.newest_first()
        rests = (
            each[len(typed) :].partition("\n")[0] for each in entries if each.startswith(typed)
        )
        return next((Suggestion(rest) for rest in rests if rest), None)
