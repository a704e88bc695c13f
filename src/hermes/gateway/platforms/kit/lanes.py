"""Work of one chat is done in order; chats do not wait for each other."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

from hermes.gateway.platforms.kit.tasks import Tasks

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class Lanes:
    """A lane has a task only while there is something to do."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._waiting: dict[str, deque[Work]] = {}
        self._tasks = Tasks()

    def put(self, lane: str, work: Work) -> None:
        if lane in self._waiting:
            self._waiting[lane].append(work)
            return
        self._waiting[lane] = deque([work])
        self._tasks.start(self._run(lane))

    async def close(self) -> None:
        """What is not done is dropped."""
        await self._tasks.close()

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
