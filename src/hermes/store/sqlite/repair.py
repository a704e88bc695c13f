"""Daily backups of the store, repair of a damaged one, and restoring a backup.

A file that is replaced is always kept.
"""

import logging
import os
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from hermes.core.errors import StoreCorrupt, StoreError, StoreFull, UsageError
from hermes.store.engine import Progress, ignore_progress
from hermes.store.sqlite.backend import copy_database
from hermes.store.sqlite.health import (
    BUSY_MILLISECONDS,
    SearchIndexDamaged,
    as_store_error,
    check,
    find_problems,
    search_indexes,
    transaction,
    with_retries,
)
from hermes.store.sqlite.salvage import SalvageReport, StoreUnreadable, check_readable, salvage
from hermes.store.sqlite.schema import refuse_newer
from hermes.util.files import file_lock
from hermes.util.text import human_size, many

log = logging.getLogger(__name__)

# Daily backups, in `backups/sessions` next to `state.db`. A repair reads what SQLite can still
# reach; the backup covers the rest.

DAY = 86_400.0
SPARE_BYTES = 50 * 2**20  #: Room that a backup leaves on the disk.
_PATTERN = "state-*-*.db"


def folder_of(path: Path) -> Path:
    return path.parent / "backups" / "sessions"


def newest_sound(folder: Path) -> Path | None:
    """Return the newest backup that passes SQLite's check, or None."""
    return next((backup for backup in reversed(_backups(folder)) if _is_sound(backup)), None)


def back_up_daily(path: Path, keep: int, *, max_bytes: int | None = None) -> Path | None:
    """Copy the store `path` if it changed and its last backup is a day old, and delete all but the
    newest `keep` backups. Return the new backup, or None if none was made.

    Writers do not wait for the copy. A store of more than `max_bytes` is skipped, and so is one
    that the disk has no room for. Raises `StoreError`.
    """
    if keep <= 0 or not path.exists():
        return None
    size, changed = _size_and_change(path)
    backups = _backups(folder_of(path))
    last = backups[-1].stat().st_mtime if backups else 0.0
    if changed <= last or time.time() - last < DAY or (max_bytes and size > max_bytes):
        return None
    # The name keeps it out of archives of the home.
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(Path(f"{path}.backup.lock"), 0))
        except TimeoutError:
            return None  # another process is making it
        except OSError as error:
            raise as_store_error(error, path) from error
        try:
            return _back_up(path, keep, size)
        except (apsw.Error, OSError) as error:
            raise as_store_error(error, path) from error


def _back_up(path: Path, keep: int, size: int) -> Path | None:
    folder = folder_of(path)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < size + SPARE_BYTES:
        log.warning(
            "no daily backup of %s: it needs %s and %s are free on the disk",
            path,
            human_size(size + SPARE_BYTES),
            human_size(free),
        )
        return None
    started = time.time()
    moment = datetime.fromtimestamp(started, UTC).astimezone()
    target = folder / f"state-{moment:%Y%m%d-%H%M%S}.db"
    copy = folder / f".{target.name}.tmp"
    for left in folder.glob(".state-*.tmp*"):  # of a process that was killed
        left.unlink()
    try:
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as source:
            source.set_busy_timeout(BUSY_MILLISECONDS)
            copy_database(source, copy)
        if not _is_sound(copy):
            # It must not take the place of an older backup that is sound.
            raise StoreError(
                f"the session store {path} is damaged", hint="Run `hermes sessions repair`."
            )
        # The age of a backup counts from the moment it shows, not from the end of the copying.
        os.utime(copy, (started, started))
        copy.replace(target)
    finally:
        with suppress(OSError):
            copy.unlink(missing_ok=True)
    for old in _backups(folder)[:-keep]:
        old.unlink(missing_ok=True)
    log.info("daily backup of the session store: %s", target)
    return target


def _backups(folder: Path) -> list[Path]:
    return sorted(folder.glob(_PATTERN), key=lambda path: (path.stat().st_mtime, path.name))


def _size_and_change(path: Path) -> tuple[int, float]:
    """Return the bytes of a store with its log, and when it was changed last."""
    facts, log_file = path.stat(), Path(f"{path}-wal")
    # SQLite makes an empty log for reading; it is not a change.
    if log_file.exists() and (logged := log_file.stat()).st_size:
        return facts.st_size + logged.st_size, max(facts.st_mtime, logged.st_mtime)
    return facts.st_size, facts.st_mtime


def _is_sound(backup: Path) -> bool:
    try:
        with closing(apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.execute("SELECT 1 FROM sessions, messages LIMIT 1").fetchall()
            return bool(connection.execute("PRAGMA quick_check(1)").get == "ok")
    except (apsw.Error, UnicodeDecodeError):
        return False


# Copies of a store under a dated name in its folder

DATA_SUFFIXES = ("-wal", "-journal")  #: Suffixes of the side files that can hold data.
SUFFIXES = ("", *DATA_SUFFIXES, "-shm")

_CHUNK = 2**20


def keep_copy(path: Path, moment: datetime, reason: str = "damaged") -> Path:
    """Copy `path` and its side files to a dated name, which contains `reason`, and return it. A
    copy that fails leaves nothing behind."""
    with ExitStack() as undo:
        target = _free_name(path, moment, reason)
        undo.callback(remove, target)
        # The log comes first: pages that another process moves meanwhile are then in both copies.
        for suffix in DATA_SUFFIXES:
            side = Path(f"{path}{suffix}")
            if side.exists() and side.stat().st_size:
                _write(Path(f"{target}{suffix}"), _chunks(side))
        _write(target, _database_chunks(path))
        sync(path.parent)
        undo.pop_all()
    return target


def remove(path: Path) -> None:
    """Remove the database and the side files of SQLite."""
    for suffix in SUFFIXES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free_name(path: Path, moment: datetime, reason: str) -> Path:
    dated = f"{path.name}.{reason}-{moment:%Y%m%d-%H%M%S}"
    name, number = dated, 1
    while any((path.parent / f"{name}{suffix}").exists() for suffix in ("", *DATA_SUFFIXES)):
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
    """Read through SQLite: closing a descriptor of our own would drop the locks that this process
    may hold on the file."""
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
    file = apsw.VFSFile("", str(path), [flags, 0])
    try:
        length = file.xFileSize()
        for at in range(0, length, _CHUNK):
            yield file.xRead(min(_CHUNK, length - at), at)
    finally:
        file.xClose()


# Replacing the file while other processes may have the old one open. They notice it by the identity
# of the file and open the new one (see `SqliteBackend.is_stale`).

LOCK_SECONDS = 600


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock that lets one process at a time replace the store."""
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(Path(f"{path}.rescue.lock"), LOCK_SECONDS))
        except TimeoutError as error:
            raise StoreError(
                f"another process is repairing the session store {path}",
                hint="Try again when it is done.",
            ) from error
        yield


@contextmanager
def open_unchanged(path: Path) -> Iterator[apsw.Connection]:
    """Open a connection that changes nothing when it is closed."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        yield connection


def block_writers(connection: apsw.Connection) -> None:
    """Block writers until the connection is closed, if the file is a database at all."""
    with suppress(apsw.CorruptError, apsw.NotADBError):
        with_retries(lambda: connection.execute("BEGIN IMMEDIATE"))


def exchange(new: Path, path: Path) -> None:
    """Replace `path` with `new`."""
    sync(new)
    # SQLite would apply a leftover log to the new file.
    for suffix in SUFFIXES[1:]:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    new.replace(path)
    sync(path.parent)


Outcome = Literal["already_sound", "reindexed", "rescued"]


class RepairReport(msgspec.Struct, frozen=True):
    path: Path
    outcome: Outcome
    kept: Path | None = None  #: The copy of the damaged file.
    salvaged: SalvageReport | None = None
    backup: Path | None = None  #: The newest sound backup, if rows were lost.

    def summary(self) -> str:
        if self.salvaged is None or self.kept is None:
            return {
                "already_sound": f"The session store {self.path} is not damaged; "
                "nothing was changed.",
                "reindexed": f"The search index of {self.path} was damaged and has been rebuilt. "
                "No message was lost.",
            }.get(self.outcome, "")
        found = self.salvaged
        if not found.sessions:
            restored = "Nothing could be read from it, so the store is empty now."
        else:
            sessions, messages = many(found.sessions, "session"), found.messages
            parts = f"{sessions} with {many(messages, 'message')}"
            lost = "" if found.notes else " Nothing is known to be missing."
            restored = f"{parts} restored.{lost}"
        kept = (
            f"The session store {self.path} was damaged. The damaged file is kept as {self.kept}."
        )
        notes = [f"{note}." for note in found.notes]
        if self.backup is not None:
            notes.append(_restore_hint(self.backup))
        return " ".join((kept, restored, *notes))


def repair(
    path: Path, progress: Progress = ignore_progress, now: datetime | None = None
) -> RepairReport:
    """Check the whole file and, if it is damaged, replace it with a new one that has everything
    that can be read. If only the search index is damaged, it is rebuilt in place. One process at a
    time does this; others may use the file.

    Raises `StoreError` if there is no file, or if it cannot be repaired; nothing is changed then.
    If SQLite cannot read the file at all, the hint says how to restore the newest backup.
    """
    if not path.exists():
        raise StoreError(
            f"there is no session store at {path}", hint="Hermes creates it at its first start."
        )
    backup_folder = folder_of(path)
    path = path.resolve()  # SQLite keeps its log there, even if `path` is a link
    moment = now or datetime.now(UTC).astimezone()
    try:
        with exclusive(path), open_unchanged(path) as connection:
            damage = _damage(connection, path)
            if damage == "tables" or (damage == "search" and not _rebuild_index(connection)):
                check_readable(path)
                block_writers(connection)
                return _replace(path, progress, moment, backup_folder)
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            return RepairReport(path, "reindexed" if damage == "search" else "already_sound")
    except StoreUnreadable as error:
        raise StoreCorrupt(
            f"the session store cannot be repaired: {error}",
            hint=_unreadable_hint(path, newest_sound(backup_folder)),
        ) from error
    except StoreFull as error:
        raise _no_space(path) from error
    except (apsw.Error, OSError) as error:
        found = as_store_error(error, path)
        raise (_no_space(path) if isinstance(found, StoreFull) else found) from error


def _unreadable_hint(path: Path, backup: Path | None) -> str:
    if backup is not None:
        return f"Nothing was changed. {_restore_hint(backup)}"
    # The log would be applied to the new file, so it is moved too.
    moves = " && ".join(
        f"mv {shlex.quote(f'{path}{suffix}')} {shlex.quote(f'{path}.unreadable{suffix}')}"
        for suffix in ("", *DATA_SUFFIXES)
        if Path(f"{path}{suffix}").exists()
    )
    return (
        f"Nothing was changed, and there is no sound backup. To start with an empty store: {moves}"
    )


def _restore_hint(backup: Path) -> str:
    taken = datetime.fromtimestamp(backup.stat().st_mtime, UTC).astimezone()
    command = f"hermes sessions restore {shlex.quote(str(backup))}"
    return f"To restore the backup of {taken:%Y-%m-%d %H:%M}: {command}"


def _damage(connection: apsw.Connection, path: Path) -> Literal["none", "search", "tables"]:
    """Check everything: the caller may have found damage that the quick check does not find."""
    try:
        refuse_newer(connection)
        with suppress(SearchIndexDamaged):
            check(connection, path)
    except (StoreCorrupt, apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        return "tables"
    found = find_problems(connection)
    if found.tables:
        return "tables"
    return "search" if found.search else "none"


def _rebuild_index(connection: apsw.Connection) -> bool:
    """Rebuild the search index in place. Return False if it is too damaged for that.

    Clearing a damaged tree could take pages from another one, so everything is checked before the
    commit.
    """
    try:
        with transaction(connection):
            for name in search_indexes(connection):
                connection.execute(f"INSERT INTO {name}({name}) VALUES ('rebuild')")
            found = find_problems(connection)
            if found.tables or found.search:
                raise apsw.CorruptError("the search index cannot be rebuilt in place")
    except apsw.CorruptError:
        return False
    return True


def _replace(path: Path, progress: Progress, moment: datetime, backup_folder: Path) -> RepairReport:
    """Replace the file with a new one of its readable rows.

    A failure before the exchange changes nothing; the copy of the damaged file is removed then,
    because the file itself is still in place.
    """
    recovering = Path(f"{path}.recovering")
    with ExitStack() as undo:
        undo.callback(remove, recovering)
        remove(recovering)
        kept = keep_copy(path, moment)
        undo.callback(remove, kept)
        salvaged = salvage(kept, recovering, progress)
        undo.pop_all()
    exchange(recovering, path)
    backup = newest_sound(backup_folder) if salvaged.notes else None
    return RepairReport(path, "rescued", kept, salvaged, backup)


def _no_space(path: Path) -> StoreFull:
    return StoreFull(
        f"no space on the disk to repair the session store {path}",
        hint="Free three times the size of the file and try again. Nothing was changed.",
    )


# Restoring a backup


def restore(path: Path, backup: Path, now: datetime | None = None) -> Path | None:
    """Replace the store `path` with a copy of `backup`. Return where the old store is kept, if
    there was one. Raises `StoreError`; nothing is changed then."""
    moment = now or datetime.now(UTC).astimezone()
    if not backup.is_file():
        raise UsageError(f"there is no file {backup}")
    if path.exists() and backup.samefile(path):
        raise UsageError(f"{backup} is the store itself")
    path = path.resolve()  # SQLite keeps its log there, even if `path` is a link
    new = Path(f"{path}.restoring")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with exclusive(path), ExitStack() as undo:
            undo.callback(remove, new)
            remove(new)
            with opened_backup(backup) as source:
                copy_database(source, new)
            kept: Path | None = None
            if path.exists():
                connection = undo.enter_context(open_unchanged(path))
                block_writers(connection)
                kept = keep_copy(path, moment, "replaced")
            exchange(new, path)
            return kept
    except (apsw.Error, OSError) as error:
        raise as_store_error(error, path) from error


@contextmanager
def opened_backup(backup: Path) -> Iterator[apsw.Connection]:
    """Open a file that must be a sound session store, read-only. Raises `StoreError`."""
    try:
        with closing(apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)) as source:
            refuse_newer(source)
            if not source.execute("SELECT 1 FROM sqlite_schema WHERE name = 'messages'").fetchall():
                raise StoreError(f"{backup} is not a session store")
            check(source, backup)
            yield source
    except apsw.Error as error:
        raise as_store_error(error, backup) from error
