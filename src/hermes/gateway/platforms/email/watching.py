"""Takes new mail, one after the other: each is offered until it is kept, and only then passed."""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import AdapterError, NotConnected
from hermes.gateway.platforms.email import progress
from hermes.gateway.platforms.email.bell import Bell
from hermes.gateway.platforms.email.desk import Desk
from hermes.gateway.platforms.email.mailbox import BATCH, Head, Mailbox
from hermes.gateway.platforms.email.options import Options
from hermes.gateway.platforms.email.progress import Place

log = logging.getLogger(__name__)

MOST_BREAKS = 3

Take = Callable[[Head, int], Awaitable[bool]]
"""Takes the mail with this UIDVALIDITY, for as long as that needs; False when it is not for us."""


class Watch:
    def __init__(
        self, options: Options, desk: Desk, bell: Bell, state: Path, clock: Clock, take: Take
    ) -> None:
        self._folder, self._desk, self._bell = options.extra.folder, desk, bell
        self._clock, self._take = clock, take
        name = f"{options.address}\0{options.imap.name}\0{self._folder}"
        self._file = state / f"inbox-{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
        self._place: Place | None = None
        self._breaks = (0, 0)
        """The mail that broke the connection last, and how often in a row."""

    async def begin(self) -> None:
        """Find the place. The first time ever it is the end: mail that was there before us is not
        answered. Raises `AdapterError`."""
        validity, following = await self._desk.use(lambda box: box.state(self._folder))
        known = progress.load(self._file)
        if known is None:
            known = self._moved(validity, following - 1)
        self._place = known

    async def look(self, works: Callable[[], None]) -> None:
        """Take what is new, say that this works, and wait for the bell. Raises `AdapterError`."""
        try:
            await self._bell.arm()
            await self._look()
            works()
            await self._bell.wait()
        except OSError as error:
            raise AdapterError(f"Email: the state cannot be written: {error.strerror}") from error

    async def _look(self) -> None:
        place = self._place
        if place is None:
            return
        validity, following = await self._desk.use(lambda box: box.state(self._folder))
        if validity != place.validity:
            uids = await self._renumbered(place, validity)
        elif following > place.uid + 1:
            uids = await self._desk.use(lambda box: box.after(self._folder, place.uid))
        else:
            return
        for start in range(0, len(uids), BATCH):
            heads = partial(Mailbox.heads, folder=self._folder, uids=uids[start : start + BATCH])
            for head in await self._desk.use(heads):
                await self._pass(head, validity)

    async def _renumbered(self, place: Place, validity: int) -> list[int]:
        """The server gave new numbers: whatever came since a day before the last mail is offered
        again, and the gateway knows by the Message-ID what it had."""
        log.warning("Email: the server has numbered the mail of %s anew", self._folder)
        day = (datetime.fromtimestamp(place.at, UTC) - timedelta(days=1)).date()
        uids = await self._desk.use(lambda box: box.since(self._folder, day))
        self._place = self._moved(validity, min(uids) - 1 if uids else 0)
        return uids

    async def _pass(self, head: Head, validity: int) -> None:
        taken = await self._taken(head, validity)
        self._place = self._moved(validity, head.uid)
        if taken:
            await self._mark(head.uid)

    async def _taken(self, head: Head, validity: int) -> bool:
        """A mail that breaks the connection again and again does not hold up the others."""
        try:
            return await self._take(head, validity)
        except NotConnected as error:
            await self._desk.use(Mailbox.alive)  # raises when it is not the mail
            uid, times = self._breaks
            self._breaks = (head.uid, times + 1 if uid == head.uid else 1)
            if self._breaks[1] < MOST_BREAKS:
                raise
            log.error("Email: mail %s is left in the mailbox: %s", head.uid, error)
            return False

    async def _mark(self, uid: int) -> None:
        """The mark only helps people; what counts is the place."""
        try:
            await self._desk.use(lambda box: box.mark_seen(self._folder, uid))
        except AdapterError as error:
            log.warning("a mail that was taken is not marked as read: %s", error)

    def _moved(self, validity: int, uid: int) -> Place:
        place = Place(validity, uid, self._clock.now().timestamp())
        progress.save(self._file, place)
        return place
