"""The ledger of a run: the state of every item, and the output files.

The driver is the only writer. A result and its output line are stored in one transaction: the line
enters the table `outbox` with the file and the offset at which it belongs. After the transaction
the line is appended to its file, and once the file is synced, the row leaves the outbox. When a run
is opened, the tail of each file is compared with the outbox and completed. So a line is in its file
exactly once if and only if its item has ended, no matter when the process was killed, and a result
that was paid for is never lost.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import msgspec

from hermes.batch.work import ItemResult, ItemState, WorkItem
from hermes.core.errors import HermesError, StoreCorrupt, StoreError, StoreFull, UsageError
from hermes.core.model import Usage
from hermes.util.files import file_lock

LEDGER, SPEC, LOCK = "ledger.db", "run.json", "run.lock"
VERSION = 1
STATES: tuple[ItemState, ...] = ("pending", "leased", "done", "discarded", "failed")
CHUNK = 500  #: Items for each statement.
SYNC_SECONDS = 1.0  #: Time between two syncs of the output files.

SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    row_index INTEGER NOT NULL,
    repeat INTEGER NOT NULL,
    occurrence INTEGER NOT NULL,
    seen INTEGER NOT NULL,              -- the last opening of the run whose dataset had the row
    state TEXT NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0, -- workers that ended while they worked on it
    reason TEXT NOT NULL DEFAULT '',
    boundary TEXT NOT NULL DEFAULT '',
    worker TEXT NOT NULL DEFAULT '',
    lease_until REAL,
    usage_input INTEGER NOT NULL DEFAULT 0,
    usage_output INTEGER NOT NULL DEFAULT 0,
    usage_cache_read INTEGER NOT NULL DEFAULT 0,
    usage_cache_write INTEGER NOT NULL DEFAULT 0,
    usage_reasoning INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL,
    api_calls INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    file TEXT NOT NULL DEFAULT ''
);
CREATE TABLE files (name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY, file TEXT NOT NULL, line BLOB NOT NULL
);
"""


class ItemRecord(msgspec.Struct, frozen=True):
    """One row of the ledger."""

    key: str
    index: int
    repeat: int
    occurrence: int
    state: ItemState
    attempts: int
    crashes: int
    reason: str
    boundary: str
    worker: str
    usage: Usage
    cost_usd: float | None
    api_calls: int
    seconds: float
    file: str  #: The output file, or empty.


class Lease(msgspec.Struct):
    """An item that is assigned, or about to be."""

    item: WorkItem
    crashes: int


class LedgerChanges:
    """What happened to items since the last commit. An item is leased again only after its return
    was committed, so the order of the changes is always the same."""

    def __init__(self) -> None:
        self.leased: dict[str, tuple[str, float]] = {}  #: Worker and end of the lease, by key.
        self.returned: dict[str, Lease] = {}
        self.crashed: set[str] = set()  #: Returned because their worker ended.
        self.results: dict[str, tuple[ItemResult, str]] = {}
        """With the file that gets the line; "" if there is no line."""

    def __bool__(self) -> bool:
        return bool(self.leased or self.returned or self.results)


class Dataset(msgspec.Struct, frozen=True):
    """How the items of a run compare with those of its ledger."""

    items: int
    new: int
    missing: int  #: In the ledger, but no longer in the dataset.


def _rows(db: apsw.Connection, statement: str, values: Sequence[Any] = ()) -> list[Any]:
    return db.execute(statement, tuple(values)).fetchall()


