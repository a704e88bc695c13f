"""Reads log files: the last entries across rotated files, and new ones as they are written."""

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from hermes.app import NO_SESSION, LogFileEntry, component_of, rotated

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

_HEAD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*) (?P<level>[A-Z]+) "
    r"(?:\[(?P<session>[^\]]*)\] )?(?P<logger>[\w.-]+): (?P<message>.*)"
)
_INDENT = "    "
_json_entry = msgspec.json.Decoder(LogFileEntry)


class LogFilter(msgspec.Struct, frozen=True):
    """Which entries to show; an empty field matches all."""

    level: str = ""  #: The minimum level.
    session: str = ""  #: A session id or its beginning.
    component: str = ""
    since: float = 0.0  #: Unix time of the earliest entry.

    def has(self, entry: LogFileEntry) -> bool:
        return (
            _rank(entry.level) >= _rank(self.level)
            and entry.session.startswith(self.session)
            and self.component in ("", entry.component)
            and (not self.since or _unix_time(entry) >= self.since)
        )


def files_of(path: Path) -> list[Path]:
    """Return the log and its rotated files, newest first."""
    found: list[Path] = []
    while (path_of_number := rotated(path, len(found))).exists():
        found.append(path_of_number)
    return found


def last_entries(
    path: Path, count: int, wanted: LogFilter, end: int | None = None
) -> list[LogFileEntry]:
    """Return the last `count` matching entries, oldest first, without reading unneeded files.

    Of the newest file only the first `end` bytes are read.
    """
    entries: list[LogFileEntry] = []
    for file in files_of(path):
        if len(entries) >= count or (wanted.since and file.stat().st_mtime < wanted.since):
            break
        data = file.read_bytes()[: end if file == path else None]
        lines = data.decode("utf-8", "replace").splitlines()
        entries = [*(entry for entry in parse(lines) if wanted.has(entry)), *entries]
    return entries[max(0, len(entries) - count) :]


def follow(
    path: Path, wanted: LogFilter, start: int, pause: float = 0.25
) -> Iterator[LogFileEntry]:
    """Yield matching entries from byte `start` on, across rotations, until the caller stops."""
    for lines in _arriving_lines(path, start, pause):
        yield from (entry for entry in parse(lines) if wanted.has(entry))


def parse(lines: Iterable[str]) -> Iterator[LogFileEntry]:
    """Yield the entries in `lines`, of either format.

    A line that is not the start of an entry belongs to the entry before it.
    """
    held: LogFileEntry | None = None
    for text in lines:
        entry = None if text.startswith("{") else _from_text(text)
        if text.startswith("{"):
            with suppress(msgspec.DecodeError):
                entry = _json_entry.decode(text)
        if entry is None and held is not None:
            held = msgspec.structs.replace(
                held, message=f"{held.message}\n{text.removeprefix(_INDENT)}"
            )
            continue
        if held is not None:
            yield held
        held = entry or LogFileEntry("", "", "", text)
    if held is not None:
        yield held


def _from_text(text: str) -> LogFileEntry | None:
    match = _HEAD.match(text)
    if match is None:
        return None
    session = match["session"] or ""
    return LogFileEntry(
        time=match["time"],
        level=match["level"],
        logger=match["logger"],
        message=match["message"],
        component=component_of(match["logger"]),
        session="" if session == NO_SESSION else session,
    )


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else -1


def _unix_time(entry: LogFileEntry) -> float:
    try:
        return datetime.fromisoformat(entry.time.replace(",", ".")).timestamp()
    except ValueError:
        return 0.0


def _arriving_lines(path: Path, start: int, pause: float) -> Iterator[list[str]]:
    """Yield complete lines as they are written. A renamed file is first read to its end."""
    file = path.open("rb")
    file.seek(start)
    part = b""
    try:
        while True:
            # Checked before reading: text written after a rotation is in the new file.
            moved = _was_moved(path, file)
            *lines, part = (part + file.read()).split(b"\n")
            if lines:
                yield [line.decode("utf-8", "replace") for line in lines]
            if moved:
                file.close()
                file, part = path.open("rb"), b""
            elif not lines:
                time.sleep(pause)
    finally:
        file.close()


def _was_moved(path: Path, file: BinaryIO) -> bool:
    """Return whether the name now refers to another file, or the file was truncated."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return not os.path.samestat(there, os.fstat(file.fileno())) or there.st_size < file.tell()
