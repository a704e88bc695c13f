"""The rooms we are in, as far as synchronisations tell."""

from collections.abc import Iterable

from hermes.gateway.events import ChatType
from hermes.gateway.platforms.base import ChatName
from hermes.gateway.platforms.matrix.shapes import Json, number, table, tables, word, words

COUNTS = ("m.joined_member_count", "m.invited_member_count")


class Room:
    def __init__(self, room_id: str, me: str) -> None:
        self.id, self._me = room_id, me
        self.name = self._alias = ""
        self._counts: dict[str, int] = {}
        self._heroes: list[str] = []
        self._names: dict[str, str] = {}
        self._present: set[str] = set()
        """Those who are there or invited, of those we heard of."""
        self.encrypted = False
        self.direct = False
        """We know it as a private chat."""
        self.predecessor = self.replacement = self.ended_by = ""
        """The room it says it replaces, the one that replaces it, and who said that."""
        self.origin = room_id
        """The room that its conversation began in."""
        self.group = False
        """It replaced a group."""

    @property
    def chat_type(self) -> ChatType:
        """A private chat has no name and nobody else in it, or was made as one. As soon as a third
        person is there it is none, whatever it was made as."""
        if self.group or max(sum(self._counts.values()), len(self._present)) > 2:
            return "group"
        return "dm" if self.direct or not (self.name or self._alias) else "group"

    @property
    def title(self) -> str:
        others = ", ".join(self.name_of(user) for user in self._heroes if user != self._me)
        return self.name or self._alias or others or self.id

    def name_of(self, user_id: str) -> str:
        return self._names.get(user_id) or user_id[1:].partition(":")[0]

    def absorb(self, joined: Json) -> None:
        """What a synchronisation says of it."""
        summary = table(joined, "summary")
        self._counts |= {name: number(summary, name) for name in COUNTS if name in summary}
        if "m.heroes" in summary:
            self._heroes = words(summary, "m.heroes")
        for event in (*tables(joined, "state", "events"), *tables(joined, "timeline", "events")):
            self.note(event)

    def note(self, event: Json) -> None:
        """What a piece of state says of it."""
        if "state_key" not in event:
            return
        content = table(event, "content")
        match event.get("type"):
            case "m.room.name":
                self.name = word(content, "name").strip()
            case "m.room.canonical_alias":
                self._alias = word(content, "alias")
            case "m.room.encryption":
                self.encrypted = True
            case "m.room.create":
                self.predecessor = word(content, "predecessor", "room_id")
            case "m.room.tombstone":
                self.replacement = word(content, "replacement_room")
                self.ended_by = word(event, "sender")
            case "m.room.member":
                user = word(event, "state_key")
                there = content.get("membership") in ("join", "invite")
                (self._present.add if there else self._present.discard)(user)
                self._names[user] = word(content, "displayname") or self._names.get(user, "")
                if user == self._me and content.get("is_direct") is True:
                    self.direct = True


class Rooms:
    def __init__(self, me: str) -> None:
        self._me = me
        self._known: dict[str, Room] = {}
        self._direct: dict[str, list[str]] = {}

    def __getitem__(self, room_id: str) -> Room:
        if room_id not in self._known:
            self._known[room_id] = Room(room_id, self._me)
        return self._known[room_id]

    def get(self, room_id: str) -> Room | None:
        return self._known.get(room_id)

    def absorb(self, sync: Json) -> None:
        for event in tables(sync, "account_data", "events"):
            if event.get("type") == "m.direct":
                content = table(event, "content")
                self._direct = {user: words(content, user) for user in content}
                self._mark(self._known.values())
        for room_id, joined in table(sync, "rooms", "join").items():
            room = self[room_id]
            room.absorb(joined)
            self._mark((room,))
        for room_id in table(sync, "rooms", "leave"):
            self._known.pop(room_id, None)

    def directs_with(self, user_id: str, room_id: str) -> Json:
        """The content of `m.direct` with one more private chat in it."""
        mine = [*self._direct.get(user_id, []), room_id]
        self._direct[user_id] = list(dict.fromkeys(mine))
        return dict(self._direct)

    def names(self) -> tuple[ChatName, ...]:
        """Of a conversation that moved, only the room it is in."""
        rooms = sorted(self._known.values(), key=lambda each: each.origin != each.id)
        found = {each.origin: ChatName(each.origin, each.title, each.chat_type) for each in rooms}
        return tuple(found.values())

    def _mark(self, rooms: Iterable[Room]) -> None:
        direct = {room_id for ids in self._direct.values() for room_id in ids}
        for room in rooms:
            room.direct = room.direct or room.id in direct