class RunLedger:
    """The database and the output files of one run. Only the holder of the run's lock opens it.

    Raises `StoreError` if the disk is full or a file cannot be used.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = folder / LEDGER
        self._outputs = _OutputFiles(folder)
        self._synced = 0.0
        self._written = 0  #: The last row of the outbox that is in its file.
        try:
            self._db = apsw.Connection(str(self.path))
            self._db.set_busy_timeout(5000)  # readers may hold the file for a moment
            self._db.execute("PRAGMA journal_mode = WAL").fetchall()
            # With FULL a commit waits for the disk: outputs may be deleted from the outbox later.
            self._db.execute("PRAGMA synchronous = FULL")
            self._create()
            self._recover()
        except apsw.Error as error:
            raise as_store_error(error, self.path) from error

    def close(self) -> None:
        """Sync the output files and close the database."""
        try:
            self.sync()
        finally:
            self._outputs.close()
            self._db.close()

    def _create(self) -> None:
        ((version,),) = _rows(self._db, "PRAGMA user_version")
        if version > VERSION:
            raise UsageError(
                f"{self.path} was written by a later version of Hermes", hint="hermes update"
            )
        if version == 0:
            with self._db:
                self._db.execute(SCHEMA)
                self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _recover(self) -> None:
        """Bring the output files to the state of the ledger; end all leases."""
        with self._db:
            self._db.execute(
                "UPDATE items SET state = 'pending', worker = '', lease_until = NULL "
                "WHERE state = 'leased'"
            )
        for name, size in _rows(self._db, "SELECT name, size FROM files"):
            statement = "SELECT line FROM outbox WHERE file = ? ORDER BY number"
            expected = b"".join([line for (line,) in _rows(self._db, statement, [name])])
            self._outputs.restore(name, size - len(expected), expected)
        self._written = self._last_outbox_row()
        self.sync()

    def _last_outbox_row(self) -> int:
        ((last,),) = _rows(self._db, "SELECT coalesce(max(number), 0) FROM outbox")
        return int(last)

    def fact(self, name: str, default: Any = None) -> Any:
        rows = _rows(self._db, "SELECT value FROM facts WHERE name = ?", [name])
        return rows[0][0] if rows else default

    def set_fact(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def add_items(self, items: Iterable[WorkItem]) -> Dataset:
        """Add the items that the ledger does not have yet, and mark those that are gone.

        Raises `UsageError` if two items have the same key.
        """
        seen = self.fact("opened", 0) + 1
        source, total = iter(items), 0
        with self._db:
            ((known,),) = _rows(self._db, "SELECT count(*) FROM items")
            while chunk := list(islice(source, CHUNK)):
                self._db.executemany(
                    "INSERT INTO items (key, row_index, repeat, occurrence, seen) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE "
                    "SET seen = excluded.seen, row_index = excluded.row_index",
                    [(i.key, i.index, i.repeat, i.occurrence, seen) for i in chunk],
                )
                total += len(chunk)
            self.set_fact("opened", seen)
            statement = "SELECT coalesce(sum(seen = ?), 0), count(*) FROM items"
            ((present, rows),) = _rows(self._db, statement, [seen])
            if present != total:
                raise UsageError(
                    f"{total - present} items of the dataset have the key of another item",
                    hint="use `number_items` to make the items of a run",
                )
        return Dataset(total, rows - known, rows - present)

    def retry_failed(self) -> int:
        """Make failed items pending again; return their number."""
        with self._db:
            self._db.execute(
                "UPDATE items SET state = 'pending', reason = '', boundary = '', crashes = 0, "
                "file = '' WHERE state = 'failed'"
            )
        return int(self._db.changes())

    def find_pending(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the pending ones of at most `CHUNK` keys, with the number of crashes."""
        marks = ",".join("?" * len(keys))
        statement = f"SELECT key, crashes FROM items WHERE state = 'pending' AND key IN ({marks})"
        return dict(_rows(self._db, statement, keys))

    def find_unfinished(self, keys: Iterable[str]) -> set[str]:
        """Return the keys whose items have not ended."""
        found, source = set[str](), iter(keys)
        while chunk := list(islice(source, CHUNK)):
            found |= self.find_pending(chunk).keys()
        return found

    def counts(self) -> dict[ItemState, int]:
        """Return the number of items of the dataset in each state."""
        return _counts(self._db)

    def apply(self, changes: LedgerChanges, spent_usd: float) -> None:
        """Store changes. When this returns, they survive a power cut."""
        try:
            with self._db:
                lines = self._store(changes)
                self.set_fact("spent_usd", spent_usd)
            for name, data in lines.items():
                self._outputs.append(name, data)
            self._written = self._last_outbox_row()
            if time.monotonic() - self._synced > SYNC_SECONDS:
                self.sync()
        except (apsw.Error, OSError) as error:
            raise as_store_error(error, self.path) from error

    def sync(self) -> None:
        """Wait until the output files are on disk, and empty the outbox."""
        self._synced = time.monotonic()
        if self._outputs.sync():
            with self._db:
                self._db.execute("DELETE FROM outbox WHERE number <= ?", (self._written,))

    def _store(self, changes: LedgerChanges) -> dict[str, bytes]:
        """Store changes in an open transaction; return the new lines of each file."""
        self._db.executemany(
            "UPDATE items SET state = 'leased', worker = ?, lease_until = ?, "
            "attempts = attempts + 1 WHERE key = ? AND state = 'pending'",
            [(worker, until, key) for key, (worker, until) in changes.leased.items()],
        )
        self._db.executemany(
            "UPDATE items SET state = 'pending', worker = '', lease_until = NULL, "
            "crashes = crashes + ? WHERE key = ? AND state = 'leased'",
            [(key in changes.crashed, key) for key in changes.returned],
        )
        self._db.executemany(
            "UPDATE items SET state = ?, reason = ?, boundary = ?, lease_until = NULL, "
            "usage_input = ?, usage_output = ?, usage_cache_read = ?, usage_cache_write = ?, "
            "usage_reasoning = ?, cost_usd = ?, api_calls = ?, seconds = ?, file = ? WHERE key = ?",
            [
                (
                    *(result.state, result.reason, result.boundary),
                    *msgspec.structs.astuple(result.usage),
                    *(result.cost_usd, result.api_calls, result.seconds),
                    *(file, result.key),
                )
                for result, file in changes.results.values()
            ],
        )
        return self._add_lines(changes)

    def _add_lines(self, changes: LedgerChanges) -> dict[str, bytes]:
        lines: dict[str, list[bytes]] = {}
        for result, file in changes.results.values():
            if file:
                lines.setdefault(file, []).append(result.line + b"\n")
        for name, new in lines.items():
            self._db.executemany(
                "INSERT INTO outbox (file, line) VALUES (?, ?)", [(name, line) for line in new]
            )
            self._db.execute(
                "INSERT INTO files VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET size = size + excluded.size",
                (name, sum(map(len, new))),
            )
        return {name: b"".join(new) for name, new in lines.items()}


