"""Sessions of a JSON Lines file put into the store: all of them, or none when a line is wrong."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from hermes.app.transcripts.reading import read_line
from hermes.core.errors import UsageError
from hermes.store.backend import Progress, ignore_progress
from hermes.store.records import Record, SessionFilter
from hermes.store.session_store import SessionStore

EVERYTHING = 2**31 - 1
"""A limit that is none."""
SHOWN_PROBLEMS = 5


class Place(msgspec.Struct, frozen=True):
    """Where in the file a session is, and what must be known of it beforehand."""

    id: str
    parent: str
    line: int
    offset: int


class Imported(msgspec.Struct, frozen=True):
    """What an import did."""

    stored: tuple[str, ...]
    skipped: tuple[str, ...]
    retitled: dict[str, str]
    """New titles, by session, of those whose title was in use already."""


async def import_file(
    store: SessionStore,
    path: Path,
    now: datetime,
    *,
    skip_existing: bool,
    progress: Progress = ignore_progress,
) -> Imported:
    """Every line is checked before the first session is stored. Raises `UsageError`."""
    try:
        with path.open("rb") as file:
            return await _import(store, file, path, now, skip_existing, progress)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read {path}: {reason}") from error


async def _import(
    store: SessionStore,
    file: BinaryIO,
    path: Path,
    now: datetime,
    skip_existing: bool,
    progress: Progress,
) -> Imported:
    if not file.seekable():
        raise UsageError(f"cannot read {path}: it must be a file, since it is read twice")
    places = check_lines(file, path, now)
    there = {
        info.id for info in await store.sessions(SessionFilter(archived=None, limit=EVERYTHING))
    }
    taken = [place for place in places if place.id in there]
    if taken and not skip_existing:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise UsageError(
            f"{path}:{taken[0].line}: there is already a session {taken[0].id}{more}",
            hint="--skip-existing leaves those out; nothing was imported",
        )
    wanted = [place for place in _parents_first(places) if place.id not in there]
    retitled: dict[str, str] = {}
    for done, place in enumerate(wanted, start=1):
        file.seek(place.offset)
        record = {**read_line(file.readline(), now), "id": place.id}
        await store.restore(record)
        title = await _title_given(store, record)
        if title:
            retitled[place.id] = title
        progress(done, len(wanted))
    stored = tuple(place.id for place in wanted)
    return Imported(stored, tuple(place.id for place in taken), retitled)


def check_lines(file: BinaryIO, path: Path, now: datetime) -> list[Place]:
    """Where each session is. Raises `UsageError` that names the lines that are wrong."""
    places: list[Place] = []
    problems: list[str] = []
    lines: dict[str, int] = {}
    for number, offset, line in _lines(file):
        try:
            record = read_line(line, now)
            first = lines.setdefault(record["id"], number)
            if first != number:
                raise UsageError(f"session {record['id']} is in line {first} already")
        except UsageError as error:
            problems.append(f"{path}:{number}: {error}")
            continue
        places.append(Place(record["id"], record.get("parent_session_id", ""), number, offset))
    if problems:
        shown = problems[:SHOWN_PROBLEMS]
        more = [f"and {len(problems) - len(shown)} more lines"] if problems[SHOWN_PROBLEMS:] else []
        hint = "nothing was imported; each line must be one session, as `export` writes them"
        raise UsageError("\n".join([*shown, *more]), hint=hint)
    if not places:
        raise UsageError(f"{path}: there is no session in it", hint="nothing was imported")
    return places


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Number, offset and text of each line that is not blank."""
    offset = 0
    for number, line in enumerate(iter(file.readline, b""), start=1):
        if line.strip():
            yield number, offset, line
        offset += len(line)


def _parents_first(places: list[Place]) -> list[Place]:
    """A session goes on from its parent, which must be there by then. A ring stays as it is."""
    by_id = {place.id: place for place in places}
    ordered: dict[str, Place] = {}
    for place in places:
        line: list[Place] = []
        current: Place | None = place
        while current is not None and current.id not in ordered and current not in line:
            line.append(current)
            current = by_id.get(current.parent)
        ordered.update({one.id: one for one in reversed(line)})
    return list(ordered.values())


async def _title_given(store: SessionStore, record: Record) -> str:
    """The title the session got when its own was in use, else empty."""
    if not record.get("title"):
        return ""
    title = (await store.info(record["id"])).title
    return title if title != record["title"] else ""
