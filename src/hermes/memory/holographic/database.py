"""The file with the facts: opening it, and what to do when it is damaged."""

import contextlib
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import apsw

from hermes.core.errors import StoreCorrupt, StoreError
from hermes.store.sqlite.faults import patiently
from hermes.store.sqlite.transaction import transaction

VERSION = 1
BUSY_MILLISECONDS = 2000
LOCK_SECONDS = 5

SCHEMA = """
CREATE TABLE facts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,                 -- whose fact; '' is the owner
    text TEXT NOT NULL,
    terms TEXT NOT NULL,                -- its words, folded: equal texts have equal terms
    subject TEXT NOT NULL DEFAULT '',   -- what it claims, if that could be told
    attribute TEXT NOT NULL DEFAULT '',
    value TEXT NOT NULL DEFAULT '',
    source TEXT NOT NULL,               -- said, tool, or notes:<target>
    session TEXT NOT NULL,              -- in which it was said last
    trust REAL NOT NULL,                -- 0 to 1
    created REAL NOT NULL,
    confirmed REAL NOT NULL,
    used REAL NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    replaced_by INTEGER REFERENCES facts (id) ON DELETE SET NULL
);
CREATE UNIQUE INDEX facts_same ON facts (user, terms);
CREATE INDEX facts_claims ON facts (user, subject, attribute) WHERE attribute <> '';
CREATE TABLE links (
    fact INTEGER NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    entity TEXT NOT NULL,               -- folded
    PRIMARY KEY (fact, entity)
) WITHOUT ROWID;
CREATE INDEX links_by_entity ON links (entity);
CREATE TABLE vectors (
    fact INTEGER PRIMARY KEY REFERENCES facts (id) ON DELETE CASCADE,
    model TEXT NOT NULL,
    vector BLOB NOT NULL                -- of unit length, 32-bit floats
);
CREATE TABLE seen (
    user TEXT NOT NULL,
    print BLOB NOT NULL,                -- of a statement that was considered once
    PRIMARY KEY (user, print)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE facts_words USING fts5 (
    terms, content='facts', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
INSERT INTO facts_words (facts_words, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
    INSERT INTO facts_words (rowid, terms) VALUES (new.id, new.terms);
END;
CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
    INSERT INTO facts_words (facts_words, rowid, terms) VALUES ('delete', old.id, old.terms);
END;
CREATE TRIGGER facts_changed AFTER UPDATE OF terms ON facts BEGIN
    INSERT INTO facts_words (facts_words, rowid, terms) VALUES ('delete', old.id, old.terms);
    INSERT INTO facts_words (rowid, terms) VALUES (new.id, new.terms);
END;
"""

DAMAGED = (apsw.NotADBError, apsw.CorruptError)


def open_facts(path: Path, tell: Callable[[str], None]) -> apsw.Connection:
    """A connection to the facts, which are made when they are not there. A damaged file is set
    aside, the user is told, and a fresh one takes its place. Raises `StoreError`."""
    try:
        return _connect(path)
    except DAMAGED as damage:
        _replace(path, damage, tell)
    except (apsw.Error, OSError) as error:
        raise unusable(path, error) from error
    try:
        return _connect(path)
    except (apsw.Error, OSError) as error:
        raise unusable(path, error) from error


def unusable(path: Path, error: Exception) -> StoreError:
    hint = "look at the permissions of the file and its folder, and at the room on the disk"
    if isinstance(error, DAMAGED):
        return StoreCorrupt(
            f"the facts in {path} are damaged ({error})", hint="it will be replaced"
        )
    return StoreError(f"the facts in {path} cannot be used ({error})", hint=hint)


def _connect(path: Path) -> apsw.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = apsw.Connection(str(path))
    with contextlib.ExitStack() as undo:
        undo.callback(connection.close)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what is forgotten is not in the file
        patiently(lambda: _prepare(connection))
        undo.pop_all()
    return connection


def _prepare(connection: apsw.Connection) -> None:
    found = _version(connection)
    if found > VERSION:
        raise apsw.CantOpenError("it was written by a later version of Hermes")
    if found == 0:
        with transaction(connection):
            if _version(connection) == 0:  # another process may have been faster
                connection.execute(SCHEMA)
                connection.execute(f"PRAGMA user_version = {VERSION}")
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise apsw.CorruptError(" ".join(str(verdict).split()))


def _version(connection: apsw.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    return int(str(version))


def _replace(path: Path, damage: Exception, tell: Callable[[str], None]) -> None:
    """Move the damaged file away, unless another process has done so by now."""
    lock = import_module("filelock").FileLock(path.with_name(".lock"), timeout=LOCK_SECONDS)
    try:
        with lock:
            try:
                _connect(path).close()
            except DAMAGED:
                aside = _set_aside(path)
            else:
                return
    except (OSError, apsw.Error, TimeoutError) as error:
        raise unusable(path, damage) from error
    tell(f"the facts in {path} were damaged ({damage}); they are kept as {aside.name}")


def _set_aside(path: Path) -> Path:
    stamp = datetime.fromtimestamp(time.time(), UTC).strftime("%Y%m%d-%H%M%S")
    aside, number = path.with_name(f"{path.name}.damaged-{stamp}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{number}")
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside
