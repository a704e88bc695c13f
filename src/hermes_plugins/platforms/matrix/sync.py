"""The sync loop: gaps in timelines, the stored position, invites and upgraded rooms.

The position advances only after the gateway has stored every message.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.sdk import Clock, write_bytes
from hermes.sdk.platforms import (
    Connection,
    NotConnected,
    RateLimit,
    RateLimiter,
    SendLater,
    load_state,
    remember,
)
from hermes_plugins.platforms.matrix.client import (
    CALL_ERRORS,
    ENCRYPTED,
    MESSAGE,
    STICKER,
    Json,
    MatrixClient,
    MatrixError,
    MatrixLogin,
    MatrixRoom,
    MatrixRooms,
    api_path,
    get_dict,
    get_dicts,
    get_path,
    get_str,
    is_login_refused,
    map_connect_error,
    translate_connect_errors,
)

if TYPE_CHECKING:
    # matrix-nio is slow to load and needed for encryption only.
    from hermes_plugins.platforms.matrix.encryption import MatrixEncryption

logger = logging.getLogger(__name__)
DecryptEvent = Callable[[str, Json], Json | None]
"""Decrypts an event of a room; None when it cannot."""
PAGE_SIZE = 100
MAX_PAGES = 10  #: Pages read of a gap in one room. Older messages are not answered any more.
MEMBER = "m.room.member"
TIMELINE_FILTER = msgspec.json.encode(
    {"types": [MESSAGE, STICKER, ENCRYPTED, MEMBER], "lazy_load_members": True}
).decode()
MAX_THREADS = 200
MAX_UNDECRYPTED = 200
MAX_REPLACED = 500
POLL_SECONDS = 30  #: Seconds that the homeserver waits for news before it answers.
EXTRA_SECONDS = 20.0
FIRST_SYNC_SECONDS = 120.0  #: Time limit of the first sync, which contains all rooms.
MAX_RETRY_SECONDS = 30.0
MAX_FAILURES = 3
"""Consecutive failures after which the connection counts as broken, whatever other calls do."""
NO_EVENTS = {"not_types": ["*"]}
SYNC_FILTER = msgspec.json.encode(
    {
        "presence": NO_EVENTS,
        "account_data": {"types": ["m.direct"]},
        "room": {
            "timeline": {"limit": 50},
            "state": {"lazy_load_members": True},
            "ephemeral": NO_EVENTS,
            "account_data": NO_EVENTS,
        },
    }
).decode()
INVITES_PER_USER, INVITES_TOTAL = RateLimit(6, 60.0), RateLimit(30, 60.0)
JOIN_SECONDS = 120.0  #: Time limit; joining a room on other servers is slow.
RETRY_SECONDS = 10.0
MAX_ATTEMPTS = 10
MOVE_SECONDS = 1.0  #: Seconds that a message waits until we have joined the new room.


async def fetch_new_events(
    http: MatrixClient, room: MatrixRoom, joined: Json, since: str, me: str
) -> list[Json]:
    """Return the new events, oldest first. In a room we just joined these are the events since our
    invite. The homeserver omits the middle of a long absence, which is fetched here. Raises any of
    `CALL_ERRORS`."""
    events = get_dicts(joined, "timeline", "events")
    if get_path(joined, "timeline", "limited") is True:
        start = get_str(joined, "timeline", "prev_batch")
        events = [*await _fetch_gap(http, room, start, since, events, me), *events]
    unique = {get_str(event, "event_id"): event for event in events}
    return since_entered(list(unique.values()), me)


def since_entered(events: list[Json], me: str) -> list[Json]:
    """Return the events since our invite, or since we joined without one; all if we were in the
    room before."""
    entered = _find_join(events, me)
    if entered is None:
        return events
    invited = _find_invite(events[:entered], me)
    return events[(entered if invited is None else invited) + 1 :]


class UndecryptedEvent(msgspec.Struct, frozen=True):
    """An encrypted message whose key has not arrived yet."""

    room_id: str
    event: Json


class RoomInvite(msgspec.Struct, frozen=True):
    by: str
    direct: bool = False  #: It is to be a private chat.
    via: str = ""  #: A homeserver that knows the room, when we were not invited.


class ReplacedRoom(msgspec.Struct, frozen=True):
    """A room that was replaced by another one."""

    by: str
    group: bool  #: It was a group, however many members are left.


class _StoredPosition(msgspec.Struct):
    user_id: str = ""
    since: str = ""  #: The homeserver's token for the position up to which everything was handled.
    threads: list[str] = []  #: Threads we take part in, most recently used last.
    invites: dict[str, RoomInvite] = {}  #: Rooms to join.
    replaced: dict[str, ReplacedRoom] = {}
    origins: dict[str, str] = {}
    """First room of each conversation that moved, by its current room."""
    sealed: list[UndecryptedEvent] = []
    taken: list[str] = []
    """Events after `since` that were handled: the sync they came with was not finished."""


class SyncPosition:
    """How far we have read, and what is still to be done, across restarts."""

    def __init__(self, file: Path, user_id: str) -> None:
        """A state of another account is ignored."""
        self._file, self._lock = file, asyncio.Lock()
        what = "the read position of Matrix"
        found = load_state(file, _StoredPosition, _StoredPosition(), what)
        self._state = found if found.user_id == user_id else _StoredPosition(user_id)
        self._changed = False
        self._writing: asyncio.Future[None] | None = None

    @property
    def since(self) -> str:
        return self._state.since

    @property
    def invites(self) -> dict[str, RoomInvite]:
        return dict(self._state.invites)

    @property
    def sealed(self) -> tuple[UndecryptedEvent, ...]:
        return tuple(self._state.sealed)

    def has_thread(self, thread_id: str) -> bool:
        return thread_id in self._state.threads

    def advance(self, since: str) -> None:
        self._changed |= since != self._state.since or bool(self._state.taken)
        self._state.since, self._state.taken = since, []

    def mark_handled(self, event_id: str) -> None:
        self._state.taken.append(event_id)
        self._changed = True

    def is_handled(self, event_id: str) -> bool:
        return event_id in self._state.taken

    def add_invite(self, room_id: str, invite: RoomInvite) -> None:
        self._state.invites[room_id] = invite
        self._changed = True

    def remove_invite(self, room_id: str) -> None:
        """Remove an invite that is settled."""
        self._changed |= self._state.invites.pop(room_id, None) is not None

    def replaced(self, room_id: str) -> ReplacedRoom | None:
        return self._state.replaced.get(room_id)

    def record_replaced(self, room_id: str, replaced: ReplacedRoom) -> None:
        remember(self._state.replaced, room_id, replaced, MAX_REPLACED)
        self._changed = True

    def origin(self, room_id: str) -> str:
        """Return the room in which a conversation began."""
        return self._state.origins.get(room_id, room_id)

    def successors(self, origin: str) -> list[str]:
        """Return the rooms a conversation moved to, the latest last."""
        return [room for room, first in self._state.origins.items() if first == origin]

    def record_successor(self, old: str, new: str) -> str:
        """Record that a conversation continues in another room; return the room in which it
        began."""
        if new not in self._state.origins:
            remember(self._state.origins, new, self.origin(old), MAX_REPLACED)
            self._changed = True
        return self.origin(new)

    def add_thread(self, thread_id: str) -> None:
        if not self.has_thread(thread_id):
            self._state.threads = [*self._state.threads, thread_id][-MAX_THREADS:]
            self._changed = True

    def add_undecrypted(self, sealed: UndecryptedEvent) -> None:
        self._state.sealed = [*self._state.sealed, sealed][-MAX_UNDECRYPTED:]
        self._changed = True

    def remove_undecrypted(self, sealed: UndecryptedEvent) -> None:
        self._state.sealed.remove(sealed)
        self._changed = True

    async def save(self) -> None:
        """Write the state to disk if it changed. Without it the same messages are read again after
        a restart."""
        async with self._lock:
            if self._writing is not None:  # started by a call that was cancelled
                await asyncio.wait([self._writing])
            if not self._changed:
                return
            self._changed, data = False, msgspec.json.encode(self._state)
            self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, data))
            await asyncio.shield(self._writing)

    def _write(self, data: bytes) -> None:
        try:
            write_bytes(self._file, data, mode=0o600)
        except OSError as error:
            self._changed = True
            logger.error("the read position of Matrix cannot be written: %s", error.strerror)


class SyncLoop:
    def __init__(
        self,
        http: MatrixClient,
        position: SyncPosition,
        clock: Clock,
        update: Callable[[Json], Awaitable[None]],
        deliver_new: Callable[[Json], Awaitable[None]],
    ) -> None:
        """`update` updates rooms and keys from a sync; `deliver_new` returns when the gateway has
        stored all its messages."""
        self._http, self._position, self._clock = http, position, clock
        self._update, self._deliver_new = update, deliver_new
        self._failures = 0

    async def start(self, connection: Connection) -> None:
        """Start the loop. Raises `AdapterError` when the homeserver refuses."""
        with translate_connect_errors():
            try:
                first = await self._fetch(whole=True)
            except MatrixError as error:
                if error.status != 400 or not self._position.since:
                    raise
                logger.error("Matrix does not know our read position: %s", error)
                self._position.advance("")
                first = await self._fetch(whole=True)
        await self._update(first)  # before any send, which must know the encrypted rooms
        connection.run_until_closed(self._run(connection, first))

    async def _run(self, connection: Connection, answer: Json) -> None:
        """Run until new messages cannot be handled: continuing would skip them."""
        with translate_connect_errors():  # raised only for errors that a retry does not fix
            while True:
                await self._deliver_new(answer)
                self._position.advance(get_str(answer, "next_batch"))
                await self._position.save()
                answer = await self._fetch_with_retries(connection)
                await self._update(answer)

    async def _fetch_with_retries(self, connection: Connection) -> Json:
        pause = 0.1
        while True:
            try:
                answer = await self._fetch()
            except CALL_ERRORS as error:
                if is_login_refused(error):
                    raise
                logger.info("%s", map_connect_error(error))
                self._failures += 1
                if self._failures >= MAX_FAILURES:
                    connection.trouble = NotConnected("syncing with Matrix fails")
                wished = error.seconds if isinstance(error, MatrixError) else 0.0
                await self._clock.sleep(max(pause, wished))
                pause = min(pause * 2, MAX_RETRY_SECONDS)
            else:
                self._failures = 0
                connection.mark_working()
                return answer

    async def _fetch(self, *, whole: bool = False) -> Json:
        # After an error request an immediate answer.
        hold = 0 if whole or self._failures else POLL_SECONDS
        query = {"filter": SYNC_FILTER, "timeout": str(hold * 1000)}
        if whole:
            query["full_state"] = "true"
        if self._position.since:
            query["since"] = self._position.since
        patience = FIRST_SYNC_SECONDS if whole else hold + EXTRA_SECONDS
        return await self._http.get(api_path("sync"), query, patience=patience)


class InviteHandler:
    """Accepts every invite, at a limited rate: only members see messages, and authorization is
    decided for each message."""

    def __init__(
        self, http: MatrixClient, position: SyncPosition, rooms: MatrixRooms, me: str, clock: Clock
    ) -> None:
        self._http, self._position, self._rooms, self._me = http, position, rooms, me
        self._buckets = RateLimiter(INVITES_PER_USER, INVITES_TOTAL, clock)
        self._attempts: dict[str, int] = {}
        self._changed_invites = asyncio.Event()

    def handle_sync(self, sync: Json) -> None:
        for room_id, found in get_dict(sync, "rooms", "invite").items():
            for event in get_dicts(found, "invite_state", "events"):
                ours = event.get("type") == "m.room.member" and event.get("state_key") == self._me
                if ours and get_str(event, "content", "membership") == "invite":
                    direct = get_path(event, "content", "is_direct") is True
                    self.add(room_id, RoomInvite(get_str(event, "sender"), direct))
        for kind in ("leave", "join"):
            for room_id in get_dict(sync, "rooms", kind):
                self._position.remove_invite(room_id)

    def add(self, room_id: str, invite: RoomInvite) -> None:
        self._position.add_invite(room_id, invite)
        self._changed_invites.set()

    async def run(self) -> None:
        """Join rooms until cancelled."""
        while True:
            self._changed_invites.clear()
            await self._position.save()  # after a crash we must know why we joined
            for room_id, invite in self._position.invites.items():
                if self._buckets.try_take(invite.by):
                    await self._join_room(room_id, invite)
            await self._position.save()
            try:
                async with asyncio.timeout(RETRY_SECONDS if self._position.invites else None):
                    await self._changed_invites.wait()
            except TimeoutError:
                continue

    async def _join_room(self, room_id: str, invite: RoomInvite) -> None:
        try:
            via = {"via": invite.via, "server_name": invite.via} if invite.via else None
            await self._http.call(
                "POST", api_path("join", room_id), {}, query=via, patience=JOIN_SECONDS
            )
            if invite.direct:
                where = api_path("user", self._me, "account_data", "m.direct")
                content = self._rooms.add_direct_chat(invite.by, room_id)
                await self._http.call("PUT", where, content)
        except CALL_ERRORS as error:
            tried = self._attempts[room_id] = self._attempts.get(room_id, 0) + 1
            final = isinstance(error, MatrixError) and error.status in (400, 403, 404)
            if not final and tried < MAX_ATTEMPTS:
                logger.info("a room cannot be joined yet: %s", error)
                return
            logger.warning(
                "the invitation of %s to %s came to nothing: %s", invite.by, room_id, error
            )
        self._attempts.pop(room_id, None)
        self._position.remove_invite(room_id)


class RoomUpgrades:
    """Follows rooms that were replaced ("upgraded") by another one, so that the conversation
    continues under its old chat id.

    A room is a successor only if both rooms say so: the old one names its replacement, and the new
    one its predecessor. Either of them alone could be forged.
    """

    def __init__(self, position: SyncPosition, rooms: MatrixRooms, invites: InviteHandler) -> None:
        self._position, self._rooms, self.invites = position, rooms, invites

    def update(self, sync: Json) -> None:
        """Follow replaced rooms, and recognize their successors."""
        joined = [self._rooms[room_id] for room_id in get_dict(sync, "rooms", "join")]
        for room in joined:  # recognize successors
            before = self._position.replaced(room.predecessor)
            if before is not None and before.by == room.id:
                room.origin = self._position.record_successor(room.predecessor, room.id)
                room.group = before.group
        for room in joined:
            self._follow(room)

    def rooms_of(self, chat_id: str) -> list[str]:
        """Return the rooms of a conversation, the current one first."""
        origin = self._position.origin(chat_id)
        later = [room for room in self._position.successors(origin) if self._rooms.get(room)]
        return [*reversed(later), origin]

    def current_room(self, chat_id: str) -> str:
        """Return the current room of a conversation. Raises `SendLater` while we are joining it."""
        here = self.rooms_of(chat_id)[0]
        replaced = self._position.replaced(here)
        if replaced is not None and replaced.by in self._position.invites:
            raise SendLater("the Matrix room is being replaced", seconds=MOVE_SECONDS)
        return here

    def _follow(self, room: MatrixRoom) -> None:
        """Join the successor as if invited. A room we are already in has a conversation of its
        own."""
        new, known = room.replacement, self._position.replaced(room.id)
        if not new or self._rooms.get(new) or (known is not None and known.by == new):
            return
        self._position.record_replaced(room.id, ReplacedRoom(new, group=room.chat_type == "group"))
        if new not in self._position.invites:
            via = room.ended_by.partition(":")[2]
            self.invites.add(new, RoomInvite(room.ended_by, direct=room.direct, via=via))


class MatrixSession(msgspec.Struct, frozen=True, eq=False):
    """What receiving and sending share."""

    http: MatrixClient
    clock: Clock
    login: MatrixLogin
    rooms: MatrixRooms
    position: SyncPosition
    moves: RoomUpgrades
    encryption: "MatrixEncryption | None"  #: None when encryption is off.

    def decrypt(self, room_id: str, event: Json) -> Json | None:
        """Decrypt an event of a room; None when it cannot be decrypted."""
        return self.encryption.decrypt(room_id, event) if self.encryption else None


async def _fetch_gap(
    http: MatrixClient, room: MatrixRoom, start: str, since: str, later: list[Json], me: str
) -> list[Json]:
    """Fetch the events back to our last position, or to our invite."""
    fresh = _find_join(later, me) is not None
    if fresh and _find_invite(later, me) is not None:
        return []
    query = {"dir": "b", "limit": str(PAGE_SIZE), "filter": TIMELINE_FILTER}
    if not fresh:
        query["to"] = since
    found: list[Json] = []
    for _ in range(MAX_PAGES):
        page = await http.get(api_path("rooms", room.id, "messages"), query | {"from": start})
        for event in get_dicts(page, "state"):
            room.update_state(event)
        chunk = get_dicts(page, "chunk")
        found += chunk
        start = get_str(page, "end")
        if not start or (fresh and _find_invite(chunk, me) is not None):
            break
    else:
        if fresh:  # a long history without an invite is not for us
            return []
        logger.warning("too many new messages in %s: the oldest are skipped", room.id)
    return found[::-1]


def _find_join(events: list[Json], me: str) -> int | None:
    """Return the index of our last join."""
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if not _is_own_membership(event, me, "join"):
            continue
        before = get_str(event, "unsigned", "prev_content", "membership")
        # Without it, an event that replaces another may only change our display name.
        if before != "join" and (before or not get_str(event, "unsigned", "replaces_state")):
            return index
    return None


def _find_invite(events: list[Json], me: str) -> int | None:
    found = [index for index, event in enumerate(events) if _is_own_membership(event, me, "invite")]
    return found[-1] if found else None


def _is_own_membership(event: Json, me: str, membership: str) -> bool:
    if event.get("type") != MEMBER or event.get("state_key") != me:
        return False
    return get_str(event, "content", "membership") == membership
