"""From what came in to what the agent is asked."""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.app.references.expansion import image_kind
from hermes.config.settings import Settings
from hermes.core.messages import Image, Text, User, UserPart
from hermes.gateway.platforms.kit.contract import (
    AdapterError,
    Media,
    MessageEvent,
    NotConnected,
    SessionSource,
)
from hermes.gateway.session_keys import is_shared
from hermes.store.records import InboxRow

if TYPE_CHECKING:
    from hermes.gateway.context import GatewayContext


# What the agent is told about the chat it talks in; never stored.

PRIVATE_PLATFORMS = frozenset({"whatsapp", "signal", "telegram"})
"""Where ids are telephone numbers or the like, so that `privacy.redact_pii` hides them."""
KINDS = {"dm": "a private chat", "group": "a group", "channel": "a channel"}
MOST_QUOTED = 4000
"""Characters. What is answered may be what is asked about, and may have been said to others."""


def surroundings(source: SessionSource, settings: Settings, *, shared: bool, homes: str) -> str:
    """Who, where, and what else is connected; the same as long as the chat is the same."""
    place = KINDS.get(source.chat_type, source.chat_type)
    named = f" called {source.chat_name!r}" if source.chat_name else ""
    thread = ", in a thread" if source.thread_id else ""
    lines = [f"You talk in {place}{named} on {source.platform}{thread}."]
    if shared:
        lines.append("Several people write here; each message begins with the writer's name.")
    elif who := person(source, settings):
        lines.append(f"The user is {who}.")
    if homes:
        lines.append(f"Connected: {homes}.")
    prompts = getattr(getattr(settings, source.platform, None), "channel_prompts", {})
    for place in (source.thread_id, source.chat_now, source.chat_id):
        if more := prompts.get(place):
            return "\n".join([*lines, more])
    return "\n".join(lines)


def person(source: SessionSource, settings: Settings) -> str:
    """Who writes, as the model may know them."""
    if settings.privacy.redact_pii and source.platform in PRIVATE_PLATFORMS:
        return f"user_{hashlib.sha256(source.user_id.encode()).hexdigest()[:12]}"
    return source.user_name or source.user_id


def said(event: MessageEvent, settings: Settings, *, shared: bool) -> str:
    """The text of a message with who wrote it and what it answers, where that matters."""
    quoted = " ".join(event.reply_to_text.split())
    if len(quoted) > MOST_QUOTED:
        quoted = f"{quoted[:MOST_QUOTED]}…"
    before = f'[in answer to: "{quoted}"]\n' if quoted else ""
    who = f"[{person(event.source, settings)}] " if shared else ""
    return f"{before}{who}{event.text}"


log = logging.getLogger(__name__)

MOST_INLINE = 5_000_000
"""Bytes of a picture that goes along; a larger one is named as a file."""


OURS = "hermes:"
"""How names of messages begin that no platform knows."""
MIRRORED = f"{OURS}mirror:"
"""The same, of what was sent to the chat from elsewhere: nobody answers it."""

_events = msgspec.json.Decoder(MessageEvent)


def event_of(row: InboxRow) -> MessageEvent:
    """Raises `msgspec.DecodeError` for a row that was damaged; see `House.readable`."""
    return _events.decode(row.event)


def is_mirrored(event: MessageEvent) -> bool:
    return event.message_id.startswith(MIRRORED)


def quotable(event: MessageEvent) -> str:
    """What an answer can quote; "" for what nobody said there."""
    return "" if event.message_id.startswith(OURS) else event.message_id


async def user_message(house: "GatewayContext", events: Sequence[MessageEvent]) -> User:
    """One message of the user from those that are answered together."""
    parts: list[UserPart] = []
    texts: list[str] = []
    settings = house.app.loaded.settings
    for event in events:
        shared = is_shared(
            event.source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        lines, images = await _files(house, event)
        lines = [said(event, settings, shared=shared), *lines]
        texts.append("\n".join(line for line in lines if line))
        parts += images
    return User((Text("\n\n".join(texts)), *parts))


async def with_files(house: "GatewayContext", question: User, event: MessageEvent) -> User:
    """What a command asks, with the files that came with the command."""
    lines, images = await _files(house, event)
    told = (Text("\n".join(lines)),) if lines else ()
    return User((*question.parts, *told, *images))


async def _files(house: "GatewayContext", event: MessageEvent) -> tuple[list[str], list[Image]]:
    lines: list[str] = []
    images: list[Image] = []
    for media in event.media:
        line, image = await _file(house, event, media)
        lines.append(line)
        images += image
    return lines, images


async def _file(
    house: "GatewayContext", event: MessageEvent, media: Media
) -> tuple[str, tuple[Image, ...]]:
    """What the agent is told of a file, and the picture itself when it is one."""
    name = media.name or media.kind
    try:
        fetched = await house.fetch(event, media)
    except AdapterError as error:
        log.warning("%s: a file could not be fetched: %s", event.source.platform, error)
        return f"[{media.kind} {name!r} could not be fetched: {error}]", ()
    path = Path(fetched.path)
    if media.kind == "image" and fetched.size <= MOST_INLINE:
        data = await asyncio.to_thread(path.read_bytes)
        if kind := image_kind(data[:16]):
            encoded = base64.b64encode(data).decode("ascii")
            return f"[image: {path}]", (Image(f"data:{kind};base64,{encoded}"),)
    return f"[{media.kind}: {path}]", ()


class AwayError(NotConnected):
    """A file is on a platform that is not connected at present."""
