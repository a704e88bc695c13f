"""Sends, edits and reactions."""

import asyncio
import hashlib
import uuid
from pathlib import Path
from typing import Protocol

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.contract import (
    ChatTarget,
    DeliveryUnknown,
    Media,
    OutgoingMessage,
    SendRefused,
)
from hermes.gateway.platforms.kit.media import guess_mime, open_upload
from hermes.gateway.platforms.matrix.client import (
    ENCRYPTED,
    MESSAGE,
    Json,
    Login,
    Refusal,
    Rooms,
    Wire,
    number,
    path,
    sending,
    table,
    tables,
    word,
)
from hermes.gateway.platforms.matrix.inbound import VOICE, Opens, plain_of
from hermes.gateway.platforms.matrix.sync import Bookmark, Moves
from hermes.store.records import OutboxRow

# Messages of the gateway as contents of Matrix events.

HTML = "org.matrix.custom.html"
KEY = "hermes.key"
"""By this a message can be found again, whichever device sent it."""
MSGTYPES = {
    "image": "m.image",
    "voice": "m.audio",
    "audio": "m.audio",
    "video": "m.video",
    "document": "m.file",
}
ROOM_FOR_TEXT = 44_000
"""Bytes of a content that fit into an event even when it is encrypted."""


def name_of(key: str, part: int) -> str:
    """The transaction id of a part of a message: the homeserver shows only one event for it."""
    return "h" + hashlib.sha256(f"{key}\0{part}".encode()).hexdigest()[:40]


def words_of(message: OutgoingMessage, *, key: str = "") -> Json:
    """The text of a message. `m.mentions` says that nobody is called by it."""
    marked = "<" in message.text or "&" in message.text
    plain = message.plain or (plain_of(message.text) if marked else message.text)
    content: Json = {
        "msgtype": "m.notice" if message.silent else "m.text",
        "body": plain,
        "m.mentions": {},
    }
    if key:
        content[KEY] = key
    if marked:
        formatted = content | {"format": HTML, "formatted_body": message.text}
        if len(msgspec.json.encode(formatted)) <= ROOM_FOR_TEXT:
            return formatted
    return content


def file_of(media: Media, size: int, where: Json, caption: Json) -> Json:
    """A file and the words beside it. `where` says how to get it: `url`, or `file` when it is
    encrypted."""
    name = media.name or "file"
    mime = media.mime or guess_mime(name)
    content = {
        **caption,
        **where,
        "msgtype": MSGTYPES[media.kind],
        "body": caption.get("body") or name,
        "filename": name,
        "info": {"mimetype": mime, "size": size},
    }
    if media.kind == "voice":
        content |= {VOICE: {}, "org.matrix.msc1767.audio": {}}
    return content


def related(content: Json, thread_id: str, reply_to: str) -> Json:
    """In its thread, and pointing to what it answers."""
    relation: Json = {}
    if thread_id:
        own = bool(reply_to) and reply_to != thread_id
        relation = {
            "rel_type": "m.thread",
            "event_id": thread_id,
            "is_falling_back": not own,
            "m.in_reply_to": {"event_id": reply_to or thread_id},
        }
    elif reply_to:
        relation = {"m.in_reply_to": {"event_id": reply_to}}
    return content | {"m.relates_to": relation} if relation else content


def edited(message: OutgoingMessage, message_id: str) -> Json:
    """Clients that know edits show `m.new_content`; the rest is for those that do not."""
    new = words_of(message)
    return {
        "msgtype": new["msgtype"],
        "body": f"* {new['body'][:200]}",
        "m.mentions": {},
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
    }


def reaction(message_id: str, emoji: str) -> Json:
    relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
    return {"m.relates_to": relation}


REACTION = "m.reaction"
REMEMBERED = 20 * 3600.0
"""Seconds that homeservers surely know a transaction for; Synapse does for a day."""
EARLIER = 300.0
"""Seconds that clocks may differ by."""
PAGE, MOST_PAGES = 100, 10
MOST_REACTIONS = 500


class Sealer(Protocol):
    async def seal(self, room_id: str, kind: str, content: Json) -> tuple[str, Json]: ...
    def seal_file(self, data: bytes) -> tuple[bytes, Json]: ...


