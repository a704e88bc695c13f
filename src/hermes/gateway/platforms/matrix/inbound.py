"""What a synchronisation brings, on its way to the gateway."""

import logging
import re
from collections.abc import Callable
from functools import partial
from html import unescape
from typing import Protocol
from urllib.parse import unquote

import msgspec

from hermes.config.settings.platforms import MatrixSettings
from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import TaskSet
from hermes.gateway.platforms.kit.contract import (
    Media,
    MediaKind,
    MessageEvent,
    Receive,
    SessionSource,
)
from hermes.gateway.platforms.kit.inbound import (
    deliver_until_accepted,
    group_rules,
    is_for_us,
    strip_address,
)
from hermes.gateway.platforms.matrix.client import (
    ENCRYPTED,
    MESSAGE,
    STICKER,
    Json,
    Room,
    Rooms,
    Wire,
    insistently,
    number,
    path,
    table,
    tried,
    word,
    words,
)
from hermes.gateway.platforms.matrix.sync import Bookmark, Invites, Moves, Sealed, new_events

# What people say in a message: without what the client of the writer put around it.

_LINK = re.compile(r"""href\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_PILL = re.compile(r"https://matrix\.to/#/(@[^/?]+)|matrix:u/([^/?]+)")
_TAG = re.compile(r"<(br|/p|/li|/h[1-6]|/pre|/blockquote|/tr)\b[^>]*>|<[^>]*>", re.IGNORECASE)


class Me(msgspec.Struct, frozen=True):
    user_id: str
    name: str = ""
    """As shown to people."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """`@` and one of our names, not the beginning of a longer one."""
        local = self.user_id[1:].partition(":")[0]
        names = (self.user_id[1:], self.name.removeprefix("@"), local)
        either = "|".join(re.escape(name) for name in names if name)
        return re.compile(rf"(?<![\w@])@(?:{either})(?!\w|:\w)", re.IGNORECASE)


def mentions_us(content: Json, me: Me) -> bool:
    """As the writer's client says, by a link to us, or by our name in the text."""
    if me.user_id in words(content, "m.mentions", "user_ids"):
        return True
    if me.user_id in _linked(word(content, "formatted_body")):
        return True
    return me.pattern.search(without_quote(content)) is not None


def said_to_us(content: Json, me: Me) -> str:
    """The text without our name where it is only an address."""
    text = without_quote(content)
    if not mentions_us(content, me):
        return text
    text = strip_address(text, me.pattern.pattern)
    if me.name:  # as clients write a link in plain text
        text = re.sub(rf"\A\s*{re.escape(me.name)}(?:[,:]\s*|\s+)", "", text, flags=re.IGNORECASE)
    return text


def without_quote(content: Json) -> str:
    """The body without the lines of the message it answers, which older clients put before it."""
    body = word(content, "body")
    if not table(content, "m.relates_to", "m.in_reply_to") or not body.startswith("> "):
        return body
    lines = body.split("\n")
    while lines and lines[0].startswith(">"):
        lines.pop(0)
    if lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def quoted(content: Json) -> str:
    """Those lines, for when the message itself cannot be had."""
    body = word(content, "body")
    if not body.startswith("> "):
        return ""
    head = body.partition("\n\n")[0]
    text = "\n".join(line.removeprefix(">").strip() for line in head.split("\n"))
    return re.sub(r"\A(?:\* )?<@[^>]*>\s*", "", text)


def plain_of(html: str) -> str:
    """Readable text of HTML that has no plain form."""
    return unescape(_TAG.sub(lambda tag: "\n" if tag[1] else "", html)).strip()


def _linked(html: str) -> list[str]:
    found = []
    for link in _LINK.findall(html):
        pill = _PILL.match(unquote(unescape(link)))
        if pill:
            found.append(pill[1] or f"@{pill[2]}")
    return found


# From an event of a room to a message of the gateway. Pure: it asks nobody.

PLATFORM = "matrix"
KINDS: dict[str, MediaKind] = {
    "m.image": "image",
    "m.audio": "audio",
    "m.video": "video",
    "m.file": "document",
}
VOICE = "org.matrix.msc3245.voice"
QUOTED = 500
"""Characters of a message that is answered."""


class Seen(msgspec.Struct, frozen=True):
    """A message that another one answers."""

    sender: str
    text: str


def is_said(event: Json, me: str) -> bool:
    """Whether it is something that somebody else says: no edit, nothing redacted, nothing of
    ours."""
    if event.get("type") not in (MESSAGE, STICKER) or "state_key" in event:
        return False
    content = table(event, "content")
    if not content or word(content, "m.relates_to", "rel_type") == "m.replace":
        return False
    return word(event, "sender") != me and bool(word(event, "event_id"))


def seen_of(event: Json) -> Seen:
    content = table(event, "content")
    text = without_quote(content) or word(content, "body")
    return Seen(word(event, "sender"), text[:QUOTED])


def thread_of(content: Json) -> str:
    relation = table(content, "m.relates_to")
    return word(relation, "event_id") if relation.get("rel_type") == "m.thread" else ""


def answered(content: Json) -> str:
    """The message it answers. In a thread clients name one for older clients too: no answer."""
    relation = table(content, "m.relates_to")
    if relation.get("rel_type") == "m.thread" and relation.get("is_falling_back") is True:
        return ""
    return word(relation, "m.in_reply_to", "event_id")


def event_of(
    event: Json, room: Room, me: Me, *, reply: Seen | None = None, in_talk: bool = False
) -> MessageEvent:
    """Of what `is_said`. `reply` is the message it answers, as far as known; `in_talk` is whether
    we talk in its thread already, so that no mention is needed."""
    content = table(event, "content")
    sender, media = word(event, "sender"), media_of(content)
    ours = reply is not None and reply.sender == me.user_id
    private = room.chat_type == "dm"
    return MessageEvent(
        source=SessionSource(
            platform=PLATFORM,
            chat_id=room.origin,
            chat_type=room.chat_type,
            user_id=sender,
            user_name=room.name_of(sender),
            chat_name=room.name_of(sender) if private else room.title,
            thread_id=thread_of(content),
            is_bot=content.get("msgtype") == "m.notice",
            chat_now=room.id if room.id != room.origin else "",
        ),
        message_id=word(event, "event_id"),
        text=_text(event, content, me, media),
        media=media,
        reply_to_id=answered(content),
        reply_to_text=(reply.text if reply else quoted(content)[:QUOTED])
        if answered(content)
        else "",
        addressed=private or in_talk or ours or mentions_us(content, me),
        sent_at=number(event, "origin_server_ts") / 1000,
    )


def media_of(content: Json) -> tuple[Media, ...]:
    """The file of a message. An encrypted one is named by all that opens it."""
    kind = KINDS.get(word(content, "msgtype"))
    sealed = table(content, "file")
    ref = msgspec.json.encode(sealed).decode() if sealed else word(content, "url")
    if kind is None or not ref:
        return ()
    if kind == "audio" and (VOICE in content or "m.voice" in content):
        kind = "voice"
    name = word(content, "filename") or word(content, "body")
    info = table(content, "info")
    return (Media(kind, name, word(info, "mimetype"), max(number(info, "size"), 0), ref),)


def _text(event: Json, content: Json, me: Me, media: tuple[Media, ...]) -> str:
    body = word(content, "body")
    if event.get("type") == STICKER:
        return f"[sticker: {body}]"
    match word(content, "msgtype"):
        case "m.location":
            return f"[location: {body} {word(content, 'geo_uri')}]"
        case "m.emote":
            return f"* {said_to_us(content, me)}"
    if media and word(content, "filename") in ("", body):
        return ""  # the body is only the name of the file
    return said_to_us(content, me)


# Messages that others answer: the last ones are remembered, older ones are asked for.

MOST = 500

Opens = Callable[[str, Json], Json | None]
"""Decrypts an event of a room; None when it cannot be."""


class Quotes:
    def __init__(self, wire: Wire, clock: Clock, opens: Opens) -> None:
        self._wire, self._clock, self._opens = wire, clock, opens
        self._known: dict[str, Seen] = {}

    def note(self, event: Json) -> None:
        """An event that came, also one of ours."""
        content, event_id = table(event, "content"), word(event, "event_id")
        if word(content, "m.relates_to", "rel_type") == "m.replace":
            event_id = word(content, "m.relates_to", "event_id")
            before = self._known.get(event_id)
            if before is None or before.sender != word(event, "sender"):
                return
            text = word(content, "m.new_content", "body")[:QUOTED]
            self._known[event_id] = msgspec.structs.replace(before, text=text)
        elif "body" in content:
            self._known[event_id] = seen_of(event)
            while len(self._known) > MOST:
                del self._known[next(iter(self._known))]

    async def find(self, room_id: str, event_id: str) -> Seen | None:
        if event_id not in self._known:
            nothing: Json = {}
            event = await insistently(
                lambda: self._wire.get(path("rooms", room_id, "event", event_id)),
                self._clock,
                nothing,
                "a message that was answered",
            )
            if event.get("type") == ENCRYPTED:
                event = self._opens(room_id, event) or {}
            self.note(event)
            edit = table(event, "unsigned", "m.relations", "m.replace")
            if edit.get("type") == ENCRYPTED:
                edit = self._opens(room_id, edit) or {}
            self.note(edit)
        return self._known.get(event_id)


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
        errands: TaskSet,
        opener: Opener | None,
    ) -> None:
        self._wire, self._clock, self._me, self._settings = wire, clock, me, settings
        self._receive, self._rules = receive, group_rules(settings)
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
        if event.get("type") == ENCRYPTED:
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
            await deliver_until_accepted(self._receive, message, self._clock.sleep)

    async def _read(self, room: Room, event: Json) -> MessageEvent | None:
        """None when it is nothing to the gateway."""
        self._quotes.note(event)
        if not is_said(event, self._me.user_id):
            return None
        content = table(event, "content")
        thread, reply_to = thread_of(content), answered(content)
        reply = await self._quotes.find(room.id, reply_to) if reply_to else None
        in_talk = bool(thread) and self._bookmark.talks_in(thread)
        message = event_of(event, room, self._me, reply=reply, in_talk=in_talk)
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
