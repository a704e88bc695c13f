"""Inbound events: parsing, quoted messages, undecrypted messages, and delivery to the gateway."""

import logging
import re
from functools import partial
from html import unescape
from urllib.parse import unquote

import msgspec

from hermes.sdk import Clock
from hermes.sdk.platforms import (
    Media,
    MediaKind,
    MessageEvent,
    Receive,
    SessionSource,
    TaskSet,
    deliver_until_accepted,
    group_rules,
    is_for_us,
    remember,
    strip_address,
)
from hermes_plugins.platforms.matrix.client import (
    ENCRYPTED,
    MESSAGE,
    STICKER,
    Json,
    MatrixClient,
    MatrixRoom,
    api_path,
    attempt,
    get_dict,
    get_int,
    get_str,
    get_strs,
    retry_until_final,
)
from hermes_plugins.platforms.matrix.manifest import MatrixSettings
from hermes_plugins.platforms.matrix.sync import (
    DecryptEvent,
    MatrixSession,
    UndecryptedEvent,
    fetch_new_events,
)

logger = logging.getLogger(__name__)
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
