"""Inbound events: the sync loop, gaps in timelines, invites and upgraded rooms; parsing, quoted and
undecrypted messages, and delivery to the gateway.

The position advances only after the gateway has stored every message.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from hermes.sdk import Clock
from hermes.sdk.platforms import (
    Connection,
    Media,
    MediaKind,
    MessageEvent,
    NotConnected,
    RateLimit,
    RateLimiter,
    Receive,
    SendLater,
    SessionSource,
    TaskSet,
    deliver_until_accepted,
    group_rules,
    is_for_us,
    remember,
    strip_address,
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
    ReplacedRoom,
    RoomInvite,
    SyncPosition,
    UndecryptedEvent,
    api_path,
    attempt,
    get_dict,
    get_dicts,
    get_int,
    get_path,
    get_str,
    get_strs,
    is_login_refused,
    map_connect_error,
    retry_until_final,
    translate_connect_errors,
)
from hermes_plugins.platforms.matrix.manifest import MatrixSettings

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
_LINK = re.compile(r"""href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_PILL = re.compile(r"https://matrix\.to/#/(@[^/?]+)|matrix:u/([^/?]+)")
_TAG = re.compile(r"<(br|/p|/li|/h[1-6]|/pre|/blockquote|/tr)\b[^>]*>|<[^>]*>", re.IGNORECASE)
PLATFORM = "matrix"
MEDIA_KINDS: dict[str, MediaKind] = {
    "m.image": "image",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "document",
}
VOICE = "org.matrix.msc3245.voice"
MAX_QUOTE = 500  #: Characters of a quoted message.
MAX_QUOTES = 500
PARSE_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""Exceptions of parsing an unexpected event."""


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


class MatrixIdentity(msgspec.Struct, frozen=True):
    user_id: str
    name: str = ""  #: Display name.

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches `@` and one of our names, but not as a prefix of a longer one."""
        local = self.user_id[1:].partition(":")[0]
        names = (self.user_id[1:], self.name.removeprefix("@"), local)
        either = "|".join(re.escape(name) for name in names if name)
        return re.compile(rf"(?<![\w@])@(?:{either})(?!\w|:\w)", re.IGNORECASE)


def mentions_us(content: Json, me: MatrixIdentity) -> bool:
    """True for a mention marked by the client, a link to us, or our name in the text."""
    if me.user_id in get_strs(content, "m.mentions", "user_ids"):
        return True
    for link in _LINK.findall(get_str(content, "formatted_body")):
        pill = _PILL.match(unquote(unescape(link)))
        if pill and me.user_id in (pill[1], f"@{pill[2]}"):
            return True
    return me.pattern.search(without_quote(content)) is not None


def own_text(content: Json, me: MatrixIdentity) -> str:
    """Return the text without our name where it is only an address."""
    text = without_quote(content)
    if not mentions_us(content, me):
        return text
    text = strip_address(text, me.pattern.pattern)
    if me.name:  # clients write a link to us as our name in plain text
        text = re.sub(rf"\A\s*{re.escape(me.name)}(?:[,:]\s*|\s+)", "", text, flags=re.IGNORECASE)
    return text


def without_quote(content: Json) -> str:
    """Return the body without the quoted lines that older clients prepend."""
    body = get_str(content, "body")
    if not get_dict(content, "m.relates_to", "m.in_reply_to") or not body.startswith("> "):
        return body
    lines = body.split("\n")
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    if lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def quoted_lines(content: Json) -> str:
    """Return the quoted lines, for when the quoted message itself is not available."""
    body = get_str(content, "body")
    if not body.startswith("> "):
        return ""
    head = body.partition("\n\n")[0]
    text = "\n".join(line.removeprefix(">").strip() for line in head.split("\n"))
    return re.sub(r"\A(?:\* )?<@[^>]*>\s*", "", text)


def html_to_plain(html: str) -> str:
    """Return readable text for HTML without a plain version."""
    return unescape(_TAG.sub(lambda tag: "\n" if tag[1] else "", html)).strip()


class QuotedMessage(msgspec.Struct, frozen=True):
    """A message that another one replies to."""

    sender: str
    text: str


def is_user_message(event: Json, me: str) -> bool:
    """True for a message of another user; not for edits, redacted events and our own."""
    if event.get("type") not in (MESSAGE, STICKER) or "state_key" in event:
        return False
    content = get_dict(event, "content")
    if not content or get_str(content, "m.relates_to", "rel_type") == "m.replace":
        return False
    return get_str(event, "sender") != me and bool(get_str(event, "event_id"))


def make_quote(event: Json) -> QuotedMessage:
    content = get_dict(event, "content")
    text = without_quote(content) or get_str(content, "body")
    return QuotedMessage(get_str(event, "sender"), text[:MAX_QUOTE])