class _OutputFiles:
    """Append-only files. A file stays open until it is synced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, int] = {}

    def append(self, name: str, data: bytes) -> None:
        descriptor = self._open.get(name)
        if descriptor is None:
            path = self._folder / name
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = self._open[name] = os.open(path, flags, 0o600)
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def sync(self) -> bool:
        """Sync and close the files; return whether there were any."""
        changed = bool(self._open)
        for name, descriptor in list(self._open.items()):
            os.fsync(descriptor)
            os.close(descriptor)
            del self._open[name]
        return changed

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def restore(self, name: str, start: int, expected: bytes) -> None:
        """Make `expected` the content of the file from `start` on.

        Bytes after `start` that the run did not write are moved to `NAME.unknown`.
        """
        path = self._folder / name
        size = path.stat().st_size if path.exists() else 0
        if size < start:
            raise UsageError(
                f"{path} has {size} bytes, but the run wrote {start}: lines are missing",
                hint="restore the file, or start a run with another name",
            )
        if size > start:
            with path.open("rb") as file:
                file.seek(start)
                found = file.read()
        else:
            found = b""
        if found == expected:
            # It may be in the memory of the system only.
            self.append(name, b"")
            return
        if not expected.startswith(found):
            extra = found.removeprefix(expected)
            with (self._folder / f"{name}.unknown").open("ab") as unknown:
                unknown.write(extra)
            os.truncate(path, start)
            found = b""
        self.append(name, expected[len(found) :])


def _counts(db: apsw.Connection) -> dict[ItemState, int]:
    counts: dict[ItemState, int] = dict.fromkeys(STATES, 0)
    opened = "(SELECT value FROM facts WHERE name = 'opened')"
    statement = f"SELECT state, count(*) FROM items WHERE seen = {opened} GROUP BY state"
    return counts | dict(_rows(db, statement))


def as_store_error(error: Exception, path: Path) -> HermesError:
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return StoreCorrupt(
            f"the ledger {path} is damaged ({error})", hint="start a run with another name"
        )
    if isinstance(error, apsw.FullError) or getattr(error, "errno", 0) == errno.ENOSPC:
        return StoreFull(
            f"no space left on the disk of {path}",
            hint="free some space and run the same command again; it continues the run",
        )
    return StoreError(
        f"{path} cannot be used ({error})", hint="check the permissions of the file and its folder"
    )


# Reading a run while it is executed or after.


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run."""

    kind: str  #: Of the spec: `prompts` or `tasks`.
    spec: dict[str, Any]  #: As in `run.json`, without the API key.
    fingerprint: str
    running: bool  #: A driver works on it now.
    counts: dict[ItemState, int]  #: Of the items of the dataset.
    missing: int  #: Items that are in the ledger, but no longer in the dataset.
    usage: Usage
    cost_usd: float  #: Of all model calls, also those of failed and repeated attempts.
    api_calls: int
    seconds: float  #: Sum over the items.
    reasons: dict[str, int]  #: Why items were discarded or failed, the most frequent first.
    files: dict[str, int]  #: Output files and their sizes in bytes.

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class RunFile(msgspec.Struct, frozen=True):
    """The content of `run.json`."""

    fingerprint: str
    spec: msgspec.Raw
    version: int = VERSION


