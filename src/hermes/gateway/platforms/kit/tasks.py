"""Work beside everything else, which ends with what it belongs to."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """Small ones that come and go."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """What is not over is cancelled."""
        await ended(*self._running)


async def ended(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel tasks and wait for their end."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