def thread_of(content: Json) -> str:
    relation = get_dict(content, "m.relates_to")
    return get_str(relation, "event_id") if relation.get("rel_type") == "m.thread" else ""


def replied_to(content: Json) -> str:
    """Return the message it replies to. In a thread, clients also set one for older clients, which
    is not a reply."""
    relation = get_dict(content, "m.relates_to")
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back") is True:
        return ""
    return get_str(relation, "m.in_reply_to", "event_id")


def parse_event(
    event: Json,
    room: MatrixRoom,
    me: MatrixIdentity,
    *,
    reply: QuotedMessage | None = None,
    in_talk: bool = False,
) -> MessageEvent:
    """Return the event of a message. `reply` is the message it replies to, if known; `in_talk`
    means that we take part in its thread, so no mention is needed."""
    content = get_dict(event, "content")
    sender, media = get_str(event, "sender"), message_media(content)
    ours = reply is not None and reply.sender == me.user_id
    private = room.chat_type == "dm"
    return MessageEvent(
        source=SessionSource(
            platform=PLATFORM,
            chat_id=room.origin,
            chat_type=room.chat_type,
            user_id=sender,
            user_name=room.user_name(sender),
            chat_name=room.user_name(sender) if private else room.title,
            thread_id=thread_of(content),
            is_bot=content.get("msgtype") == "m.notice",
            chat_now=room.id if room.id != room.origin else "",
        ),
        message_id=get_str(event, "event_id"),
        text=_text(event, content, me, media),
        media=media,
        reply_to_id=replied_to(content),
        reply_to_text=(reply.text if reply else quoted_lines(content)[:MAX_QUOTE])
        if replied_to(content)
        else "",
        addressed=private or in_talk or ours or mentions_us(content, me),
        sent_at=get_int(event, "origin_server_ts") / 1000,
    )


def message_media(content: Json) -> tuple[Media, ...]:
    """Return the file of a message. The reference of an encrypted one contains its keys."""
    kind = MEDIA_KINDS.get(get_str(content, "msgtype"))
    sealed = get_dict(content, "file")
    ref = msgspec.json.encode(sealed).decode() if sealed else get_str(content, "url")
    if kind is None or not ref:
        return ()
    if kind == "audio" and (VOICE in content or "m.voice" in content):
        kind = "voice"
    name = get_str(content, "filename") or get_str(content, "body")
    info = get_dict(content, "info")
    return (Media(kind, name, get_str(info, "mimetype"), max(get_int(info, "size"), 0), ref),)


class QuoteCache:
    """Messages that others reply to: recent ones are remembered, older ones are fetched."""

    def __init__(self, http: MatrixClient, clock: Clock, decrypt: DecryptEvent) -> None:
        self._http, self._clock, self._decrypt = http, clock, decrypt
        self._messages: dict[str, QuotedMessage] = {}

    def add(self, event: Json) -> None:
        """Remember the text of an event, including our own."""
        content, event_id = get_dict(event, "content"), get_str(event, "event_id")
        if get_str(content, "m.relates_to", "rel_type") == "m.replace":
            event_id = get_str(content, "m.relates_to", "event_id")
            before = self._messages.get(event_id)
            if before is None or before.sender != get_str(event, "sender"):
                return
            text = get_str(content, "m.new_content", "body")[:MAX_QUOTE]
            self._messages[event_id] = msgspec.structs.replace(before, text=text)
        elif "body" in content:
            remember(self._messages, event_id, make_quote(event), MAX_QUOTES)

    async def find(self, room_id: str, event_id: str) -> QuotedMessage | None:
        if event_id not in self._messages:
            nothing: Json = {}
            event = await retry_until_final(
                lambda: self._http.get(api_path("rooms", room_id, "event", event_id)),
                self._clock,
                nothing,
                "a quoted message",
            )
            if event.get("type") == ENCRYPTED:
                event = self._decrypt(room_id, event) or {}
            self.add(event)
            edit = get_dict(event, "unsigned", "m.relations", "m.replace")
            if edit.get("type") == ENCRYPTED:
                edit = self._decrypt(room_id, edit) or {}
            self.add(edit)
        return self._messages.get(event_id)


