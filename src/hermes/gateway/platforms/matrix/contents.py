"""Messages of the gateway as contents of Matrix events."""

import hashlib

import msgspec

from hermes.gateway.events import Media, Outgoing
from hermes.gateway.platforms.kit.media import mime_of
from hermes.gateway.platforms.matrix.reading import VOICE
from hermes.gateway.platforms.matrix.shapes import Json
from hermes.gateway.platforms.matrix.words import plain_of

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


def words_of(message: Outgoing, *, key: str = "") -> Json:
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
    mime = media.mime or mime_of(name)
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


def edited(message: Outgoing, message_id: str) -> Json:
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
