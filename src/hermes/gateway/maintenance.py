"""What is done from time to time: old conversations, stuck turns, old files, old messages, the list
of models."""

import asyncio
import logging

from hermes.app.outgoing_files import remove_old_copies
from hermes.core.errors import HermesError
from hermes.gateway.context import GatewayContext
from hermes.gateway.directory import ChatDirectory
from hermes.gateway.dispatcher import ChatDispatcher
from hermes.gateway.platforms.kit.media import MediaCache

log = logging.getLogger(__name__)

EVERY = 60.0
RARELY = 60
"""Rounds between two clean-ups."""
DAY = 86_400.0
MOST_CLOSED = 20
"""Conversations that are not open and end in one round: each is opened to save what matters."""


class Maintenance:
    def __init__(
        self,
        house: GatewayContext,
        floor: ChatDispatcher,
        directory: ChatDirectory,
        cache: MediaCache,
    ) -> None:
        self._house, self._floor = house, floor
        self._directory, self._cache = directory, cache
        self._learn_at = 0.0

    async def run(self) -> None:
        """Until it is cancelled."""
        rounds = 0
        while True:
            await self._house.clock.sleep(EVERY)
            rounds += 1
            try:
                self.stop_stuck()
                await self.expire()
                if rounds % RARELY == 1:
                    await self.clean()
                    self.learn_models()
                await asyncio.to_thread(self._directory.save)
            except (HermesError, OSError) as error:
                log.error("maintenance: %s", error)

    def stop_stuck(self) -> None:
        """A turn without any sign of life is stopped; whoever waits is told."""
        most = self._house.app.loaded.settings.gateway.stuck_minutes * 60
        now = self._house.clock.monotonic()
        for worker in self._floor.workers():
            if worker.busy and not worker.asker.waits and now - worker.turning.last_sign > most:
                log.warning("%s: a turn is stopped, it showed no sign of life", worker.key)
                worker.turning.stop("stuck")

    async def expire(self) -> None:
        """End conversations that are over by the settings; what matters of them is saved."""
        chats = await self._house.store.chats.select()
        over = [chat.session_key for chat in chats if self._house.is_over(chat)]
        busy = {worker.key for worker in self._floor.workers() if worker.working}
        free = [key for key in over if key not in busy]
        closed = [key for key in free if self._house.conversations.get(key) is None]
        later = frozenset(closed[MOST_CLOSED:])
        free = [key for key in free if key not in later]
        ends = [asyncio.ensure_future(self._floor.review(key).ended()) for key in free]
        if ends:
            await asyncio.wait(ends, timeout=EVERY)

    async def clean(self) -> None:
        settings = self._house.app.loaded.settings.gateway
        now = self._house.now()
        await self._house.store.clean_queues(now - settings.keep_days * DAY)
        before = now - settings.media_keep_days * DAY
        gone = await asyncio.to_thread(self._cache.clean, before)
        gone += await asyncio.to_thread(remove_old_copies, self._house.app.home.root, before)
        if gone:
            log.info("%d old files from chats were removed", gone)

    def learn_models(self) -> None:
        """Ask the endpoint in use for its models when what is known of them is a day old. Nobody
        waits for it. One that does not tell is in the log, and asked again after a day."""
        now = self._house.clock.monotonic()
        if now >= self._learn_at and self._house.app.providers.learn_meanwhile():
            self._learn_at = now + DAY