class MatrixInbound:
    """Handles each sync: updates rooms and keys, and delivers new messages in order."""

    def __init__(
        self,
        session: MatrixSession,
        me: MatrixIdentity,
        settings: MatrixSettings,
        receive: Receive,
        tasks: TaskSet,
    ) -> None:
        self._http, self._clock = session.http, session.clock
        self._me, self._settings = me, settings
        self._receive, self._rules, self._tasks = receive, group_rules(settings), tasks
        self._position, self._rooms, self._moves = session.position, session.rooms, session.moves
        self._encryption, self._decrypt = session.encryption, session.decrypt
        self._quotes = QuoteCache(session.http, session.clock, session.decrypt)
        self._warned_rooms: set[str] = set()
        """Encrypted rooms we logged a warning for, because encryption is off."""

    async def update(self, sync: Json) -> None:
        """Update rooms, keys and invites."""
        self._rooms.update(sync)
        if self._encryption is not None:
            await self._encryption.update(sync)
        self._moves.invites.handle_sync(sync)
        self._moves.update(sync)

    async def deliver_new(self, sync: Json) -> None:
        """Return when the gateway has stored every new message. Raises `MatrixError` when
        the homeserver rejects our login."""
        since = self._position.since
        if not since:
            return  # on the first sync there is nothing to catch up with
        await self._retry_undecrypted()
        for room_id, joined in get_dict(sync, "rooms", "join").items():
            room, nothing = self._rooms[room_id], list[Json]()
            missed = partial(fetch_new_events, self._http, room, joined, since, self._me.user_id)
            events = await retry_until_final(
                missed, self._clock, nothing, "the new messages of a room"
            )
            for event in events:
                if not self._position.is_handled(get_str(event, "event_id")):
                    await self._deliver(room, event)
                    self._position.mark_handled(get_str(event, "event_id"))
            self._send_receipt(room_id, events)

    async def _deliver(self, room: MatrixRoom, event: Json) -> None:
        if event.get("type") == ENCRYPTED:
            opened = self._decrypt(room.id, event)
            if opened is None:
                self._keep_undecrypted(room, event)
                return
            event = opened
        try:
            message = await self._parse(room, event)
        except PARSE_ERRORS:
            logger.exception("an event of %s cannot be read", room.id)
            return
        if message is not None:
            await deliver_until_accepted(self._receive, message, self._clock.sleep)

    async def _parse(self, room: MatrixRoom, event: Json) -> MessageEvent | None:
        """Return the message; None if it is not for us."""
        self._quotes.add(event)
        if not is_user_message(event, self._me.user_id):
            return None
        content = get_dict(event, "content")
        thread, reply_to = thread_of(content), replied_to(content)
        reply = await self._quotes.find(room.id, reply_to) if reply_to else None
        in_talk = bool(thread) and self._position.has_thread(thread)
        message = parse_event(event, room, self._me, reply=reply, in_talk=in_talk)
        if not (message.text.strip() or message.media) or not is_for_us(message, self._rules):
            return None
        if self._opens_thread(room, content):
            source = msgspec.structs.replace(message.source, thread_id=message.message_id)
            message = msgspec.structs.replace(message, source=source)
        return message

    def _opens_thread(self, room: MatrixRoom, content: Json) -> bool:
        """A thread starts at a message that is in none and replies to none."""
        settings = self._settings
        private = room.chat_type == "dm"
        wanted = settings.dm_mention_threads if private else settings.auto_thread
        return wanted and "m.relates_to" not in content and mentions_us(content, self._me)

    def _keep_undecrypted(self, room: MatrixRoom, event: Json) -> None:
        if get_str(event, "sender") == self._me.user_id:
            return
        if self._encryption is not None:
            logger.warning("a message in %s cannot be decrypted until its key arrives", room.id)
            self._position.add_undecrypted(UndecryptedEvent(room.id, event))
        elif room.id not in self._warned_rooms:
            logger.warning("%s is encrypted: set MATRIX_ENCRYPTION=true to read it", room.id)
            self._warned_rooms.add(room.id)

    async def _retry_undecrypted(self) -> None:
        """Deliver messages whose keys have arrived."""
        for sealed in self._position.sealed:
            if self._encryption is None or not self._encryption.has_key(
                sealed.room_id, sealed.event
            ):
                continue
            opened = self._decrypt(sealed.room_id, sealed.event)
            if opened is None:
                logger.warning("the key of a message in %s does not decrypt it", sealed.room_id)
            else:
                await self._deliver(self._rooms[sealed.room_id], opened)
            self._position.remove_undecrypted(sealed)

    def _send_receipt(self, room_id: str, events: list[Json]) -> None:
        """Mark the messages as read for other users."""
        others = [each for each in events if get_str(each, "sender") != self._me.user_id]
        if others:
            where = api_path("rooms", room_id, "receipt", "m.read", get_str(others[-1], "event_id"))
            self._tasks.start(attempt(self._http.call("POST", where, {}), "a read receipt"))


def _text(event: Json, content: Json, me: MatrixIdentity, media: tuple[Media, ...]) -> str:
    body = get_str(content, "body")
    if event.get("type") == STICKER:
        return f"[sticker: {body}]"
    match get_str(content, "msgtype"):
        case "m.location":
            return f"[location: {body} {get_str(content, 'geo_uri')}]"
        case "m.emote":
            return f"* {own_text(content, me)}"
    if media and get_str(content, "filename") in ("", body):
        return ""  # the body is only the file name
    return own_text(content, me)
