"""From an event of a room to a message of the gateway. Pure: it asks nobody."""

import msgspec

from hermes.gateway.events import Media, MediaKind, MessageEvent, SessionSource
from hermes.gateway.platforms.matrix.rooms import Room
from hermes.gateway.platforms.matrix.shapes import Json, number, table, word
from hermes.gateway.platforms.matrix.words import Me, mentions_us, quoted, said_to_us, without_quote

PLATFORM = "matrix"
MESSAGE, STICKER, ENCRYPTED = "m.room.message", "m.sticker", "m.room.encrypted"
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
