"""The Matrix adapter and its connection: sends, edits, reactions, the delivery check and files."""

import asyncio
import hashlib
import uuid
from collections.abc import Sequence
from pathlib import Path

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
    DeliveryUnknown,
    Media,
    MediaCache,
    MediaTooLarge,
    NotConnected,
    OutgoingMessage,
    Receive,
    SendRefused,
    TaskSet,
    guess_mime,
    open_upload,
    remember,
)
from hermes_plugins.platforms.matrix.client import (
    CALL_ERRORS,
    ENCRYPTED,
    MESSAGE,
    Json,
    MatrixClient,
    MatrixError,
    MatrixRooms,
    SyncPosition,
    api_path,
    get_dict,
    get_dicts,
    get_int,
    get_str,
    log_in,
    map_connect_error,
    read_options,
    translate_connect_errors,
    translate_send_errors,
)
from hermes_plugins.platforms.matrix.inbound import (
    VOICE,
    InviteHandler,
    MatrixIdentity,
    MatrixInbound,
    MatrixSession,
    RoomUpgrades,
    SyncLoop,
    html_to_plain,
)

HTML_FORMAT = "org.matrix.custom.html"
KEY_FIELD = "hermes.key"  #: Identifies a message, whichever device sent it.
MSGTYPES = {
    "image": "m.image",
    "voice": "m.audio",
    "audio": "m.audio",
    "video": "m.video",
    "document": "m.file",
}
MAX_CONTENT_BYTES = 44_000  #: Bytes of a content that fit into an event even when it is encrypted.
REACTION = "m.reaction"
TRANSACTION_SECONDS = 20 * 3600.0
"""Seconds for which homeservers certainly remember a transaction; Synapse does for a day."""
CLOCK_TOLERANCE = 300.0  #: Tolerated difference between clocks.
PAGE_SIZE, MAX_PAGES = 100, 10
MAX_REACTIONS = 500
TYPING_MILLISECONDS = 6000  #: Milliseconds for which the typing indicator is shown.
CHUNK = 65_536


def transaction_id(key: str, part: int) -> str:
    """Return the transaction id of a part: the homeserver shows only one event for it."""
    return "h" + hashlib.sha256(f"{key}\0{part}".encode()).hexdigest()[:40]


def text_content(message: OutgoingMessage, *, key: str = "") -> Json:
    """Return the content of a text. An empty `m.mentions` means that it notifies no one."""
    marked = "<" in message.text or "&" in message.text
    plain = message.plain or (html_to_plain(message.text) if marked else message.text)
    content: Json = {
        "msgtype": "m.notice" if message.silent else "m.text",
        "body": plain,
        "m.mentions": {},
    }
    if key:
        content[KEY_FIELD] = key
    if marked:
        formatted = content | {"format": HTML_FORMAT, "formatted_body": message.text}
        if len(msgspec.json.encode(formatted)) <= MAX_CONTENT_BYTES:
            return formatted
    return content


def file_content(media: Media, size: int, where: Json, caption: Json) -> Json:
    """Return the content of a file with its caption. `where` is its `url`, or `file` for an
    encrypted one."""
    name = media.name or "file"
    mime = media.mime or guess_mime(name)
    content = {
        **caption,
        **where,
        "msgtype": MSGTYPES[media.kind],
        "body": caption.get("body") or name,
        "filename": name,
        "info": {"mimetype": mime, "size": size},
    }
    if media.kind == "voice":
        content |= {VOICE: {}, "org.matrix.msc1767.audio": {}}
    return content


def add_relation(content: Json, thread_id: str, reply_to: str) -> Json:
    """Add the thread and the message it replies to."""
    relation: Json = {}
    if thread_id:
        own = bool(reply_to) and reply_to != thread_id
        relation = {
            "rel_type": "m.thread",
            "event_id": thread_id,
            "is_falling_back": not own,
            "m.in_reply_to": {"event_id": reply_to or thread_id},
        }
    elif reply_to:
        relation = {"m.in_reply_to": {"event_id": reply_to}}
    return content | {"m.relates_to": relation} if relation else content


