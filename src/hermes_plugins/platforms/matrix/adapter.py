"""The Matrix adapter and its connection."""

import asyncio
from collections.abc import Sequence

import msgspec

from hermes.sdk import Clock, SystemClock
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    CredentialsRefused,
    DeliveryQuery,
    Media,
    MediaCache,
    MediaTooLarge,
    NotConnected,
    OutgoingMessage,
    Receive,
    TaskSet,
)
from hermes_plugins.platforms.matrix.client import (
    CALL_ERRORS,
    Json,
    MatrixClient,
    MatrixError,
    MatrixRooms,
    api_path,
    get_str,
    log_in,
    map_connect_error,
    read_options,
    translate_connect_errors,
    translate_send_errors,
)
from hermes_plugins.platforms.matrix.inbound import MatrixIdentity, MatrixInbound
from hermes_plugins.platforms.matrix.outbound import MatrixSender
from hermes_plugins.platforms.matrix.sync import (
    InviteHandler,
    MatrixSession,
    RoomUpgrades,
    SyncLoop,
    SyncPosition,
)


class MatrixConnection(Connection):
    session: MatrixSession
    sender: MatrixSender

    def __init__(self, context: AdapterContext, receive: Receive, clock: Clock) -> None:
        super().__init__(context, receive)
        self._clock, self.options = clock, read_options(context)
        self.identities = (self.options.identity,)

    async def open(self) -> None:
        state, options, clock = self.context.state, self.options, self._clock
        self.http = http = MatrixClient(options.homeserver)
        self.resources.push_async_callback(http.close)
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            login = await log_in(http, options, state / "login.json")
        except OSError as error:
            raise NotConnected(f"the Matrix login cannot be stored: {error.strerror}") from error
        me = MatrixIdentity(login.user_id, await self._own_name(login.user_id))
        rooms, position = MatrixRooms(me.user_id), SyncPosition(state / "sync.json", me.user_id)
        encryption = None
        if options.encryption:
            # Imported here: matrix-nio is slow to load and needed for encryption only.
            from hermes_plugins.platforms.matrix.encryption import MatrixEncryption

            encryption = MatrixEncryption(http, login, state / "keys")
            self.resources.callback(encryption.close)
            with translate_connect_errors():
                await encryption.publish_keys(options.recovery_key)
        tasks = TaskSet()
        self.resources.push_async_callback(tasks.close)
        invites = InviteHandler(http, position, rooms, me.user_id, clock)
        moves = RoomUpgrades(position, rooms, invites)
        self.session = MatrixSession(http, clock, login, rooms, position, moves, encryption)
        inbound = MatrixInbound(self.session, me, options.settings, self.receive, tasks)
        self.sender = MatrixSender(
            self.session, self.context.manifest.capabilities.max_upload_bytes
        )
        syncing = SyncLoop(http, position, clock, inbound.update, inbound.deliver_new)
        self.resources.push_async_callback(position.save)
        await syncing.start(self)
        self.run_until_closed(invites.run())

    async def ping(self) -> None:
        with translate_connect_errors():
            await self.http.get(api_path("account", "whoami"))

    async def probe(self) -> None:
        try:
            await super().probe()
        except CredentialsRefused:
            if self.options.token:
                raise
            raise NotConnected("the Matrix login has expired; logging in again") from None

    async def _own_name(self, user_id: str) -> str:
        with translate_connect_errors():
            try:
                found = await self.http.get(api_path("profile", user_id, "displayname"))
            except MatrixError as error:
                if error.status != 404:
                    raise
                return ""
        return get_str(found, "displayname")


TYPING_MILLISECONDS = 6000  #: Milliseconds for which the typing indicator is shown.
CHUNK = 65_536


class MatrixAdapter(ConnectedAdapter[MatrixConnection]):
    def __init__(self, context: AdapterContext, *, clock: Clock | None = None) -> None:
        super().__init__(context)
        self._clock = clock or SystemClock()

    def make_connection(self, receive: Receive) -> MatrixConnection:
        return MatrixConnection(self.context, receive, self._clock)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        connection = self.connection
        sent = await connection.sender.send(target, message, key)
        await connection.session.position.save()
        return sent

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        await self.connection.sender.edit(target, message_id, message)

    async def was_delivered(
        self,
        query: DeliveryQuery,
        target: ChatTarget,
        message: OutgoingMessage,  # noqa: ARG002 - the signature is given
    ) -> str | None:
        """None while the homeserver shows only one message when it is sent again."""
        return await self.connection.sender.was_delivered(query, target)

    async def typing(self, target: ChatTarget) -> None:
        session = self.connection.session
        room_id = session.moves.current_room(target.chat_id)
        where = api_path("rooms", room_id, "typing", session.login.user_id)
        with translate_send_errors(repeatable=True):
            await session.http.call("PUT", where, {"typing": True, "timeout": TYPING_MILLISECONDS})

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        connection = self.connection
        if not connection.options.reactions:
            return
        with translate_send_errors(repeatable=True):
            await (connection.sender.react if on else connection.sender.unreact)(
                target, message_id, emoji
            )

    async def fetch(self, media: Media, limit: int) -> Media:
        connection, cache = self.connection, MediaCache(self.context.cache)
        if media.size > limit:
            raise MediaTooLarge(media.name, limit)
        # `Media.ref` contains the keys of an encrypted file.
        keys = msgspec.json.decode(media.ref, type=Json) if media.ref.startswith("{") else {}
        try:
            async with connection.http.download(get_str(keys, "url") or media.ref) as answer:
                if (answer.content_length or 0) > limit:
                    raise MediaTooLarge(media.name, limit)
                if not keys:
                    return await cache.save(answer.content.iter_chunked(CHUNK), media, limit)
                data = bytearray()
                async for piece in answer.content.iter_chunked(CHUNK):
                    data += piece
                    if len(data) > limit:
                        raise MediaTooLarge(media.name, limit)
        except CALL_ERRORS as error:
            raise AdapterError(
                f"{media.name} cannot be fetched: {map_connect_error(error)}"
            ) from None
        # Files may be encrypted in rooms that are not; the library is installed in any case.
        from hermes_plugins.platforms.matrix.encryption import decrypt_file

        opened = await asyncio.to_thread(decrypt_file, bytes(data), keys)
        return await cache.save(opened, media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        return self.connection.session.rooms.names()
