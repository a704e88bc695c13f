"""The synchronisation with the homeserver. It is told that we have read on only once the gateway
has kept everything."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.contract import NotConnected, RateLimit, SendLater
from hermes.gateway.platforms.kit.inbound import remember
from hermes.gateway.platforms.kit.rate_limit import RateLimiter
from hermes.gateway.platforms.matrix.client import (
    ENCRYPTED,
    MESSAGE,
    STICKER,
    TROUBLE,
    Json,
    Refusal,
    Room,
    Rooms,
    Wire,
    at,
    is_login_refused,
    of_connecting,
    path,
    table,
    tables,
    told,
    word,
)
from hermes.util import atomic

# Which events of a room are new to us. The homeserver leaves out the middle of a long absence;
# that is asked for here.

log = logging.getLogger(__name__)

PAGE = 100
MOST_PAGES = 10
"""Of what was missed in one room. What is older is not answered any more."""
MEMBER = "m.room.member"
TIMELINE_FILTER = msgspec.json.encode(
    {"types": [MESSAGE, STICKER, ENCRYPTED, MEMBER], "lazy_load_members": True}
).decode()


async def new_events(wire: Wire, room: Room, joined: Json, since: str, me: str) -> list[Json]:
    """Oldest first. In a room that we just came into this is what was said since we were invited.
    Raises what `wire.TROUBLE` names."""
    events = tables(joined, "timeline", "events")
    if at(joined, "timeline", "limited") is True:
        start = word(joined, "timeline", "prev_batch")
        events = [*await _before(wire, room, start, since, events, me), *events]
    unique = {word(event, "event_id"): event for event in events}
    return since_entered(list(unique.values()), me)


def since_entered(events: list[Json], me: str) -> list[Json]:
    """What came after we were invited, or came in without that; all when we were there before."""
    entered = _entered(events, me)
    if entered is None:
        return events
    invited = _invited(events[:entered], me)
    return events[(entered if invited is None else invited) + 1 :]


async def _before(
    wire: Wire, room: Room, start: str, since: str, later: list[Json], me: str
) -> list[Json]:
    """Back to where we were, or to our invitation."""
    fresh = _entered(later, me) is not None
    if fresh and _invited(later, me) is not None:
        return []
    query = {"dir": "b", "limit": str(PAGE), "filter": TIMELINE_FILTER}
    if not fresh:
        query["to"] = since
    found: list[Json] = []
    for _ in range(MOST_PAGES):
        page = await wire.get(path("rooms", room.id, "messages"), query | {"from": start})
        for event in tables(page, "state"):
            room.note(event)
        chunk = tables(page, "chunk")
        found += chunk
        start = word(page, "end")
        if not start or (fresh and _invited(chunk, me) is not None):
            break
    else:
        if fresh:  # a long history, and nobody invited us: what was said before is not for us
            return []
        log.warning("too much was said in %s: the oldest of it is left out", room.id)
    return found[::-1]


def _entered(events: list[Json], me: str) -> int | None:
    """Where we came in, the last time."""
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if not _is_ours(event, me, "join"):
            continue
        before = word(event, "unsigned", "prev_content", "membership")
        # Without that, what replaces something may be a change of our name only.
        if before != "join" and (before or not word(event, "unsigned", "replaces_state")):
            return index
    return None


def _invited(events: list[Json], me: str) -> int | None:
    found = [index for index, event in enumerate(events) if _is_ours(event, me, "invite")]
    return found[-1] if found else None


def _is_ours(event: Json, me: str, membership: str) -> bool:
    if event.get("type") != MEMBER or event.get("state_key") != me:
        return False
    return word(event, "content", "membership") == membership


# How far we have read, and what is still to be done, over a restart.

MOST_THREADS = 200
MOST_SEALED = 200
MOST_REPLACED = 500


class Sealed(msgspec.Struct, frozen=True):
    """An encrypted message whose key has not come yet."""

    room_id: str
    event: Json


class Invite(msgspec.Struct, frozen=True):
    by: str
    direct: bool = False
    """It is to be a private chat."""
    via: str = ""
    """A homeserver that knows the room, when nobody invited us."""


class Replaced(msgspec.Struct, frozen=True):
    """A room that was ended for another one."""

    by: str
    group: bool
    """It was no private chat, whoever is left."""


class _State(msgspec.Struct):
    user_id: str = ""
    since: str = ""
    """The homeserver's name for the place up to which everything was taken."""
    threads: list[str] = []
    """Threads that we talk in, those used last."""
    invites: dict[str, Invite] = {}
    """Rooms we are to join."""
    replaced: dict[str, Replaced] = {}
    origins: dict[str, str] = {}
    """Rooms that took the place of others, and the first one of each."""
    sealed: list[Sealed] = []
    taken: list[str] = []
    """Events after `since` that were taken: the answer they came with was not done."""


