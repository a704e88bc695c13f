"""Rooms that were replaced by another one, which Matrix calls upgraded. People go on there, and so
does the conversation: to the gateway it stays the chat it was.

A room follows another one only when both say so. Whoever ends a room names the one that replaces
it, and whoever made that names the one it replaces; one of the two alone could be anybody.
"""

from hermes.gateway.platforms.base import SendLater
from hermes.gateway.platforms.matrix.bookmark import Bookmark, Invite, Replaced
from hermes.gateway.platforms.matrix.invites import Invites
from hermes.gateway.platforms.matrix.rooms import Room, Rooms
from hermes.gateway.platforms.matrix.shapes import Json, table

ON_THE_WAY = 1.0
"""Seconds that a message waits for us to be in the new room."""


class Moves:
    def __init__(self, bookmark: Bookmark, rooms: Rooms, invites: Invites) -> None:
        self._bookmark, self._rooms, self._invites = bookmark, rooms, invites

    def absorb(self, sync: Json) -> None:
        """Follow rooms that were replaced, and know again those that we followed into."""
        joined = [self._rooms[room_id] for room_id in table(sync, "rooms", "join")]
        for room in joined:
            self._recognise(room)
        for room in joined:
            self._follow(room)

    def places(self, chat_id: str) -> list[str]:
        """The rooms that a conversation was in, the present one first."""
        origin = self._bookmark.origin(chat_id)
        later = [room for room in self._bookmark.moved_from(origin) if self._rooms.get(room)]
        return [*reversed(later), origin]

    def home(self, chat_id: str) -> str:
        """Where a conversation is now. Raises `SendLater` while we are on the way there."""
        here = self.places(chat_id)[0]
        replaced = self._bookmark.replaced(here)
        if replaced is not None and replaced.by in self._bookmark.invites:
            raise SendLater("the Matrix room is being replaced", seconds=ON_THE_WAY)
        return here

    def _recognise(self, room: Room) -> None:
        before = self._bookmark.replaced(room.predecessor)
        if before is not None and before.by == room.id:
            room.origin = self._bookmark.follow(room.predecessor, room.id)
            room.group = before.group

    def _follow(self, room: Room) -> None:
        """As if we were invited. A room that we are in already has a conversation of its own."""
        new, known = room.replacement, self._bookmark.replaced(room.id)
        if not new or self._rooms.get(new) or (known is not None and known.by == new):
            return
        self._bookmark.replace(room.id, Replaced(new, group=room.chat_type == "group"))
        if new not in self._bookmark.invites:
            via = room.ended_by.partition(":")[2]
            self._invites.add(new, Invite(room.ended_by, direct=room.direct, via=via))
