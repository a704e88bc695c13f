"""Lock files that are awaited without blocking the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

POLL_SECONDS = 0.05


@asynccontextmanager
async def async_file_lock(
    path: Path, seconds: float, on_wait: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Hold the lock file; `on_wait` is called once if another process holds it.

    Raises `TimeoutError` after `seconds`, and `OSError`.
    """
    import filelock  # slow to load, and rarely needed

    lock = filelock.FileLock(path, mode=0o600, fallback_to_soft=False)
    loop = asyncio.get_running_loop()
    deadline, waited = loop.time() + seconds, False
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except filelock.Timeout:  # a TimeoutError of its own
            if loop.time() >= deadline:
                raise TimeoutError(f"{path} is locked by another process") from None
            if not waited:
                on_wait()
            waited = True
            await asyncio.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()
