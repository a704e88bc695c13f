"""News of background processes: when one ends, the chat it was started in hears of it."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from hermes.agent import Agent
from hermes.config.settings.display import DisplaySettings
from hermes.core.errors import HermesError
from hermes.core.messages import User
from hermes.gateway.messages import OURS
from hermes.gateway.platforms.kit.contract import MessageEvent, SessionSource
from hermes.store.records import InboxItem
from hermes.store.session_store import SessionStore
from hermes.util.text import clean

log = logging.getLogger(__name__)

Arrived = Callable[[str], None]
"""Told of the chat for which something was kept that nobody said; it waits for its turn."""


class News:
    """Listens to the agents that are open. What they should hear is kept as a message of its own,
    so that it is answered once like any other."""

    def __init__(
        self,
        store: SessionStore,
        display: DisplaySettings,
        now: Callable[[], float],
        busy: Callable[[str], bool],
    ) -> None:
        self._store, self._wanted, self._now = store, display.background_process_notifications, now
        self._busy = busy
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.arrived: Arrived = lambda _key: None

    def listen(self, key: str, agent: Agent, source: SessionSource) -> None:
        """In the place of whom we listened to before."""
        self.forget(key)
        if self._wanted != "off":
            self._tasks[key] = asyncio.create_task(self._listen(key, agent, source))

    def forget(self, key: str) -> None:
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def _listen(self, key: str, agent: Agent, source: SessionSource) -> None:
        while True:
            await agent.pending.wait()
            if agent.running or self._busy(key):  # the turn itself hears it
                await asyncio.sleep(0.1)
                continue
            news = agent.pending.take()
            if news is not None and self._matters(news):
                await self._keep(key, agent, source, news)

    def _matters(self, news: User) -> bool:
        ended = "exited" in news.text or "exit code" in news.text
        match self._wanted:
            case "result":
                return ended
            case "error":
                return ended and "exit code 0" not in news.text
            case _:
                return True

    async def _keep(self, key: str, agent: Agent, source: SessionSource, news: User) -> None:
        now = self._now()
        name = f"{OURS}news:{agent.session_id}:{now:.6f}"
        event = MessageEvent(source, name, clean(news.text), sent_at=now)
        kept = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        try:
            row = await self._store.inbox.receive(kept, now)
        except HermesError as error:
            log.error("news of a process are lost: %s", error)
            return
        if row is not None:
            self.arrived(key)

    def close(self) -> None:
        for key in tuple(self._tasks):
            self.forget(key)