class Sender:
    def __init__(
        self,
        wire: Wire,
        login: Login,
        clock: Clock,
        *,
        rooms: Rooms,
        moves: Moves,
        bookmark: Bookmark,
        sealer: Sealer | None,
        opens: Opens,
        max_upload: int,
    ) -> None:
        self._wire, self._login, self._clock = wire, login, clock
        self._rooms, self._moves, self._bookmark = rooms, moves, bookmark
        self._sealer, self._opens, self._max_upload = sealer, opens, max_upload
        self._reactions: dict[tuple[str, str], str] = {}
        """Events of our reactions, by message and emoji."""
        self._aliases: dict[str, str] = {}

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """The name of its first event. Sent twice under one key by one device it is there once."""
        files = [(media, open_upload(media, self._max_upload)) for media in message.media]
        room_id, first = await self._room(target), ""
        thread, reply_to = target.thread_id, message.reply_to
        caption = words_of(message, key=name_of(key, 0))
        for part in range(max(len(files), 1)):
            content = caption
            if files:
                media, file = files[part]
                content = await self._file(room_id, media, file, content if not part else {})
            name, related = name_of(key, part), _sending_related(content, thread, reply_to)
            try:
                sent = await self._put(room_id, MESSAGE, related, name)
            except SendRefused:
                if not thread or room_id == target.chat_id:
                    raise
                thread = ""  # it is of the room that this one replaced
                sent = await self._put(room_id, MESSAGE, content, name)
            first, reply_to = first or sent, ""
        if thread:
            self._bookmark.talk_in(thread)
        return first

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        room_id = await self._room(target)
        content = edited(message, message_id)
        await self._put(room_id, MESSAGE, content, uuid.uuid4().hex, repeatable=True)

    async def find(self, row: OutboxRow, target: ChatTarget) -> str | None:
        """Whether a message in doubt is in the room. None also while sending it again shows only
        one, since the homeserver still knows the transaction of this device. Raises
        `DeliveryUnknown` when too much was said there since."""
        age = self._clock.now().timestamp() - row.created_at
        places = self._moves.places(await self._room(target))
        if len(places) == 1 and age < REMEMBERED and row.created_at > self._login.since:
            return None
        for room_id in places:
            if found := await self._find_in(room_id, row):
                return found
        return None

    async def _find_in(self, room_id: str, row: OutboxRow) -> str | None:
        name, query = name_of(row.key, 0), {"dir": "b", "limit": str(PAGE)}
        with sending(repeatable=True):
            for _ in range(MOST_PAGES):
                try:
                    page = await self._wire.get(path("rooms", room_id, "messages"), query)
                except Refusal as error:
                    if error.status in (403, 404):
                        return None  # nobody sees it there, and sending will say why
                    raise
                chunk = tables(page, "chunk")
                recent = [event for event in chunk if _time(event) > row.created_at - EARLIER]
                for event in recent:
                    if self._mark(room_id, event) == name:
                        return word(event, "event_id")
                query["from"] = word(page, "end")
                if len(recent) < len(chunk) or not query["from"]:
                    return None
        raise DeliveryUnknown("too much was said on Matrix since then")

    async def react(self, target: ChatTarget, message_id: str, emoji: str) -> None:
        room_id = await self._room(target)
        content = reaction(message_id, emoji)
        try:
            where = path("rooms", room_id, "send", REACTION, uuid.uuid4().hex)
            answer = await self._wire.call("PUT", where, content)
        except Refusal as error:
            if error.code != "M_DUPLICATE_ANNOTATION":
                raise
            return
        self._reactions[message_id, emoji] = word(answer, "event_id")
        while len(self._reactions) > MOST_REACTIONS:
            del self._reactions[next(iter(self._reactions))]

    async def unreact(self, target: ChatTarget, message_id: str, emoji: str) -> None:
        room_id = await self._room(target)
        known = self._reactions.pop((message_id, emoji), "")
        for event_id in [known] if known else await self._ours(room_id, message_id, emoji):
            where = path("rooms", room_id, "redact", event_id, uuid.uuid4().hex)
            await self._wire.call("PUT", where, {})

    async def _ours(self, room_id: str, message_id: str, emoji: str) -> list[str]:
        """Reactions of ours from before a restart."""
        parts = ("rooms", room_id, "relations", message_id, "m.annotation", REACTION)
        answer = await self._wire.get(path(*parts, root="/_matrix/client/v1"), {"limit": "100"})
        return [
            word(event, "event_id")
            for event in tables(answer, "chunk")
            if word(event, "sender") == self._login.user_id
            and word(event, "content", "m.relates_to", "key") == emoji
        ]

    async def _put(
        self, room_id: str, kind: str, content: Json, name: str, *, repeatable: bool = False
    ) -> str:
        with sending(repeatable=repeatable):
            if await self._is_encrypted(room_id):
                if self._sealer is None:
                    raise SendRefused(
                        "the room is encrypted", hint="set MATRIX_ENCRYPTION=true to write there"
                    )
                kind, content = await self._sealer.seal(room_id, kind, content)
            where = path("rooms", room_id, "send", kind, name)
            return word(await self._wire.call("PUT", where, content), "event_id")

    async def _file(self, room_id: str, media: Media, file: Path, caption: Json) -> Json:
        try:
            data = await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            raise SendRefused(f"{file.name} cannot be read: {error.strerror}") from error
        size, keys = len(data), None
        mime = media.mime or guess_mime(media.name)
        with sending(repeatable=True):
            if self._sealer is not None and await self._is_encrypted(room_id):
                data, keys = await asyncio.to_thread(self._sealer.seal_file, data)
                mime = "application/octet-stream"
            mxc = await self._wire.upload(data, mime, "" if keys else media.name)
        where: Json = {"url": mxc} if keys is None else {"file": {**keys, "url": mxc}}
        return file_of(media, size, where, caption)

    async def _room(self, target: ChatTarget) -> str:
        """A room by its id, or by an address such as #hermes:matrix.org; the one that replaced it,
        where one did."""
        name = target.chat_id
        if not name.startswith("#"):
            return self._moves.home(name)
        if name not in self._aliases:
            with sending(repeatable=True):
                answer = await self._wire.get(path("directory", "room", name))
            self._aliases[name] = word(answer, "room_id")
        return self._moves.home(self._aliases[name])

    async def _is_encrypted(self, room_id: str) -> bool:
        """Of a room that no synchronisation told of yet, the homeserver is asked."""
        room = self._rooms.get(room_id)
        if room is not None:
            return room.encrypted
        try:
            await self._wire.get(path("rooms", room_id, "state", "m.room.encryption"))
        except Refusal as error:
            if error.code != "M_NOT_FOUND":
                raise
            return False
        return True

    def _mark(self, room_id: str, event: Json) -> str:
        if word(event, "sender") != self._login.user_id:
            return ""
        if event.get("type") == ENCRYPTED:
            opened = self._opens(room_id, event)
            if opened is None:
                raise DeliveryUnknown("what another device of ours sent on Matrix cannot be read")
            event = opened
        return word(table(event, "content"), KEY)


def _time(event: Json) -> float:
    return number(event, "origin_server_ts") / 1000


_sending_related = related
