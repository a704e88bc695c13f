"""One Hermes at a time changes which worktrees a repository has: git does not see to that."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from importlib import import_module

from hermes.app.user_git import GitFailed
from hermes.app.worktrees.repository import Repository

NAME = "hermes-worktrees.lock"
LOCK_SECONDS = 60.0
_PAUSE = 0.02


@contextlib.asynccontextmanager
async def locked(repository: Repository) -> AsyncIterator[None]:
    """The lock goes with the process that holds it. Raises `GitFailed`."""
    filelock = import_module("filelock")  # slow to load
    lock = filelock.FileLock(repository.common / NAME, mode=0o600, fallback_to_soft=False)
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except filelock.Timeout as error:
            if time.monotonic() > end:
                raise GitFailed("another Hermes is busy with the worktrees") from error
            await asyncio.sleep(_PAUSE)
        except OSError as error:
            reason = error.strerror or str(error)
            raise GitFailed(f"{repository.common} cannot be written: {reason}") from error
    try:
        yield
    finally:
        lock.release()
