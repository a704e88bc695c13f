"""Long polling. Telegram forgets an update when a later one is asked for, so that happens only once
the gateway has kept it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import msgspec
from telegram import Bot
from telegram.error import Conflict, InvalidToken, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import CredentialsRefused, NotConnected
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.telegram.failures import TooOften, of_connecting, told

log = logging.getLogger(__name__)

UPDATES = ("message", "channel_post", "callback_query")
"""Kinds of updates that are asked for; edits are not."""
LIMIT = 100
HOLD = 25
"""Seconds that Telegram waits for an update before it answers."""
SLACK = 15.0
MOST_CONFLICTS = 3
"""A gateway that was just killed may still be waiting for its answer."""
LONGEST_PAUSE = 30.0

Update = dict[str, Any]


class Poller:
    def __init__(
        self,
        bot: Bot,
        clock: Clock,
        look: Callable[[Update], None],
        handle: Callable[[Update], Awaitable[bool]],
    ) -> None:
        """`look` sees each update as it comes; `handle` says whether it was kept."""
        self._bot, self._clock, self._look, self._handle = bot, clock, look, handle
        self._offset = 0
        self._up_to_date = asyncio.Event()

    async def start(self, connection: Connection) -> None:
        """Raises when Telegram does not give us the updates."""
        with told():
            await self._bot.delete_webhook(drop_pending_updates=False)
            await self._first()
        connection.ends.push_async_callback(self._tell_kept)
        connection.flow(self._run())

    async def ask(self) -> None:
        with told():
            await self._bot.get_me()

    async def catch_up(self, patience: float) -> None:
        """Until every update that was waiting at Telegram has been seen."""
        try:
            async with asyncio.timeout(patience):
                await self._up_to_date.wait()
        except TimeoutError:
            raise NotConnected("Telegram still has older messages for us") from None

    async def _tell_kept(self) -> None:
        """So that it does not come again."""
        if not self._offset:
            return
        try:
            await self._fetch(hold=0, limit=1, patience=2.0)
        except TelegramError as error:
            log.info("Telegram was not told what was kept: %s", of_connecting(error))

    async def _first(self) -> None:
        """One poll that does not wait. The one of a gateway just killed may be in the way."""
        for attempt in range(MOST_CONFLICTS):
            try:
                self._seen(await self._fetch(hold=0, limit=LIMIT))
            except Conflict as error:
                if attempt == MOST_CONFLICTS - 1:
                    raise of_connecting(error) from None
                await self._clock.sleep(1.0)
            else:
                return

    async def _run(self) -> None:
        """Ends when we are not accepted, or somebody else gets the updates."""
        pause, conflicts = 0.0, 0
        while True:
            try:
                # After trouble the first answer is wanted at once: it says what we missed.
                hold = HOLD if self._up_to_date.is_set() else 0
                updates = await self._fetch(hold=hold, limit=LIMIT)
            except (Conflict, InvalidToken) as error:
                conflicts += 1
                self._up_to_date.clear()  # another one may have got some
                failure = of_connecting(error)
                if isinstance(failure, CredentialsRefused) or conflicts >= MOST_CONFLICTS:
                    raise failure from None
                pause = 1.0
            except TelegramError as error:
                log.info("%s", of_connecting(error))
                self._up_to_date.clear()
                wished = error.seconds if isinstance(error, TooOften) else 0.0
                pause = max(min(pause * 2 or 0.1, LONGEST_PAUSE), wished)
            else:
                conflicts = 0
                self._seen(updates)
                pause = 0.0 if await self._all_kept(updates) else min(pause * 2 or 0.2, 5.0)
            if pause:
                await self._clock.sleep(pause)

    def _seen(self, updates: list[Update]) -> None:
        for update in updates:
            self._look(update)
        if len(updates) < LIMIT:
            self._up_to_date.set()

    async def _all_kept(self, updates: list[Update]) -> bool:
        """One after the other; after one that is not kept the rest waits too."""
        for update in updates:
            if not await self._handle(update):
                return False
            self._offset = max(self._offset, update["update_id"] + 1)
        return True

    async def _fetch(self, *, hold: int, limit: int, patience: float = SLACK) -> list[Update]:
        """Not `Bot.get_updates`: one update that the library cannot read would fail them all."""
        query: dict[str, Any] = {
            "timeout": hold,
            "limit": limit,
            "allowed_updates": msgspec.json.encode(UPDATES).decode(),
        }
        if self._offset:
            query["offset"] = self._offset
        found = await self._bot.request.post(
            f"{self._bot.base_url}/getUpdates?{urlencode(query)}",
            read_timeout=hold + patience,
            connect_timeout=patience,
        )
        return found if isinstance(found, list) else []
