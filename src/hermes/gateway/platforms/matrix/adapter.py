"""Matrix as the gateway sees it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from importlib import import_module

import aiohttp
import msgspec

from hermes.core.ports import Clock
from hermes.gateway.events import Media, Outgoing, Target
from hermes.gateway.platforms.base import AdapterContext, AdapterError, ChatName, Receive
from hermes.gateway.platforms.kit.connection import ConnectedAdapter
from hermes.gateway.platforms.kit.media import MediaCache, TooLarge
from hermes.gateway.platforms.matrix.failures import of_connecting, sending
from hermes.gateway.platforms.matrix.live import Live
from hermes.gateway.platforms.matrix.shapes import Json, word
from hermes.gateway.platforms.matrix.wire import TROUBLE, path
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

TYPING = 6000
"""Milliseconds that people see us writing."""
CHUNK = 65_536


class MatrixAdapter(ConnectedAdapter[Live]):
    def __init__(self, context: AdapterContext, *, clock: Clock | None = None) -> None:
        super().__init__(context)
        self._clock = clock or SystemClock()

    def connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._clock)

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        live = self.live
        sent = await live.sender.send(target, message, key)
        await live.bookmark.keep()
        return sent

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:
        await self.live.sender.edit(target, message_id, message)

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:  # noqa: ARG002 - the signature is given
        """None as long as the homeserver shows only one when it is sent again."""
        return await self.live.sender.find(row, target)

    async def typing(self, target: Target) -> None:
        live = self.live
        where = path("rooms", live.moves.home(target.chat_id), "typing", live.login.user_id)
        with sending(repeatable=True):
            await live.wire.call("PUT", where, {"typing": True, "timeout": TYPING})

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:
        live = self.live
        if not live.options.reactions:
            return
        with sending(repeatable=True):
            await (live.sender.react if on else live.sender.unreact)(target, message_id, emoji)

    async def fetch(self, media: Media, limit: int) -> Media:
        live, cache = self.live, MediaCache(self.context.cache)
        if media.size > limit:
            raise TooLarge(media.name, limit)
        keys = _keys(media.ref)
        try:
            async with live.wire.download(word(keys, "url") or media.ref) as answer:
                if (answer.content_length or 0) > limit:
                    raise TooLarge(media.name, limit)
                if not keys:
                    return await cache.save(answer.content.iter_chunked(CHUNK), media, limit)
                data = await _all(answer, media.name, limit)
        except TROUBLE as error:
            raise AdapterError(f"{media.name} cannot be fetched: {of_connecting(error)}") from None
        # Files may be encrypted where rooms are not; the library is there in any case.
        secrecy = import_module("hermes.gateway.platforms.matrix.secrecy")
        data = await asyncio.to_thread(secrecy.open_file, data, keys)
        return await cache.save(data, media, limit)

    async def chats(self) -> Sequence[ChatName]:
        return self.live.rooms.names()


def _keys(ref: str) -> Json:
    """What opens an encrypted file, when `Media.ref` names one."""
    return msgspec.json.decode(ref, type=Json) if ref.startswith("{") else {}


async def _all(answer: aiohttp.ClientResponse, name: str, limit: int) -> bytes:
    data = bytearray()
    pieces: AsyncIterator[bytes] = answer.content.iter_chunked(CHUNK)
    async for piece in pieces:
        data += piece
        if len(data) > limit:
            raise TooLarge(name, limit)
    return bytes(data)
