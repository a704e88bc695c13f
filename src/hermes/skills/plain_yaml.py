"""The YAML in which most heads are written, read by lines: many times as quick as all of YAML.

What is understood here means the same there. Anything else, such as text over several lines,
comments, escapes or numbers in odd forms, is left to a parser of the whole language.
"""

import re
from collections.abc import Callable
from typing import Any

DEEPEST = 20
"""Spaces before a line."""

_LINES = re.compile(r"^( *)(- |)(?:([A-Za-z_][A-Za-z0-9_-]{0,60}):(?: +|$))?(.*)$", re.MULTILINE)
"""Spaces, the dash of a list, the key of a field, and what follows."""
_QUOTED = r'"[^"\\,]*"|\'[^\',]*\''
_ENTRY = rf"(?:[A-Za-z][\w+/.-]*(?: [\w+/.-]+)*|{_QUOTED})"
_VALUES: tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...] = (
    (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+"), str),
    (re.compile(rf"\[{_ENTRY}(?:, *{_ENTRY})*\]"), lambda text: _entries(text)),
    (re.compile(r'"[^"\\]*"|\'[^\']*\''), lambda text: text[1:-1]),
    (re.compile(r"[0-9]+\.[0-9]+"), float),
    (re.compile(r"0|[1-9][0-9]{0,8}"), int),
    (re.compile(r"\[ *\]"), lambda _: []),
)
_NO_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null"})
"""Words with a meaning of their own, in any letter case."""


class _More(Exception):
    """It takes more than is understood here."""


def read_plain(text: str) -> dict[str, Any] | None:
    """The fields in `text`; None when only a whole parser can tell."""
    if "#" in text or not text.replace("\n", "").isprintable():
        return None
    lines = _Lines([row for row in _LINES.findall(text) if any(row[1:])])
    try:
        fields = lines.table(0)
    except _More:
        return None
    return fields if fields and lines.at == len(lines.rows) else None


class _Lines:
    """Rows as `_LINES` finds them; those before `at` are read. A table or list ends at the first
    row that does not belong to it; where that belongs to nothing at all, not all are read."""

    def __init__(self, rows: list[tuple[str, str, str, str]]) -> None:
        self.rows, self.at = rows, 0

    def table(self, depth: int) -> dict[str, Any]:
        """Fields that stand `depth` spaces to the right."""
        if depth > DEEPEST:
            raise _More
        fields: dict[str, Any] = {}
        while self.at < len(self.rows):
            spaces, dash, key, value = self.rows[self.at]
            if len(spaces) != depth or dash:
                break
            if not key or key.lower() in _NO_TEXT:
                raise _More
            self.at += 1
            fields[key] = _value(value) if value else self._below(depth)
        return fields

    def _below(self, depth: int) -> Any:
        """What belongs to a key at `depth` with nothing beside it."""
        spaces, dash, _, _ = self.rows[self.at] if self.at < len(self.rows) else ("", "", "", "")
        if dash and len(spaces) >= depth:
            return self._list(len(spaces))
        return self.table(len(spaces)) if len(spaces) > depth else None

    def _list(self, depth: int) -> list[Any]:
        entries: list[Any] = []
        while self.at < len(self.rows):
            spaces, dash, key, value = self.rows[self.at]
            if len(spaces) != depth or not dash:
                break
            if key:
                # As if the dash were spaces: the other fields of the entry stand below this one.
                self.rows[self.at] = (f"{spaces}  ", "", key, value)
                entries.append(self.table(depth + 2))
            else:
                self.at += 1
                entries.append(_value(value))
        return entries


def _value(written: str) -> Any:
    text = written.rstrip(" ")
    if text[:1].isalpha() and ": " not in text and text[-1] != ":":
        return _text(text)
    for form, meaning in _VALUES:
        if form.fullmatch(text):
            return meaning(text)
    raise _More


def _entries(written: str) -> list[str]:
    entries = map(str.strip, written[1:-1].split(","))
    return [each[1:-1] if each[0] in "\"'" else _text(each) for each in entries]


def _text(word: str) -> str:
    if word.lower() in _NO_TEXT:
        raise _More
    return word
