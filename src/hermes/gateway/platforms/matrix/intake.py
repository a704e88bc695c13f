"""What a synchronisation brings, on its way to the gateway."""

import logging
from functools import partial
from typing import Protocol

import msgspec

from hermes.config.settings.platforms import MatrixSettings
from hermes.core.ports import Clock
from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import Receive
from hermes.gateway.platforms.kit.mentions import is_for_us, rules_from
from hermes.gateway.platforms.kit.offering import offer
from hermes.gateway.platforms.kit.tasks import Tasks
from hermes.gateway.platforms.matrix import reading
from hermes.gateway.platforms.matrix.bookmark import Bookmark, Sealed
from hermes.gateway.platforms.matrix.invites import Invites
from hermes.gateway.platforms.matrix.moves import Moves
from hermes.gateway.platforms.matrix.patience import insistently, tried
from hermes.gateway.platforms.matrix.quotes import Quotes
from hermes.gateway.platforms.matrix.rooms import Room, Rooms
from hermes.gateway.platforms.matrix.shapes import Json, table, word
from hermes.gateway.platforms.matrix.timeline import new_events
from hermes.gateway.platforms.matrix.wire import Wire, path
from hermes.gateway.platforms.matrix.words import Me, mentions_us

log = logging.getLogger(__name__)

UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What reading an event that nobody thought of may raise."""


class Opener(Protocol):
    async def absorb(self, sync: Json) -> None: ...
    def open(self, room_id: str, event: Json) -> Json | None: ...
    def has_key(self, room_id: str, event: Json) -> bool: ...


class Intake:
    def __init__(
        self,
        wire: Wire,
        clock: Clock,
        me: Me,
        settings: MatrixSettings,
        receive: Receive,
        *,
        bookmark: Bookmark,
        rooms: Rooms,
        invites: Invites,
        moves: Moves,
        errands: Tasks,
        opener: Opener | None,
    ) -> None:
        self._wire, self._clock, self._me, self._settings = wire, clock, me, settings
        self._receive, self._rules = receive, rules_from(settings)
        self._bookmark, self._rooms, self._invites = bookmark, rooms, invites
        self._moves, self._errands, self._opener = moves, errands, opener
        self._quotes = Quotes(wire, clock, self._open)
        self._told: set[str] = set()
        """Rooms that are known to be encrypted while we are not able to read that."""

    async def absorb(self, sync: Json) -> None:
        """Learn of rooms, keys and invitations."""
        self._rooms.absorb(sync)
        if self._opener is not None:
            await self._opener.absorb(sync)
        self._invites.see(sync)
        self._moves.absorb(sync)

    async def take(self, sync: Json) -> None:
        """Returns when the gateway has everything that is new. Raises `Refusal` when the homeserver
        refuses us."""
        since = self._bookmark.since
        if not since:
            return  # the first time there is nothing to make up for
        await self._unseal()
        for room_id, joined in table(sync, "rooms", "join").items():
            room, nothing = self._rooms[room_id], list[Json]()
            missed = partial(new_events, self._wire, room, joined, since, self._me.user_id)
            events = await insistently(missed, self._clock, nothing, "what was said in a room")
            for event in events:
                if not self._bookmark.has_taken(word(event, "event_id")):
                    await self._heard(room, event)
                    self._bookmark.took(word(event, "event_id"))
            self._receipt(room_id, events)

    async def _heard(self, room: Room, event: Json) -> None:
        if event.get("type") == reading.ENCRYPTED:
            opened = self._open(room.id, event)
            if opened is None:
                self._set_aside(room, event)
                return
            event = opened
        try:
            message = await self._read(room, event)
        except UNREADABLE:
            log.exception("an event of %s cannot be read", room.id)
            return
        if message is not None:
            await offer(self._receive, message, self._clock.sleep)

    async def _read(self, room: Room, event: Json) -> MessageEvent | None:
        """None when it is nothing to the gateway."""
        self._quotes.note(event)
        if not reading.is_said(event, self._me.user_id):
            return None
        content = table(event, "content")
        thread, reply_to = reading.thread_of(content), reading.answered(content)
        reply = await self._quotes.find(room.id, reply_to) if reply_to else None
        in_talk = bool(thread) and self._bookmark.talks_in(thread)
        message = reading.event_of(event, room, self._me, reply=reply, in_talk=in_talk)
        if not (message.text.strip() or message.media) or not is_for_us(message, self._rules):
            return None
        if self._opens_thread(room, content):
            source = msgspec.structs.replace(message.source, thread_id=message.message_id)
            message = msgspec.structs.replace(message, source=source)
        return message

    def _opens_thread(self, room: Room, content: Json) -> bool:
        """A thread begins with a message that is in none and answers nothing."""
        settings = self._settings
        private = room.chat_type == "dm"
        wanted = settings.dm_mention_threads if private else settings.auto_thread
        return wanted and "m.relates_to" not in content and mentions_us(content, self._me)

    def _open(self, room_id: str, event: Json) -> Json | None:
        return self._opener.open(room_id, event) if self._opener is not None else None

    def _set_aside(self, room: Room, event: Json) -> None:
        if word(event, "sender") == self._me.user_id:
            return
        if self._opener is not None:
            log.warning("a message in %s cannot be decrypted until its key comes", room.id)
            self._bookmark.set_aside(Sealed(room.id, event))
        elif room.id not in self._told:
            log.warning("%s is encrypted: set MATRIX_ENCRYPTION=true to read it", room.id)
            self._told.add(room.id)

    async def _unseal(self) -> None:
        """Messages whose keys have come."""
        for sealed in self._bookmark.sealed:
            if self._opener is None or not self._opener.has_key(sealed.room_id, sealed.event):
                continue
            opened = self._open(sealed.room_id, sealed.event)
            if opened is None:
                log.warning("the key of a message in %s does not open it", sealed.room_id)
            else:
                await self._heard(self._rooms[sealed.room_id], opened)
            self._bookmark.opened(sealed)

    def _receipt(self, room_id: str, events: list[Json]) -> None:
        """People see that we have read it."""
        others = [each for each in events if word(each, "sender") != self._me.user_id]
        if others:
            where = path("rooms", room_id, "receipt", "m.read", word(others[-1], "event_id"))
            self._errands.start(tried(self._wire.call("POST", where, {}), "a read receipt"))
