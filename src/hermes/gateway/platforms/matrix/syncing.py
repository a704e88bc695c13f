"""The synchronisation with the homeserver. It is told that we have read on only once the gateway
has kept everything."""

import logging
from collections.abc import Awaitable, Callable

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.matrix.bookmark import Bookmark
from hermes.gateway.platforms.matrix.failures import is_login_refused, of_connecting, told
from hermes.gateway.platforms.matrix.shapes import Json, word
from hermes.gateway.platforms.matrix.wire import TROUBLE, Refusal, Wire, path

log = logging.getLogger(__name__)

HOLD = 30
"""Seconds that the homeserver waits for something new before it answers."""
SLACK = 20.0
FIRST = 120.0
"""Seconds for the first answer, which has all our rooms in it."""
LONGEST_PAUSE = 30.0
MOST_FAILURES = 3
"""In a row; then something is wrong, whatever other calls say."""
NOTHING = {"not_types": ["*"]}
FILTER = msgspec.json.encode(
    {
        "presence": NOTHING,
        "account_data": {"types": ["m.direct"]},
        "room": {
            "timeline": {"limit": 50},
            "state": {"lazy_load_members": True},
            "ephemeral": NOTHING,
            "account_data": NOTHING,
        },
    }
).decode()


class Syncing:
    def __init__(
        self,
        wire: Wire,
        bookmark: Bookmark,
        clock: Clock,
        absorb: Callable[[Json], Awaitable[None]],
        take: Callable[[Json], Awaitable[None]],
    ) -> None:
        """`absorb` learns of rooms and keys from an answer; `take` returns when the gateway has
        every message of it."""
        self._wire, self._bookmark, self._clock = wire, bookmark, clock
        self._absorb, self._take = absorb, take
        self._failures = 0

    async def start(self, connection: Connection) -> None:
        """Raises when the homeserver does not give us what is new."""
        with told():
            try:
                first = await self._fetch(whole=True)
            except Refusal as error:
                if error.status != 400 or not self._bookmark.since:
                    raise
                log.error("Matrix does not know how far we had read: %s", error)
                self._bookmark.move("")
                first = await self._fetch(whole=True)
        await self._absorb(first)  # who sends before that would not know which rooms are encrypted
        connection.flow(self._run(connection, first))

    async def _run(self, connection: Connection, answer: Json) -> None:
        """Ends when what is new cannot be taken: what follows would be taken for read."""
        with told():  # only what trying again does not help with
            while True:
                await self._take(answer)
                self._bookmark.move(word(answer, "next_batch"))
                await self._bookmark.keep()
                answer = await self._fetch_insistently(connection)
                await self._absorb(answer)

    async def _fetch_insistently(self, connection: Connection) -> Json:
        pause = 0.1
        while True:
            try:
                answer = await self._fetch()
            except TROUBLE as error:
                if is_login_refused(error):
                    raise
                log.info("%s", of_connecting(error))
                self._failures += 1
                if self._failures >= MOST_FAILURES:
                    connection.trouble = NotConnected("Matrix does not say what is new")
                wished = error.seconds if isinstance(error, Refusal) else 0.0
                await self._clock.sleep(max(pause, wished))
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._failures = 0
                connection.works()
                return answer

    async def _fetch(self, *, whole: bool = False) -> Json:
        # After trouble the first answer is wanted at once.
        hold = 0 if whole or self._failures else HOLD
        query = {"filter": FILTER, "timeout": str(hold * 1000)}
        if whole:
            query["full_state"] = "true"
        if self._bookmark.since:
            query["since"] = self._bookmark.since
        patience = FIRST if whole else hold + SLACK
        return await self._wire.get(path("sync"), query, patience=patience)
