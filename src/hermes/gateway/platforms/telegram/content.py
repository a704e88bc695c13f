"""What is in a message of Telegram: its files, and words for what is no text and no file."""

from telegram import Message, MessageEntity
from telegram.constants import MessageEntityType

from hermes.gateway.events import Media

PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})


def media_of(message: Message) -> tuple[Media, ...]:
    """The file of a message; Telegram has at most one in each."""
    if message.photo:
        photo = message.photo[-1]  # the largest
        return (Media("image", "photo.jpg", "image/jpeg", photo.file_size or 0, photo.file_id),)
    if message.voice:
        voice = message.voice
        mime = voice.mime_type or "audio/ogg"
        return (Media("voice", "voice.ogg", mime, voice.file_size or 0, voice.file_id),)
    if audio := message.audio:
        name, mime = audio.file_name or "audio.mp3", audio.mime_type or ""
        return (Media("audio", name, mime, audio.file_size or 0, audio.file_id),)
    return _film(message) or _document(message)


def _film(message: Message) -> tuple[Media, ...]:
    if film := message.video or message.animation:
        name, mime = film.file_name or "video.mp4", film.mime_type or "video/mp4"
        return (Media("video", name, mime, film.file_size or 0, film.file_id),)
    if note := message.video_note:
        return (Media("video", "video.mp4", "video/mp4", note.file_size or 0, note.file_id),)
    return ()


def _document(message: Message) -> tuple[Media, ...]:
    document = message.document
    if document is None:
        return ()
    mime = document.mime_type or ""
    kind = "image" if mime in PICTURES else "document"
    name, size = document.file_name or "document", document.file_size or 0
    return (Media(kind, name, mime, size, document.file_id),)  # type: ignore[arg-type]  # the kind is one of ours


def words_of(message: Message) -> str:
    """Its text or caption, or a few words for what it is; "" for what only Telegram cares about."""
    return _written(message) or _place(message) or _other(message)


def _written(message: Message) -> str:
    """With the addresses that links hide behind words."""
    text = message.text or message.caption or ""
    entities = message.entities if message.text else message.caption_entities
    links = [each for each in entities if each.type == MessageEntityType.TEXT_LINK and each.url]
    # From the end, so that places before stay where they are. They count UTF-16 units.
    data = text.encode("utf-16-le", "surrogatepass")
    for link in sorted(links, key=lambda each: each.offset, reverse=True):
        data = _linked(data, link)
    return data.decode("utf-16-le", "surrogatepass")


def _linked(data: bytes, link: MessageEntity) -> bytes:
    start, end = 2 * link.offset, 2 * (link.offset + link.length)
    label = data[start:end].decode("utf-16-le", "surrogatepass")
    if label.rstrip("/") == (link.url or "").rstrip("/"):
        return data
    return data[:start] + f"[{label}]({link.url})".encode("utf-16-le", "surrogatepass") + data[end:]


def _place(message: Message) -> str:
    if venue := message.venue:
        at = venue.location
        return f"[place: {venue.title}, {venue.address} ({at.latitude}, {at.longitude})]"
    if place := message.location:
        return f"[location: {place.latitude}, {place.longitude}]"
    return ""


def _other(message: Message) -> str:
    if message.sticker:
        return f"[sticker {message.sticker.emoji or ''}".strip() + "]"
    if contact := message.contact:
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        return f"[contact: {name}, {contact.phone_number}]"
    if poll := message.poll:
        return f"[poll: {poll.question} – {' / '.join(option.text for option in poll.options)}]"
    if dice := message.dice:
        return f"[{dice.emoji} {dice.value}]"
    return ""
