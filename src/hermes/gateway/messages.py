"""Converts incoming messages into what the agent reads."""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.config.settings import Settings
from hermes.core.messages import Image, Text, User, UserPart, image_kind
from hermes.gateway.outbox import SIDE_LANE, OutgoingMeta
from hermes.gateway.platforms.registry import chat_media_folder, media_folder, user_ids
from hermes.gateway.session_keys import is_shared, sharing
from hermes.sdk.platforms import AdapterError, Media, MessageEvent, NotConnected, SessionSource
from hermes.store import InboxItem, InboxRow

if TYPE_CHECKING:
    from hermes.gateway.gateway import Gateway


log = logging.getLogger(__name__)

PHONE_PLATFORMS = frozenset({"whatsapp", "signal"})
"""Platforms whose user ids are phone numbers, also when their plugin does not say so."""
KINDS = {"dm": "a private chat", "group": "a group", "channel": "a channel"}
MAX_QUOTED = 4000
"""Maximum number of quoted characters. The quoted message may be the subject of the question, and
may come from another session."""


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner can read, and return it."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def describe_chat(source: SessionSource, settings: Settings, *, shared: bool, homes: str) -> str:
    """Describe the chat for the system prompt: who, where, and what else is connected.

    The text is never stored, and stays the same while the chat does.
    """
    place = KINDS.get(source.chat_type, source.chat_type)
    named = f" called {source.chat_name!r}" if source.chat_name else ""
    thread = ", in a thread" if source.thread_id else ""
    lines = [f"You are in {place}{named} on {source.platform}{thread}."]
    if shared:
        lines.append("Several people write here; each message starts with its author's name.")
    elif who := display_name(source, settings):
        lines.append(f"The user is {who}.")
    if homes:
        lines.append(f"Connected: {homes}.")
    prompts = getattr(getattr(settings, source.platform, None), "channel_prompts", {})
    for place in (source.thread_id, source.chat_now, source.chat_id):
        if more := prompts.get(place):
            return "\n".join([*lines, more])
    return "\n".join(lines)


def display_name(source: SessionSource, settings: Settings) -> str:
    """Return the name of the author as the model may see it."""
    personal = source.platform in PHONE_PLATFORMS or user_ids(source.platform).personal
    if settings.privacy.redact_pii and personal:
        return f"user_{hashlib.sha256(source.user_id.encode()).hexdigest()[:12]}"
    return source.user_name or source.user_id


def format_message(event: MessageEvent, settings: Settings, *, shared: bool) -> str:
    """Return the text of a message, with its author and the quoted message where they matter."""
    quoted = " ".join(event.reply_to_text.split())
    if len(quoted) > MAX_QUOTED:
        quoted = f"{quoted[:MAX_QUOTED]}…"
    before = f'[in answer to: "{quoted}"]\n' if quoted else ""
    who = f"[{display_name(event.source, settings)}] " if shared else ""
    return f"{before}{who}{event.text}"


MAX_INLINE_BYTES = 5_000_000
"""Maximum size of an image that is passed inline; a larger one is named as a file."""


INTERNAL_PREFIX = "hermes:"  #: Prefix of message ids that no platform knows.
MIRROR_PREFIX = f"{INTERNAL_PREFIX}mirror:"
"""Prefix of messages that were sent to the chat from elsewhere; they are not answered."""

_events = msgspec.json.Decoder(MessageEvent)


def decode_event(row: InboxRow) -> MessageEvent:
    """Decode a stored message. Raises `msgspec.DecodeError` for a damaged row."""
    return _events.decode(row.event)


def inbox_item(event: MessageEvent, key: str) -> InboxItem:
    source, data = event.source, msgspec.json.encode(event)
    return InboxItem(source.platform, source.account, event.message_id, key, data)


def is_mirrored(event: MessageEvent) -> bool:
    return event.message_id.startswith(MIRROR_PREFIX)


def reply_id(event: MessageEvent) -> str:
    """Return the id that a reply can quote; "" for messages that no user wrote."""
    return "" if event.message_id.startswith(INTERNAL_PREFIX) else event.message_id


def side_reply(row: InboxRow, event: MessageEvent, kind: str) -> OutgoingMeta:
    """Describe the reply to a message that is answered outside the order of its chat."""
    key, quoted = f"reply:{row.id}", reply_id(event)
    return OutgoingMeta(key, event.source.target, kind, row.id, quoted, lane_suffix=SIDE_LANE)


async def build_user_message(gateway: "Gateway", events: Sequence[MessageEvent]) -> User:
    """Build one user message from the messages that are answered together."""
    parts: list[UserPart] = []
    texts: list[str] = []
    settings = gateway.settings
    for event in events:
        shared = is_shared(event.source, **sharing(settings))
        lines, images = await _describe_files(gateway, event)
        lines = [format_message(event, settings, shared=shared), *lines]
        texts.append("\n".join(line for line in lines if line))
        parts += images
    return User((Text("\n\n".join(texts)), *parts))


async def add_files(gateway: "Gateway", question: User, event: MessageEvent) -> User:
    """Add the files of a command to the question that the command asks."""
    lines, images = await _describe_files(gateway, event)
    note = (Text("\n".join(lines)),) if lines else ()
    return User((*question.parts, *note, *images))


async def _describe_files(gateway: "Gateway", event: MessageEvent) -> tuple[list[str], list[Image]]:
    described = [await _describe_file(gateway, event, media) for media in event.media]
    return [line for line, _ in described], [each for _, images in described for each in images]


async def _describe_file(
    gateway: "Gateway", event: MessageEvent, media: Media
) -> tuple[str, tuple[Image, ...]]:
    """Describe a file for the agent; an image is also returned itself."""
    name = media.name or media.kind
    try:
        fetched = await _fetch(gateway, event.source, media)
    except AdapterError as error:
        log.warning("%s: a file could not be fetched: %s", event.source.platform, error)
        return f"[{media.kind} {name!r} could not be fetched: {error}]", ()
    path = Path(fetched.path)
    if media.kind == "image" and fetched.size <= MAX_INLINE_BYTES:
        data = await asyncio.to_thread(path.read_bytes)
        if kind := image_kind(data[:16]):
            encoded = base64.b64encode(data).decode("ascii")
            return f"[image: {path}]", (Image(f"data:{kind};base64,{encoded}"),)
    return f"[{media.kind}: {path}]", ()


async def _fetch(gateway: "Gateway", source: SessionSource, media: Media) -> Media:
    """Download a file into the folder of its chat."""
    connection = gateway.connections.get(source.platform, source.account)
    if connection is None:
        raise NotConnected(f"{source.platform} is not connected")
    limit = gateway.settings.gateway.media_max_bytes
    fetched = await connection.adapter.fetch(media, limit)
    root, path = gateway.app.home.root, Path(fetched.path)
    if path.parent != media_folder(root):
        return fetched  # the adapter keeps its files elsewhere
    try:
        moved = path.rename(private_folder(chat_media_folder(root, source)) / path.name)
        return msgspec.structs.replace(fetched, path=str(moved))
    except OSError as error:
        raise AdapterError(f"{path.name} cannot be stored: {error.strerror}") from error
