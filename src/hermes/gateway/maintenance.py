"""Periodic work of the gateway: stuck turns, session resets, old files and messages, the model
list."""

import asyncio
import logging

from hermes.app.outgoing_files import remove_old_copies
from hermes.app.session_store import back_up_when_due
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
"""Maximum number of sessions per round that are opened only to save their memory before they end.
"""


class Maintenance:
    def __init__(
        self,
        gateway: GatewayContext,
        dispatcher: ChatDispatcher,
        directory: ChatDirectory,
        cache: MediaCache,
    ) -> None:
        self._gateway, self._dispatcher = gateway, dispatcher
        self._directory, self._cache = directory, cache
        self._learn_at = 0.0

    async def run(self) -> None:
        """Run until cancelled."""
        rounds = 0
        while True:
            await self._gateway.clock.sleep(EVERY)
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
        """Stop turns without any activity; their users are informed."""
        most = self._gateway.app.loaded.settings.gateway.stuck_minutes * 60
        now = self._gateway.clock.monotonic()
        for worker in self._dispatcher.busy_workers():
            if (
                worker.busy
                and not worker.questions.has_open
                and now - worker.turn.last_activity > most
            ):
                log.warning(
                    "%s: a turn was stopped because it was inactive for too long", worker.key
                )
                worker.turn.stop("stuck")

    async def expire(self) -> None:
        """End the sessions that the reset settings end; their memory is saved."""
        chats = await self._gateway.store.chats.select()
        over = [chat.session_key for chat in chats if self._gateway.reset_reason(chat)]
        busy = {worker.key for worker in self._dispatcher.busy_workers() if worker.working}
        free = [key for key in over if key not in busy]
        closed = [key for key in free if self._gateway.sessions.get(key) is None]
        later = frozenset(closed[MOST_CLOSED:])
        free = [key for key in free if key not in later]
        ends = [
            asyncio.ensure_future(self._dispatcher.check_reset(key).wait_finished()) for key in free
        ]
        if ends:
            await asyncio.wait(ends, timeout=EVERY)

    async def clean(self) -> None:
        settings = self._gateway.app.loaded.settings.gateway
        now = self._gateway.now()
        await self._gateway.store.clean_queues(now - settings.keep_days * DAY)
        before = now - settings.media_keep_days * DAY
        gone = await asyncio.to_thread(self._cache.clean, before)
        gone += await asyncio.to_thread(remove_old_copies, self._gateway.app.home.root, before)
        if gone:
            log.info("removed %d old files of chats", gone)
        app = self._gateway.app
        await asyncio.to_thread(back_up_when_due, app.home, app.loaded.settings)

    def learn_models(self) -> None:
        """Refresh the model list of the endpoint in use, in the background and at most once a day.
        Failures are logged."""
        now = self._gateway.clock.monotonic()
        if now >= self._learn_at and self._gateway.app.providers.learn_meanwhile():
            self._learn_at = now + DAY