def edit_content(message: OutgoingMessage, message_id: str) -> Json:
    """Return the content of an edit. Clients without edits show the fallback body."""
    new = text_content(message)
    return {
        "msgtype": new["msgtype"],
        "body": f"* {new['body'][:200]}",
        "m.mentions": {},
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
    }


class MatrixSender:
    def __init__(self, session: MatrixSession, max_upload: int) -> None:
        self._http, self._login, self._clock = session.http, session.login, session.clock
        self._rooms, self._moves, self._position = session.rooms, session.moves, session.position
        self._encryption, self._decrypt = session.encryption, session.decrypt
        self._max_upload = max_upload
        self._reactions: dict[tuple[str, str], str] = {}
        """Event ids of our reactions, by message and emoji."""
        self._aliases: dict[str, str] = {}

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        """Send all parts and return the id of the first event. Sent twice under one key by one
        device, it is shown once."""
        files = [(media, open_upload(media, self._max_upload)) for media in message.media]
        room_id, first = await self._resolve_room(target), ""
        thread, reply_to = target.thread_id, message.reply_to
        caption = text_content(message, key=transaction_id(key, 0))
        for part in range(max(len(files), 1)):
            content = caption
            if files:
                media, file = files[part]
                content = await self._upload_file(room_id, media, file, content if not part else {})
            name, related = transaction_id(key, part), add_relation(content, thread, reply_to)
            try:
                sent = await self._send_event(room_id, MESSAGE, related, name)
            except SendRefused:
                if not thread or room_id == target.chat_id:
                    raise
                thread = ""  # the thread belongs to the room that this one replaced
                sent = await self._send_event(room_id, MESSAGE, content, name)
            first, reply_to = first or sent, ""
        if thread:
            self._position.add_thread(thread)
        return first

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        room_id = await self._resolve_room(target)
        content = edit_content(message, message_id)
        await self._send_event(room_id, MESSAGE, content, uuid.uuid4().hex, repeatable=True)

    async def was_delivered(self, query: DeliveryQuery, target: ChatTarget) -> str | None:
        """Return the id of an uncertain message. None also while sending it again shows only one,
        because the homeserver still knows the transaction of this device. Raises `DeliveryUnknown`
        when too much was written since."""
        age = self._clock.now().timestamp() - query.created_at
        places = self._moves.rooms_of(await self._resolve_room(target))
        if len(places) == 1 and age < TRANSACTION_SECONDS and query.created_at > self._login.since:
            return None
        for room_id in places:
            if found := await self._find_in(room_id, query):
                return found
        return None

    async def _find_in(self, room_id: str, query: DeliveryQuery) -> str | None:
        name, page_query = transaction_id(query.key, 0), {"dir": "b", "limit": str(PAGE_SIZE)}
        with translate_send_errors(repeatable=True):
            for _ in range(MAX_PAGES):
                try:
                    page = await self._http.get(api_path("rooms", room_id, "messages"), page_query)
                except MatrixError as error:
                    if error.status in (403, 404):
                        return None  # not visible there; sending again reports why
                    raise
                chunk = get_dicts(page, "chunk")
                since = (query.created_at - CLOCK_TOLERANCE) * 1000
                recent = [each for each in chunk if get_int(each, "origin_server_ts") > since]
                for event in recent:
                    if self._message_key(room_id, event) == name:
                        return get_str(event, "event_id")
                page_query["from"] = get_str(page, "end")
                if len(recent) < len(chunk) or not page_query["from"]:
                    return None
        raise DeliveryUnknown("too much was written on Matrix since then")

    async def react(self, target: ChatTarget, message_id: str, emoji: str) -> None:
        room_id = await self._resolve_room(target)
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        content = {"m.relates_to": relation}
        try:
            where = api_path("rooms", room_id, "send", REACTION, uuid.uuid4().hex)
            answer = await self._http.call("PUT", where, content)
        except MatrixError as error:
            if error.code != "M_DUPLICATE_ANNOTATION":
                raise
            return
        event_id = get_str(answer, "event_id")
        remember(self._reactions, (message_id, emoji), event_id, MAX_REACTIONS)

    async def unreact(self, target: ChatTarget, message_id: str, emoji: str) -> None:
        room_id = await self._resolve_room(target)
        known = self._reactions.pop((message_id, emoji), "")
        for event_id in (
            [known] if known else await self._find_own_reactions(room_id, message_id, emoji)
        ):
            where = api_path("rooms", room_id, "redact", event_id, uuid.uuid4().hex)
            await self._http.call("PUT", where, {})

    async def _find_own_reactions(self, room_id: str, message_id: str, emoji: str) -> list[str]:
        """Return our reactions from before a restart."""
        parts = ("rooms", room_id, "relations", message_id, "m.annotation", REACTION)
        answer = await self._http.get(api_path(*parts, root="/_matrix/client/v1"), {"limit": "100"})
        return [
            get_str(event, "event_id")
            for event in get_dicts(answer, "chunk")
            if get_str(event, "sender") == self._login.user_id
            and get_str(event, "content", "m.relates_to", "key") == emoji
        ]

    async def _send_event(
        self, room_id: str, kind: str, content: Json, name: str, *, repeatable: bool = False
    ) -> str:
        with translate_send_errors(repeatable=repeatable):
            if await self._is_encrypted(room_id):
                if self._encryption is None:
                    raise SendRefused(
                        "the room is encrypted", hint="set MATRIX_ENCRYPTION=true to write there"
                    )
                kind, content = await self._encryption.encrypt(room_id, kind, content)
            where = api_path("rooms", room_id, "send", kind, name)
            return get_str(await self._http.call("PUT", where, content), "event_id")

    async def _upload_file(self, room_id: str, media: Media, file: Path, caption: Json) -> Json:
        try:
            data = await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            raise SendRefused(f"{file.name} cannot be read: {error.strerror}") from error
        size, keys = len(data), None
        mime = media.mime or guess_mime(media.name)
        with translate_send_errors(repeatable=True):
            if self._encryption is not None and await self._is_encrypted(room_id):
                data, keys = await asyncio.to_thread(self._encryption.encrypt_file, data)
                mime = "application/octet-stream"
            mxc = await self._http.upload(data, mime, "" if keys else media.name)
        where: Json = {"url": mxc} if keys is None else {"file": {**keys, "url": mxc}}
        return file_content(media, size, where, caption)

    async def _resolve_room(self, target: ChatTarget) -> str:
        """Return the room of an id or of an address such as #hermes:matrix.org; its successor,
        where there is one."""
        name = target.chat_id
        if not name.startswith("#"):
            return self._moves.current_room(name)
        if name not in self._aliases:
            with translate_send_errors(repeatable=True):
                answer = await self._http.get(api_path("directory", "room", name))
            self._aliases[name] = get_str(answer, "room_id")
        return self._moves.current_room(self._aliases[name])

    async def _is_encrypted(self, room_id: str) -> bool:
        """Ask the homeserver about a room that no sync has reported yet."""
        room = self._rooms.get(room_id)
        if room is not None:
            return room.encrypted
        try:
            await self._http.get(api_path("rooms", room_id, "state", "m.room.encryption"))
        except MatrixError as error:
            if error.code != "M_NOT_FOUND":
                raise
            return False
        return True

    def _message_key(self, room_id: str, event: Json) -> str:
        if get_str(event, "sender") != self._login.user_id:
            return ""
        if event.get("type") == ENCRYPTED:
            opened = self._decrypt(room_id, event)
            if opened is None:
                raise DeliveryUnknown("what another device of ours sent on Matrix cannot be read")
            event = opened
        return get_str(get_dict(event, "content"), KEY_FIELD)


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
