"""Copies of a store under a dated name, beside it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import apsw

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
