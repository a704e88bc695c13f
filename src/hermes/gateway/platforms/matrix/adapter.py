"""Matrix as the gateway sees it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

import aiohttp
import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import ConnectedAdapter, Connection, TaskSet
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    CredentialsRefused,
    Media,
    NotConnected,
    OutgoingMessage,
    Receive,
)
from hermes.gateway.platforms.kit.media import MediaCache, MediaTooLarge
from hermes.gateway.platforms.matrix.client import (
    TROUBLE,
    Json,
    Login,
    Refusal,
    Rooms,
    Wire,
    log_in,
    of_connecting,
    options_from,
    path,
    sending,
    told,
    word,
)
from hermes.gateway.platforms.matrix.inbound import Intake, Me
from hermes.gateway.platforms.matrix.outbound import Sender
from hermes.gateway.platforms.matrix.sync import Bookmark, Invites, Moves, Syncing
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

# One connection to Matrix.


class Live(Connection):
    login: Login
    rooms: Rooms
    bookmark: Bookmark
    moves: Moves
    sender: Sender

    def __init__(self, context: AdapterContext, receive: Receive, clock: Clock) -> None:
        super().__init__(context, receive)
        self._clock, self.options = clock, options_from(context)
        self.identities = (self.options.identity,)
        self.secrecy: Any = None
        """`secrecy.Secrecy`, when rooms may be encrypted."""

    async def open(self) -> None:
        state, options = self.context.state, self.options
        self.wire = wire = Wire(options.homeserver)
        self.resources.push_async_callback(wire.close)
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.login = await log_in(wire, options, state / "login.json")
        except OSError as error:
            raise NotConnected(f"the Matrix login cannot be kept: {error.strerror}") from error
        me = Me(self.login.user_id, await self._own_name())
        self.rooms = Rooms(me.user_id)
        self.bookmark = Bookmark(state / "sync.json", me.user_id)
        if options.encryption:  # its library is loaded only where it is used
            module = import_module("hermes.gateway.platforms.matrix.encryption")
            self.secrecy = module.Secrecy(wire, self.login, state / "keys")
            self.resources.callback(self.secrecy.close)
            with told():
                await self.secrecy.publish(options.recovery_key)
        errands = TaskSet()
        self.resources.push_async_callback(errands.close)
        invites = Invites(wire, self.bookmark, self.rooms, me.user_id, self._clock)
        self.moves = Moves(self.bookmark, self.rooms, invites)
        intake = Intake(
            wire,
            self._clock,
            me,
            options.settings,
            self.receive,
            bookmark=self.bookmark,
            rooms=self.rooms,
            invites=invites,
            moves=self.moves,
            errands=errands,
            opener=self.secrecy,
        )
        self.sender = Sender(
            wire,
            self.login,
            self._clock,
            rooms=self.rooms,
            moves=self.moves,
            bookmark=self.bookmark,
            sealer=self.secrecy,
            opens=self._open,
            max_upload=self.context.manifest.capabilities.max_upload_bytes,
        )
        syncing = Syncing(wire, self.bookmark, self._clock, intake.absorb, intake.take)
        self.resources.push_async_callback(self.bookmark.keep)
        await syncing.start(self)
        self.run_until_closed(invites.run())

    async def ping(self) -> None:
        with told():
            await self.wire.get(path("account", "whoami"))

    async def probe(self) -> None:
        try:
            await super().probe()
        except CredentialsRefused:
            if self.options.token:
                raise
            raise NotConnected("the Matrix login has ended; a new one is due") from None

    async def _own_name(self) -> str:
        with told():
            try:
                found = await self.wire.get(path("profile", self.login.user_id, "displayname"))
            except Refusal as error:
                if error.status != 404:
                    raise
                return ""
        return word(found, "displayname")

    def _open(self, room_id: str, event: Json) -> Json | None:
        opened: Json | None = self.secrecy.open(room_id, event) if self.secrecy else None
        return opened


TYPING = 6000
"""Milliseconds that people see us writing."""
CHUNK = 65_536


class MatrixAdapter(ConnectedAdapter[Live]):
    def __init__(self, context: AdapterContext, *, clock: Clock | None = None) -> None:
        super().__init__(context)
        self._clock = clock or SystemClock()

    def make_connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._clock)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        live = self.connection
        sent = await live.sender.send(target, message, key)
        await live.bookmark.keep()
        return sent

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        await self.connection.sender.edit(target, message_id, message)

    async def was_delivered(
        self,
        row: OutboxRow,
        target: ChatTarget,
        message: OutgoingMessage,  # noqa: ARG002 - the signature is given
    ) -> str | None:
        """None as long as the homeserver shows only one when it is sent again."""
        return await self.connection.sender.find(row, target)

    async def typing(self, target: ChatTarget) -> None:
        live = self.connection
        where = path("rooms", live.moves.home(target.chat_id), "typing", live.login.user_id)
        with sending(repeatable=True):
            await live.wire.call("PUT", where, {"typing": True, "timeout": TYPING})

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        live = self.connection
        if not live.options.reactions:
            return
        with sending(repeatable=True):
            await (live.sender.react if on else live.sender.unreact)(target, message_id, emoji)

    async def fetch(self, media: Media, limit: int) -> Media:
        live, cache = self.connection, MediaCache(self.context.cache)
        if media.size > limit:
            raise MediaTooLarge(media.name, limit)
        keys = _keys(media.ref)
        try:
            async with live.wire.download(word(keys, "url") or media.ref) as answer:
                if (answer.content_length or 0) > limit:
                    raise MediaTooLarge(media.name, limit)
                if not keys:
                    return await cache.save(answer.content.iter_chunked(CHUNK), media, limit)
                data = await _all(answer, media.name, limit)
        except TROUBLE as error:
            raise AdapterError(f"{media.name} cannot be fetched: {of_connecting(error)}") from None
        # Files may be encrypted where rooms are not; the library is there in any case.
        secrecy = import_module("hermes.gateway.platforms.matrix.encryption")
        data = await asyncio.to_thread(secrecy.open_file, data, keys)
        return await cache.save(data, media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        return self.connection.rooms.names()


def _keys(ref: str) -> Json:
    """What opens an encrypted file, when `Media.ref` names one."""
    return msgspec.json.decode(ref, type=Json) if ref.startswith("{") else {}


async def _all(answer: aiohttp.ClientResponse, name: str, limit: int) -> bytes:
    data = bytearray()
    pieces: AsyncIterator[bytes] = answer.content.iter_chunked(CHUNK)
    async for piece in pieces:
        data += piece
        if len(data) > limit:
            raise MediaTooLarge(name, limit)
    return bytes(data)
