"""Puts a sound store in the place of a damaged one, and keeps the damaged one."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import apsw
import filelock
import msgspec

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull, UsageError
from hermes.store.backend import Progress, ignore_progress
from hermes.store.sqlite.errors import BUSY_MILLISECONDS, as_store_error, patiently, transaction
from hermes.store.sqlite.health import SearchIndexDamaged, check, findings, search_indexes
from hermes.store.sqlite.salvage import SalvageReport, salvage
from hermes.store.sqlite.schema import refuse_newer
from hermes.util.text import many

# Copies of a store under a dated name, beside it.

KEPT = ("-wal", "-journal")
"""Endings of the side files that can hold data."""

_CHUNK = 2**20


def keep(path: Path, moment: datetime, why: str = "damaged") -> Path:
    """Copy `path` and its side files; where to. `why` is a part of the name. Nothing is left
    behind by a copy that fails."""
    with ExitStack() as undo:
        target = _free_name(path, moment, why)
        undo.callback(remove, target)
        # The log first: pages that another process moves from it meanwhile are then in both.
        for suffix in KEPT:
            side = Path(f"{path}{suffix}")
            if side.exists() and side.stat().st_size:
                _write(Path(f"{target}{suffix}"), _chunks(side))
        _write(target, _database_chunks(path))
        sync(path.parent)
        undo.pop_all()
    return target


def remove(path: Path) -> None:
    """The database and all that SQLite may have put beside it."""
    for suffix in ("", *KEPT, "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free_name(path: Path, moment: datetime, why: str) -> Path:
    dated = f"{path.name}.{why}-{moment:%Y%m%d-%H%M%S}"
    name, number = dated, 1
    while any((path.parent / f"{name}{suffix}").exists() for suffix in ("", *KEPT)):
        number += 1
        name = f"{dated}-{number}"
    return path.parent / name


def _write(target: Path, chunks: Iterator[bytes]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _database_chunks(path: Path) -> Iterator[bytes]:
    """Read by way of SQLite: closing a descriptor of our own would take away the locks that this
    process may hold on the file."""
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        length = file.xFileSize()
        for at in range(0, length, _CHUNK):
            yield file.xRead(min(_CHUNK, length - at), at)
    finally:
        file.xClose()


# One file takes the place of the store, while other processes may have the old one open.
#
# They notice by the file's identity and open the new one; see `backend`.

LOCK_SECONDS = 600
_SIDE_FILES = ("-wal", "-journal", "-shm")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time replaces the store."""
    lock = filelock.FileLock(f"{path}.rescue.lock", timeout=LOCK_SECONDS, mode=0o600)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise StoreError(
            f"another process is repairing the session store {path}",
            hint="Try again when it is done.",
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def opened(path: Path) -> Iterator[apsw.Connection]:
    """A connection that changes nothing by closing."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        yield connection
    finally:
        connection.close()


def hold_writers(connection: apsw.Connection) -> None:
    """Nobody writes to the file until the connection is closed, as far as it is a database."""
    with suppress(apsw.CorruptError, apsw.NotADBError):
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"))


def put_in_place(new: Path, path: Path) -> None:
    """`new` becomes `path`."""
    sync(new)
    # A log left beside the new file would be taken for its own.
    for suffix in _SIDE_FILES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    new.replace(path)
    sync(path.parent)


Outcome = Literal["already_sound", "reindexed", "rescued"]


class RescueReport(msgspec.Struct, frozen=True):
    path: Path
    outcome: Outcome
    kept: Path | None = None
    """Where the damaged file is."""
    salvaged: SalvageReport | None = None

    def summary(self) -> str:
        """What happened, for people."""
        if self.salvaged is None or self.kept is None:
            return {
                "already_sound": f"The session store {self.path} is sound; nothing was changed.",
                "reindexed": f"The search index of {self.path} was damaged and has been built "
                "anew. No message was lost.",
            }.get(self.outcome, "")
        found = self.salvaged
        if not found.sessions:
            back = "Nothing could be read of it, so the store is empty now."
        else:
            sessions, messages = many(found.sessions, "session"), found.messages
            parts = f"{sessions} with {many(messages, 'message')}"
            lost = "" if found.notes else " Nothing is known to be missing."
            back = f"{parts} brought back.{lost}"
        kept = (
            f"The session store {self.path} was damaged. The damaged file is kept as {self.kept}."
        )
        return " ".join((kept, back, *(f"{note}." for note in found.notes)))


def repair(path: Path, progress: Progress = ignore_progress) -> RescueReport:
    """`rescue` for a store that somebody asked to have looked at."""
    if not path.exists():
        raise StoreError(
            f"there is no session store at {path}", hint="It is made when Hermes first starts."
        )
    return rescue(path, progress)


def rescue(
    path: Path, progress: Progress = ignore_progress, now: datetime | None = None
) -> RescueReport:
    """Look at the whole file, and replace it when it is damaged by a new one with all that can be
    read. A search index that is damaged alone is built anew in its place. One process at a time;
    the file may be in use by others. Raises `StoreError`, and then nothing was changed."""
    path = path.resolve()  # that is where SQLite has its log, also when `path` is a link
    moment = now or datetime.now(UTC).astimezone()
    try:
        with locked(path), opened(path) as connection:
            damage = _damage(connection, path)
            if damage == "tables" or (damage == "search" and not _reindexed(connection)):
                hold_writers(connection)
                return _replace(path, progress, moment)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            return RescueReport(path, "reindexed" if damage == "search" else "already_sound")
    except StoreFull as error:
        raise _no_room(path) from error
    except (apsw.Error, OSError) as error:
        found = as_store_error(error, path)
        raise (_no_room(path) if isinstance(found, StoreFull) else found) from error


def _damage(connection: apsw.Connection, path: Path) -> Literal["none", "search", "tables"]:
    """Looks at everything: who calls may have met damage that a glance does not show."""
    try:
        refuse_newer(connection)
        with suppress(SearchIndexDamaged):
            check(connection, path)
    except (StoreCorrupt, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        return "tables"
    found = findings(connection)
    if found.tables:
        return "tables"
    return "search" if found.search else "none"


def _reindexed(connection: apsw.Connection) -> bool:
    """Build the search index anew, in place; False when it is too damaged for that.

    Clearing a damaged tree could take pages from another one, so all is looked at before it is
    made to last.
    """
    try:
        with transaction(connection):
            for name in search_indexes(connection):
                connection.execute(f"INSERT INTO {name}({name}) VALUES ('rebuild')")
            found = findings(connection)
            if found.tables or found.search:
                raise apsw.CorruptError("the search index cannot be built anew in place")
    except apsw.CorruptError:
        return False
    return True


def _replace(path: Path, progress: Progress, moment: datetime) -> RescueReport:
    """Until the new file takes the place of the old one, a failure leaves things as they were;
    the copy of the old file goes too, for that file is still there."""
    recovering = Path(f"{path}.recovering")
    with ExitStack() as undo:
        undo.callback(remove, recovering)
        remove(recovering)
        kept = keep(path, moment)
        undo.callback(remove, kept)
        salvaged = salvage(kept, recovering, progress)
        undo.pop_all()
    put_in_place(recovering, path)
    return RescueReport(path, "rescued", kept, salvaged)


def _no_room(path: Path) -> StoreFull:
    return StoreFull(
        f"no room on the disk to repair the session store {path}",
        hint="Free three times the size of the file and try again. Nothing was changed.",
    )


# A backup takes the place of the store.


def restore(path: Path, backup: Path, now: datetime | None = None) -> Path | None:
    """Put a copy of `backup` in the place of the store `path`; where the old store is kept, if
    there was one. Raises `StoreError`, and then nothing was changed."""
    moment = now or datetime.now(UTC).astimezone()
    if not backup.is_file():
        raise UsageError(f"there is no file {backup}")
    if path.exists() and backup.samefile(path):
        raise UsageError(f"{backup} is the store itself")
    path = path.resolve()  # that is where SQLite has its log, also when `path` is a link
    new = Path(f"{path}.restoring")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with locked(path), ExitStack() as undo:
            undo.callback(remove, new)
            remove(new)
            _copy(backup, new)
            kept: Path | None = None
            if path.exists():
                connection = undo.enter_context(opened(path))
                hold_writers(connection)
                kept = keep(path, moment, "replaced")
            put_in_place(new, path)
            return kept
    except (apsw.Error, OSError) as error:
        raise as_store_error(error, path) from error


def _copy(backup: Path, new: Path) -> None:
    """The backup with all it has in its log, looked at before it is used."""
    source = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        refuse_newer(source)
        if not source.execute("SELECT 1 FROM sqlite_schema WHERE name = 'messages'").fetchall():
            raise StoreError(f"{backup} is not a session store")
        check(source, backup)
        target = apsw.Connection(str(new))
        try:
            with target.backup("main", source, "main") as work:
                work.step()
            target.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            target.close()
    except apsw.Error as error:
        raise as_store_error(error, backup) from error
    finally:
        source.close()
    new.chmod(0o600)
