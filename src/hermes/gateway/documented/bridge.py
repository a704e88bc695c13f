"""Makes an adapter with the documented interface one of the gateway's."""

import asyncio
import uuid
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import HermesError
from hermes.gateway.documented.adapters import BasePlatformAdapter, SendResult, classes, fitting
from hermes.gateway.documented.config import PlatformConfig
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    BaseAdapter,
    ChatTarget,
    ChatType,
    Media,
    MessageEvent,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendLater,
    SendRefused,
    SessionSource,
)
from hermes.gateway.platforms.kit.inbound import deliver_until_accepted
from hermes.gateway.platforms.kit.media import MediaCache, open_upload

T = TypeVar("T")

CHAT_TYPES: dict[str, ChatType] = {"": "dm", "dm": "dm", "private": "dm", "channel": "channel"}
"""Whatever else a chat is called is a group: what is private is not told there."""


class Bridge(BaseAdapter):
    """Which adapter it is says the name in the manifest."""

    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._inner = _made(context)
        self._begun = False

    async def connect(self, receive: Receive) -> None:
        self._inner.set_message_handler(partial(self._received, receive))
        self._begun = True
        if await self._inner.connect() is False:
            raise NotConnected(f"{self.manifest.label} could not be connected")

    async def disconnect(self) -> None:
        if self._begun:
            self._begun = False
            await self._inner.disconnect()

    async def probe(self) -> None:
        if not self._inner.is_connected:
            raise NotConnected(f"{self.manifest.label} has lost its connection")

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        more = {"reply_to": message.reply_to or None, "metadata": _metadata(target, key)}
        if not message.media:
            options = fitting(self._inner.send, **more)
            return _accepted(await self._inner.send(target.chat_id, message.text, **options), key)
        found = ""
        for media in message.media:
            path = open_upload(media, self.manifest.capabilities.max_upload_bytes)
            method = getattr(self._inner, f"send_{media.kind}")
            options = fitting(method, caption=message.text, **more)
            found = _accepted(await method(target.chat_id, str(path), **options), key)
        return found

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        change = self._inner.edit_message(target.chat_id, message_id, message.text)
        _accepted(await _guarded(change), message_id)

    async def typing(self, target: ChatTarget) -> None:
        options = fitting(self._inner.send_typing, metadata=_metadata(target))
        await _guarded(self._inner.send_typing(target.chat_id, **options))

    async def fetch(self, media: Media, limit: int) -> Media:
        """The adapter has put it on this machine already."""
        return await MediaCache(self.context.cache).copy(
            Path(media.path or media.ref), media, limit
        )

    async def _received(self, receive: Receive, event: MessageEvent) -> None:
        await deliver_until_accepted(receive, tidied(event, self.manifest.name), asyncio.sleep)


def tidied(event: MessageEvent, platform: str) -> MessageEvent:
    """With ids that are strings, and only kinds of chats there are. Without an id of its own a
    message gets one: then it is taken again when it comes again."""
    said = event.source
    source = SessionSource(
        platform=platform,
        chat_id=_word(said.chat_id),
        chat_type=CHAT_TYPES.get(_word(said.chat_type), "group"),
        user_id=_word(said.user_id),
        user_name=_word(said.user_name),
        chat_name=_word(said.chat_name),
        thread_id=_word(said.thread_id),
        is_bot=bool(said.is_bot),
        roles=tuple(_word(each) for each in said.roles or ()),
    )
    return msgspec.structs.replace(
        event,
        source=source,
        message_id=_word(event.message_id) or uuid.uuid4().hex,
        text=_word(event.text),
        media=tuple(event.media or ()),
        reply_to_id=_word(event.reply_to_id),
        reply_to_text=_word(event.reply_to_text),
        addressed=True,
    )


def _made(context: AdapterContext) -> BasePlatformAdapter:
    name = context.manifest.name
    config = PlatformConfig.of(context.manifest, context.extra["app"].loaded)
    try:
        inner = classes[name](config)
    except Exception as error:  # code of a plugin
        raise HermesError(f"its adapter has a fault: {type(error).__name__}: {error}") from error
    inner.platform = getattr(inner, "platform", "") or name  # it may do without our __init__
    return inner


async def _guarded(call: Awaitable[T]) -> T:
    """A fault of a plugin stops nothing."""
    try:
        return await call
    except Exception as error:  # the adapter is code of a plugin
        raise SendRefused(f"a fault of the adapter: {type(error).__name__}: {error}") from error


def _metadata(target: ChatTarget, key: str = "") -> dict[str, Any]:
    said = {"thread_id": target.thread_id, "key": key}
    return {name: value for name, value in said.items() if value}


def _accepted(sent: SendResult | str | None, otherwise: str) -> str:
    """The platform's name for a message; adapters that do not say it send all the same."""
    if not isinstance(sent, SendResult):
        return _word(sent) or otherwise
    if sent.success:
        return _word(sent.message_id) or otherwise
    what = sent.error or "the message was refused"
    raise SendLater(what) if sent.retryable else SendRefused(what)


def _word(value: object) -> str:
    return "" if value is None else str(value)
