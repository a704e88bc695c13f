"""One connection to Matrix."""

from importlib import import_module
from typing import Any

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused, NotConnected, Receive
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.tasks import Tasks
from hermes.gateway.platforms.matrix.bookmark import Bookmark
from hermes.gateway.platforms.matrix.failures import told
from hermes.gateway.platforms.matrix.intake import Intake
from hermes.gateway.platforms.matrix.invites import Invites
from hermes.gateway.platforms.matrix.login import Login, log_in
from hermes.gateway.platforms.matrix.moves import Moves
from hermes.gateway.platforms.matrix.options import options_from
from hermes.gateway.platforms.matrix.rooms import Rooms
from hermes.gateway.platforms.matrix.sending import Sender
from hermes.gateway.platforms.matrix.shapes import Json, word
from hermes.gateway.platforms.matrix.syncing import Syncing
from hermes.gateway.platforms.matrix.wire import Refusal, Wire, path
from hermes.gateway.platforms.matrix.words import Me


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
        self.ends.push_async_callback(wire.close)
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.login = await log_in(wire, options, state / "login.json")
        except OSError as error:
            raise NotConnected(f"the Matrix login cannot be kept: {error.strerror}") from error
        me = Me(self.login.user_id, await self._own_name())
        self.rooms = Rooms(me.user_id)
        self.bookmark = Bookmark(state / "sync.json", me.user_id)
        if options.encryption:  # its library is loaded only where it is used
            module = import_module("hermes.gateway.platforms.matrix.secrecy")
            self.secrecy = module.Secrecy(wire, self.login, state / "keys")
            self.ends.callback(self.secrecy.close)
            with told():
                await self.secrecy.publish(options.recovery_key)
        errands = Tasks()
        self.ends.push_async_callback(errands.close)
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
        self.ends.push_async_callback(self.bookmark.keep)
        await syncing.start(self)
        self.flow(invites.run())

    async def ask(self) -> None:
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
