"""The parts of a connection, put together."""

import asyncio
from importlib import import_module
from typing import Any

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused, NotConnected, Receive
from hermes.gateway.platforms.matrix.bookmark import Bookmark
from hermes.gateway.platforms.matrix.failures import told
from hermes.gateway.platforms.matrix.intake import Intake
from hermes.gateway.platforms.matrix.invites import Invites
from hermes.gateway.platforms.matrix.login import Login, log_in
from hermes.gateway.platforms.matrix.options import Options
from hermes.gateway.platforms.matrix.patience import Errands
from hermes.gateway.platforms.matrix.rooms import Rooms
from hermes.gateway.platforms.matrix.sending import Sender
from hermes.gateway.platforms.matrix.shapes import Json, word
from hermes.gateway.platforms.matrix.syncing import Syncing
from hermes.gateway.platforms.matrix.wire import Refusal, Wire, path
from hermes.gateway.platforms.matrix.words import Me


class Live:
    def __init__(
        self, context: AdapterContext, options: Options, clock: Clock, receive: Receive
    ) -> None:
        self._context, self._clock, self._receive = context, clock, receive
        self.options, self.wire = options, Wire(options.homeserver)
        self.errands = Errands()
        self.secrecy: Any = None
        """`secrecy.Secrecy`, when rooms may be encrypted."""
        self._joining: asyncio.Task[None] | None = None
        self._syncing: Syncing | None = None

    async def start(self) -> None:
        state, wire, options = self._context.state, self.wire, self.options
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.login: Login = await log_in(wire, options, state / "login.json")
        except OSError as error:
            raise NotConnected(f"the Matrix login cannot be kept: {error.strerror}") from error
        me = Me(self.login.user_id, await self._own_name())
        self.rooms = Rooms(me.user_id)
        self.bookmark = Bookmark(state / "sync.json", me.user_id)
        if options.encryption:  # its library is loaded only where it is used
            module = import_module("hermes.gateway.platforms.matrix.secrecy")
            self.secrecy = module.Secrecy(wire, self.login, state / "keys")
            with told():
                await self.secrecy.publish(options.recovery_key)
        invites = Invites(wire, self.bookmark, self.rooms, me.user_id, self._clock)
        intake = Intake(
            wire,
            self._clock,
            me,
            options.settings,
            self._receive,
            bookmark=self.bookmark,
            rooms=self.rooms,
            invites=invites,
            errands=self.errands,
            opener=self.secrecy,
        )
        self.sender = Sender(
            wire,
            self.login,
            self._clock,
            rooms=self.rooms,
            bookmark=self.bookmark,
            sealer=self.secrecy,
            opens=self._open,
            max_upload=self._context.manifest.capabilities.max_upload_bytes,
        )
        self._syncing = Syncing(wire, self.bookmark, self._clock, intake.absorb, intake.take)
        await self._syncing.start()
        self._joining = asyncio.create_task(invites.run())

    async def stop(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.wait([self._joining])
        if self._syncing is not None:
            await self._syncing.stop()
            await self.bookmark.keep()
        await self.errands.stop()
        if self.secrecy is not None:
            self.secrecy.close()
        await self.wire.close()

    async def probe(self) -> None:
        if self._syncing is None:
            raise NotConnected("Matrix is not connected")
        try:
            self._syncing.check()
            with told():
                await self.wire.get(path("account", "whoami"))
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
