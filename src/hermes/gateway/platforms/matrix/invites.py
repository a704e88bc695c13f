"""Invitations. All are followed: only who is in a room hears what is said there, and whether it is
answered is decided for each message. But not many at a time."""

import asyncio
import logging

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import Rate
from hermes.gateway.platforms.kit.buckets import Buckets
from hermes.gateway.platforms.matrix.bookmark import Bookmark, Invite
from hermes.gateway.platforms.matrix.rooms import Rooms
from hermes.gateway.platforms.matrix.shapes import Json, at, table, tables, word
from hermes.gateway.platforms.matrix.wire import TROUBLE, Refusal, Wire, path

log = logging.getLogger(__name__)

PER_PERSON, ALL = Rate(6, 60.0), Rate(30, 60.0)
JOINING = 120.0
"""Seconds; a room on other servers takes its time."""
PAUSE = 10.0
MOST_ATTEMPTS = 10


class Invites:
    def __init__(self, wire: Wire, bookmark: Bookmark, rooms: Rooms, me: str, clock: Clock) -> None:
        self._wire, self._bookmark, self._rooms, self._me = wire, bookmark, rooms, me
        self._buckets = Buckets(PER_PERSON, ALL, clock)
        self._attempts: dict[str, int] = {}
        self._news = asyncio.Event()

    def see(self, sync: Json) -> None:
        for room_id, found in table(sync, "rooms", "invite").items():
            for event in tables(found, "invite_state", "events"):
                ours = event.get("type") == "m.room.member" and event.get("state_key") == self._me
                if ours and word(event, "content", "membership") == "invite":
                    direct = at(event, "content", "is_direct") is True
                    self.add(room_id, Invite(word(event, "sender"), direct))
        for kind in ("leave", "join"):
            for room_id in table(sync, "rooms", kind):
                self._bookmark.answered(room_id)

    def add(self, room_id: str, invite: Invite) -> None:
        self._bookmark.invited(room_id, invite)
        self._news.set()

    async def run(self) -> None:
        """Follow them, until cancelled."""
        while True:
            self._news.clear()
            await self._bookmark.keep()  # after a crash we must know why we came
            for room_id, invite in self._bookmark.invites.items():
                if self._buckets.take(invite.by):
                    await self._join(room_id, invite)
            await self._bookmark.keep()
            try:
                async with asyncio.timeout(PAUSE if self._bookmark.invites else None):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _join(self, room_id: str, invite: Invite) -> None:
        try:
            via = {"via": invite.via, "server_name": invite.via} if invite.via else None
            await self._wire.call("POST", path("join", room_id), {}, query=via, patience=JOINING)
            if invite.direct:
                where = path("user", self._me, "account_data", "m.direct")
                content = self._rooms.directs_with(invite.by, room_id)
                await self._wire.call("PUT", where, content)
        except TROUBLE as error:
            tried = self._attempts[room_id] = self._attempts.get(room_id, 0) + 1
            final = isinstance(error, Refusal) and error.status in (400, 403, 404)
            if not final and tried < MOST_ATTEMPTS:
                log.info("a room cannot be joined yet: %s", error)
                return
            log.warning("the invitation of %s to %s came to nothing: %s", invite.by, room_id, error)
        self._attempts.pop(room_id, None)
        self._bookmark.answered(room_id)
