"""From what came in to what the agent is asked."""

import asyncio
import base64
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.app.references.files import image_kind
from hermes.core.messages import Image, Text, User, UserPart
from hermes.gateway.platforms.kit.contract import AdapterError, Media, MessageEvent, NotConnected
from hermes.gateway.session_keys import is_shared
from hermes.gateway.surroundings import said
from hermes.store.records import InboxRow

if TYPE_CHECKING:
    from hermes.gateway.house import House

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


async def user_message(house: "House", events: Sequence[MessageEvent]) -> User:
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


async def with_files(house: "House", question: User, event: MessageEvent) -> User:
    """What a command asks, with the files that came with the command."""
    lines, images = await _files(house, event)
    told = (Text("\n".join(lines)),) if lines else ()
    return User((*question.parts, *told, *images))


async def _files(house: "House", event: MessageEvent) -> tuple[list[str], list[Image]]:
    lines: list[str] = []
    images: list[Image] = []
    for media in event.media:
        line, image = await _file(house, event, media)
        lines.append(line)
        images += image
    return lines, images


async def _file(house: "House", event: MessageEvent, media: Media) -> tuple[str, tuple[Image, ...]]:
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
