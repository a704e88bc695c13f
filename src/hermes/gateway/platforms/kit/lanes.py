"""Work of one chat is done in order; chats do not wait for each other."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class Lanes:
    """A lane has a task only while there is something to do."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._waiting: dict[str, deque[Work]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, lane: str, work: Work) -> None:
        if lane in self._waiting:
            self._waiting[lane].append(work)
            return
        self._waiting[lane] = deque([work])
        task = asyncio.create_task(self._run(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """What is not done is dropped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, lane: str) -> None:
        waiting = self._waiting[lane]
        try:
            while waiting:
                try:
                    await waiting.popleft()()
                except Exception:  # one message that cannot be read must not end its chat
                    logger.exception("something from %s could not be worked on", self._platform)
        finally:
            del self._waiting[lane]
