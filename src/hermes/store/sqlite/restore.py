"""A backup takes the place of the store."""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import apsw

from hermes.core.errors import StoreError, UsageError
from hermes.store.sqlite import exchange
from hermes.store.sqlite.faults import as_store_error
from hermes.store.sqlite.health import check
from hermes.store.sqlite.migrations import refuse_newer
from hermes.store.sqlite.salvage.aside import keep, remove


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
        with exchange.locked(path), ExitStack() as undo:
            undo.callback(remove, new)
            remove(new)
            _copy(backup, new)
            kept: Path | None = None
            if path.exists():
                connection = undo.enter_context(exchange.opened(path))
                exchange.hold_writers(connection)
                kept = keep(path, moment, "replaced")
            exchange.put_in_place(new, path)
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
