"""A shelf with the whole skills behind it, in memory and on disk."""

import logging
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.skills.shelf import Shelf
from hermes.skills.skill import Skill
from hermes.util import atomic

FIRST_READ = 120_000
"""Bytes read at once: most shelves have no more, and for larger pieces the system has to find fresh
memory, which takes longer than reading."""

Row = tuple[tuple[int, int, int], Skill]
"""The stamp of its file, and the skill."""

_shelves = msgspec.json.Decoder(Shelf)

log = logging.getLogger(__name__)


class Snapshot:
    """`rows` gives a JSON list of a `Row` for each skill. Few processes ask for it."""

    def __init__(self, shelf: Shelf, rows: Callable[[], bytes]) -> None:
        self.shelf, self.rows = shelf, rows
        self._found: list[Row] | None = None

    def skill(self, number: int) -> Skill:
        """Raises `CacheGone`."""
        if self._found is not None:
            return self._found[number][1]
        row = msgspec.json.decode(self.rows(), type=list[msgspec.Raw])[number]
        found: Row = msgspec.json.decode(row, type=Row, dec_hook=_from_json)
        return found[1]

    def skills(self) -> tuple[Skill, ...]:
        """All, in the order of their numbers. Raises `CacheGone`."""
        return tuple(skill for _, skill in self.found())

    def found(self) -> list[Row]:
        """The same, with their stamps."""
        if self._found is None:
            self._found = msgspec.json.decode(self.rows(), type=list[Row], dec_hook=_from_json)
        return self._found


class CacheGone(Exception):
    """The file on disk no longer holds the skills of the shelf that was read from it."""


def encode(found: Sequence[Row]) -> tuple[bytes, str]:
    """The rows and their checksum."""
    rows = msgspec.json.encode(found, enc_hook=str)
    return rows, _sum(rows)


def load(file: Path, made_for: str) -> Snapshot | None:
    """None when there is none, or one for something else, or of another version, or damaged."""
    try:
        shelf = _shelves.decode(_first_line(file))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return Snapshot(shelf, lambda: _rows(file, shelf)) if shelf.made_for == made_for else None


def _first_line(file: Path) -> bytes | memoryview:
    """Without copying, and mostly without reading, the second."""
    with file.open("rb", buffering=0) as opened:
        data = opened.read(FIRST_READ) or b""
        end = data.find(b"\n")
        if end < 0:
            data += opened.readall()
            end = data.find(b"\n")
    return memoryview(data)[:end]


def _rows(file: Path, shelf: Shelf) -> bytes:
    try:
        rows = file.read_bytes().partition(b"\n")[2]
    except OSError as error:
        raise CacheGone from error
    if _sum(rows) != shelf.rows_sum:
        raise CacheGone
    return rows


def save(file: Path, snapshot: Snapshot) -> None:
    """Two lines of JSON, as far as the disk allows it: without them everything works as well."""
    try:
        data = b"\n".join([msgspec.json.encode(snapshot.shelf), snapshot.rows()])
        if file.parent.parent.is_dir():
            file.parent.mkdir(mode=0o700, exist_ok=True)
            atomic.write_bytes(file, data, mode=0o600)
    except (OSError, UnicodeEncodeError) as error:
        log.debug("the list of skills is not kept: %s", error)


def _sum(rows: bytes) -> str:
    return f"{zlib.crc32(rows):08x}-{len(rows)}"


def _from_json(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError
