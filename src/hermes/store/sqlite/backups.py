"""Daily backups of the session store, in `backups/sessions` next to `state.db`.

The repair of a damaged store reads what SQLite can still reach. The backup covers the rest.
"""

import logging
import os
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw
import filelock

from hermes.core.errors import StoreError
from hermes.store.sqlite.backend import copy_database
from hermes.store.sqlite.errors import BUSY_MILLISECONDS, as_store_error
from hermes.util.text import human_size

DAY = 86_400.0
SPARE_BYTES = 50 * 2**20  #: Room that a backup leaves on the disk.
_PATTERN = "state-*-*.db"

log = logging.getLogger(__name__)


def folder_of(path: Path) -> Path:
    """Return where the backups of the store `path` are."""
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
    lock = filelock.FileLock(f"{path}.backup.lock", timeout=0, mode=0o600)
    try:
        with lock:
            return _back_up(path, keep, size)
    except filelock.Timeout:
        return None  # another process is making it
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
        source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            source.set_busy_timeout(BUSY_MILLISECONDS)
            copy_database(source, copy)
        finally:
            source.close()
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
    """Return the backups, the newest last."""
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
        connection = apsw.Connection(str(backup), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.execute("SELECT 1 FROM sessions, messages LIMIT 1").fetchall()
            return bool(connection.execute("PRAGMA quick_check(1)").get == "ok")
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError):
        return False