class Bookmark:
    def __init__(self, file: Path, user_id: str) -> None:
        """What another account left there is not ours."""
        self._file, self._turn = file, asyncio.Lock()
        found = _read(file)
        self._state = found if found.user_id == user_id else _State(user_id)
        self._changed = False
        self._writing: asyncio.Future[None] | None = None

    @property
    def since(self) -> str:
        return self._state.since

    @property
    def invites(self) -> dict[str, Invite]:
        return dict(self._state.invites)

    @property
    def sealed(self) -> tuple[Sealed, ...]:
        return tuple(self._state.sealed)

    def talks_in(self, thread_id: str) -> bool:
        return thread_id in self._state.threads

    def move(self, since: str) -> None:
        self._changed |= since != self._state.since or bool(self._state.taken)
        self._state.since, self._state.taken = since, []

    def took(self, event_id: str) -> None:
        self._state.taken.append(event_id)
        self._changed = True

    def has_taken(self, event_id: str) -> bool:
        return event_id in self._state.taken

    def invited(self, room_id: str, invite: Invite) -> None:
        self._state.invites[room_id] = invite
        self._changed = True

    def answered(self, room_id: str) -> None:
        """The invitation is done with."""
        self._changed |= self._state.invites.pop(room_id, None) is not None

    def replaced(self, room_id: str) -> Replaced | None:
        return self._state.replaced.get(room_id)

    def replace(self, room_id: str, replaced: Replaced) -> None:
        remember(self._state.replaced, room_id, replaced, MOST_REPLACED)
        self._changed = True

    def origin(self, room_id: str) -> str:
        """The room that a conversation began in."""
        return self._state.origins.get(room_id, room_id)

    def moved_from(self, origin: str) -> list[str]:
        """Rooms that its conversation moved to, the latest last."""
        return [room for room, first in self._state.origins.items() if first == origin]

    def follow(self, old: str, new: str) -> str:
        """The conversation of a room goes on in another one. Where it began."""
        if new not in self._state.origins:
            remember(self._state.origins, new, self.origin(old), MOST_REPLACED)
            self._changed = True
        return self.origin(new)

    def talk_in(self, thread_id: str) -> None:
        if not self.talks_in(thread_id):
            self._state.threads = [*self._state.threads, thread_id][-MOST_THREADS:]
            self._changed = True

    def set_aside(self, sealed: Sealed) -> None:
        self._state.sealed = [*self._state.sealed, sealed][-MOST_SEALED:]
        self._changed = True

    def opened(self, sealed: Sealed) -> None:
        self._state.sealed.remove(sealed)
        self._changed = True

    async def keep(self) -> None:
        """On disk when this returns. Without it the same messages come again after a restart."""
        async with self._turn:
            if self._writing is not None:  # of somebody who was cancelled
                await asyncio.wait([self._writing])
            if not self._changed:
                return
            self._changed, data = False, msgspec.json.encode(self._state)
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, data))
            await asyncio.shield(self._writing)

    def _write(self, data: bytes) -> None:
        try:
            atomic.write_bytes(self._file, data, mode=0o600)
        except OSError as error:
            self._changed = True
            log.error("how far Matrix was read cannot be kept: %s", error.strerror)


def _read(file: Path) -> _State:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_State)
    except FileNotFoundError:
        return _State()
    except (OSError, msgspec.DecodeError) as error:
        log.error("how far Matrix was read is not known any more: %s", error)
        return _State()


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
        connection.run_until_closed(self._run(connection, first))

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
                connection.mark_working()
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


# Invitations. All are followed: only who is in a room hears what is said there, and whether it is
# answered is decided for each message. But not many at a time.

PER_PERSON, ALL = RateLimit(6, 60.0), RateLimit(30, 60.0)
JOINING = 120.0
"""Seconds; a room on other servers takes its time."""
PAUSE = 10.0
MOST_ATTEMPTS = 10


class Invites:
    def __init__(self, wire: Wire, bookmark: Bookmark, rooms: Rooms, me: str, clock: Clock) -> None:
        self._wire, self._bookmark, self._rooms, self._me = wire, bookmark, rooms, me
        self._buckets = RateLimiter(PER_PERSON, ALL, clock)
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
                if self._buckets.try_take(invite.by):
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


# Rooms that were replaced by another one, which Matrix calls upgraded. People go on there, and so
# does the conversation: to the gateway it stays the chat it was.
#
# A room follows another one only when both say so. Whoever ends a room names the one that replaces
# it, and whoever made that names the one it replaces; one of the two alone could be anybody.

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
