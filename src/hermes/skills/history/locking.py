"""One writer of skills at a time, in this process and in all others."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path

from hermes.core.errors import StoreError

LOCK_FILE = ".history.lock"
LOCK_SECONDS = 20.0
_PAUSE = 0.02


@contextlib.asynccontextmanager
async def locked(folder: Path) -> AsyncIterator[None]:
    """Alone with the skills in `folder`; the lock goes with the process that holds it."""
    filelock = import_module("filelock")  # slow to load, and most sessions change no skill
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / LOCK_FILE, mode=0o600, fallback_to_soft=False)
        await _acquired(lock, filelock.Timeout)
    except OSError as error:
        raise StoreError(
            f"the skills in {folder} cannot be locked: {error.strerror or error}",
            hint="look at the owner and the permissions of that folder",
        ) from error
    try:
        yield
    finally:
        lock.release()


async def _acquired(lock: object, held: type[TimeoutError]) -> None:
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            lock.acquire(blocking=False)  # type: ignore[attr-defined]  # loaded late, so untyped
            return
        except held as error:
            if time.monotonic() > end:
                raise StoreError(
                    "another Hermes is changing skills", hint="try again in a moment"
                ) from error
            await asyncio.sleep(_PAUSE)
