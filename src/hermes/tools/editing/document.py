"""A text file as it is edited: with plain line feeds, while its own line ends and mark are kept."""

import codecs
import re
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from hermes.core.errors import ToolArgumentsInvalid

MARK = "\ufeff"
"""The byte order mark as a character."""

_MIXED = re.compile(r"\r\n")


class Edit(msgspec.Struct, frozen=True):
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


class Document:
    """The text of a file. Bytes that are not UTF-8 survive an edit as surrogate escapes."""

    def __init__(self, data: bytes) -> None:
        self.marked = data.startswith(codecs.BOM_UTF8)
        raw = data[len(codecs.BOM_UTF8) if self.marked else 0 :].decode("utf-8", "surrogateescape")
        self._raw = raw
        # Where in `text` a line feed stands that follows a carriage return in the file.
        self._returns = (
            [match.start() - number for number, match in enumerate(_MIXED.finditer(raw))]
            if "\r\n" in raw
            else []
        )
        self.text = raw.replace("\r\n", "\n") if self._returns else raw
        self.crlf = len(self._returns) * 2 > self.text.count("\n")
        """Most lines end with CRLF; new ones do too."""

    def edited(self, edits: Sequence[Edit]) -> bytes:
        """The file with the edits made, which must not overlap."""
        pieces: list[str] = []
        position = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            pieces.append(self._original(position, edit.start))
            pieces.append(edit.new.replace("\n", "\r\n") if self.crlf else edit.new)
            position = edit.end
        pieces.append(self._original(position, len(self.text)))
        return encoded("".join(pieces), marked=self.marked)

    def _original(self, start: int, end: int) -> str:
        return self._raw[self._place(start) : self._place(end)]

    def _place(self, position: int) -> int:
        """Where a position of `text` is in the file."""
        return position + bisect_left(self._returns, position)


def is_binary(data: bytes) -> bool:
    return b"\0" in data


def encoded(text: str, *, marked: bool) -> bytes:
    return (codecs.BOM_UTF8 if marked else b"") + text.encode("utf-8", "surrogateescape")


def from_model(text: str, name: str) -> str:
    """An argument as it is looked for: plain line feeds, no byte order mark, valid text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ToolArgumentsInvalid(f"{name} is not valid text: {error.reason}") from error
    return text.removeprefix(MARK).replace("\r\n", "\n")


def for_model(text: str) -> str:
    """Text of a file as a model may see it: odd bytes as U+FFFD, as `read_file` shows them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class TextLines:
    """The lines of a text, and edits of whole lines as edits of characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.ended = text.endswith("\n") or not text
        """The last line has a line end."""
        self.lines = text.split("\n")
        if self.ended:
            self.lines.pop()
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def number_at(self, position: int) -> int:
        """The number of the line, from 1, in which a position is."""
        return self.text.count("\n", 0, position) + 1

    def replaced(
        self, first: int, last: int, new: Sequence[str], *, ended: bool | None = None
    ) -> Edit:
        """Lines `first` to before `last` become `new`.

        `ended` says whether the file's last line, when it is part of this, has a line end
        afterwards; as before, when not given.
        """
        start = min(self._starts[first], len(self.text))
        if last < len(self.lines):
            return Edit(start, self._starts[last], "".join(f"{line}\n" for line in new))
        ended = self.ended if ended is None else ended
        body = "\n".join(new) + ("\n" if ended and new else "")
        if first == len(self.lines) and not self.ended and new:
            body = f"\n{body}"
        elif not new and 0 < first < last and not ended:
            start -= 1  # the line before becomes the last one, without an end
        return Edit(start, len(self.text), body)