def read_run_file(folder: Path) -> RunFile:
    """Return the description of a run. Raises `UsageError` if there is no run in `folder`."""
    try:
        return msgspec.json.decode((folder / SPEC).read_bytes(), type=RunFile)
    except FileNotFoundError:
        raise UsageError(f"there is no run in {folder}", hint="hermes batch list") from None
    except msgspec.DecodeError as error:
        raise UsageError(
            f"{folder / SPEC} is damaged ({error})", hint="start a run with another name"
        ) from error


def read_run(folder: Path) -> RunStatus:
    """Return the state of the run in `folder`. Raises `UsageError` if there is none."""
    described = read_run_file(folder)
    spec: dict[str, Any] = msgspec.json.decode(described.spec)
    running = is_running(folder)
    with closing(_open_to_read(folder)) as db:
        counts = _counts(db)
        if not running:  # a killed driver left leases
            counts["pending"] += counts["leased"]
            counts["leased"] = 0
        ((rows,),) = _rows(db, "SELECT count(*) FROM items")
        ((*usage, api_calls, seconds),) = _rows(
            db,
            "SELECT total(usage_input), total(usage_output), total(usage_cache_read), "
            "total(usage_cache_write), total(usage_reasoning), total(api_calls), total(seconds) "
            "FROM items",
        )
        reasons = _rows(
            db,
            "SELECT reason, count(*) AS times FROM items WHERE state IN ('discarded', 'failed') "
            "GROUP BY reason ORDER BY times DESC, reason",
        )
        spent = _rows(db, "SELECT value FROM facts WHERE name = 'spent_usd'")
        files = _rows(db, "SELECT name, size FROM files ORDER BY name")
    return RunStatus(
        kind=spec.get("kind", ""),
        spec=spec,
        fingerprint=described.fingerprint,
        running=running,
        counts=counts,
        missing=rows - sum(counts.values()),
        usage=Usage(*map(int, usage)),
        cost_usd=spent[0][0] if spent else 0.0,
        api_calls=int(api_calls),
        seconds=seconds,
        reasons=dict(reasons),
        files=dict(files),
    )


def read_items(folder: Path, state: ItemState | None = None) -> Iterator[ItemRecord]:
    """Yield the items of a run in the order of the dataset."""
    with closing(_open_to_read(folder)) as db:
        rows: Any = db.execute(
            "SELECT key, row_index, repeat, occurrence, state, attempts, crashes, reason, "
            "boundary, worker, usage_input, usage_output, usage_cache_read, usage_cache_write, "
            "usage_reasoning, cost_usd, api_calls, seconds, file FROM items "
            "WHERE ? IN (state, '') ORDER BY row_index, repeat",
            (state or "",),
        )
        for row in rows:
            yield ItemRecord(*(*row[:10], Usage(*row[10:15]), *row[15:]))


def is_running(folder: Path) -> bool:
    """Return whether a driver works on the run."""
    try:
        with file_lock(folder / LOCK, 0):
            return False
    except TimeoutError:
        return True


def _open_to_read(folder: Path) -> apsw.Connection:
    path = folder / LEDGER
    if not path.exists():
        raise UsageError(f"there is no run in {folder}", hint="hermes batch list")
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        db.set_busy_timeout(5000)
    except apsw.Error as error:
        raise as_store_error(error, path) from error
    return db
