"""Inbound updates: long polling and webhook, albums, and parsing updates to message events."""

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
from telegram import Bot, CallbackQuery, Chat, Message
from telegram import Update as TelegramUpdate
from telegram.constants import ChatType as TelegramChatType
from telegram.constants import MessageEntityType
from telegram.error import Conflict, InvalidToken, TelegramError

from hermes.sdk import Clock
from hermes.sdk.platforms import (
    ChatInfo,
    Connection,
    CredentialsRefused,
    Media,
    MediaKind,
    MessageEvent,
    NotConnected,
    Receive,
    SessionSource,
    TaskSet,
    deliver_once,
    strip_mention,
    write_private,
)
from hermes_plugins.platforms.telegram.client import (
    CHAT_TYPES,
    GENERAL_TOPIC,
    MergedEntry,
    MovedEntry,
    TelegramOptions,
    TelegramRateLimited,
    TelegramState,
    TopicNames,
    command_name,
    format_message_id,
    learn_topic_name,
    map_connect_error,
    translate_connect_errors,
)

logger = logging.getLogger(__name__)
IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})
_COMMAND = re.compile(r"(/[\w-]{1,64})(?:@(\w{3,64}))?(?=\s|\Z)", re.ASCII)
RawUpdate = dict[str, Any]
DeliverAlbum = Callable[[Sequence[RawUpdate]], Awaitable[bool]]
"""Delivers an album to the gateway; True if it was accepted."""
RETRY_SECONDS = 1.0
_PARSE_ERRORS = (KeyError, TypeError, ValueError, AttributeError)
"""Exceptions of the library for an unreadable update."""
UPDATE_KINDS = ("message", "channel_post", "callback_query")
"""Kinds of updates requested; edits are not."""
MAX_UPDATES = 100
POLL_SECONDS = 25  #: Seconds that Telegram holds a poll open.
REQUEST_SECONDS = 15.0
MAX_CONFLICTS = 3  #: The poll of a gateway that was just killed may still be open.
MAX_PAUSE = 30.0
MAX_BODY = 1_000_000
SECRET_HEADER = b"x-telegram-bot-api-secret-token"
HandleUpdate = Callable[[dict[str, Any]], Awaitable[bool]]
"""Handles an update; returns True if it was accepted."""


_FILES: tuple[tuple[str, MediaKind, str, str], ...] = (
    ("voice", "voice", "voice.ogg", "audio/ogg"),
    ("audio", "audio", "audio.mp3", ""),
    ("video", "video", "video.mp4", "video/mp4"),
    ("animation", "video", "video.mp4", "video/mp4"),
    ("video_note", "video", "video.mp4", "video/mp4"),
    ("document", "document", "document", ""),
)
"""Attribute of a message, kind, and the name and MIME type that Telegram may leave out."""


def message_media(message: Message) -> tuple[Media, ...]:
    """Return the file of a message; a Telegram message has at most one."""
    if message.photo:
        photo = message.photo[-1]  # the largest
        return (Media("image", "photo.jpg", "image/jpeg", photo.file_size or 0, photo.file_id),)
    for attribute, kind, name, mime in _FILES:
        if file := getattr(message, attribute):
            mime = getattr(file, "mime_type", None) or mime
            name = getattr(file, "file_name", None) or name
            if kind == "document" and mime in IMAGE_TYPES:
                kind = "image"
            return (Media(kind, name, mime, file.file_size or 0, file.file_id),)
    return ()


def message_text(message: Message) -> str:
    """Return the text or caption, or a description of other content; "" for service messages."""
    return _text_with_links(message) or _other_text(message)


class BotIdentity(msgspec.Struct, frozen=True):
    id: int
    username: str


class UpdateParser:
    """Turns updates into message events without any request."""

    def __init__(
        self,
        me: BotIdentity,
        commands: Mapping[str, str],
        topics: Mapping[tuple[int, int], str],
        origins: Mapping[int, int],
    ) -> None:
        """`commands` maps menu names to our names and `topics` (chat, thread) to topic names.
        `origins` maps supergroups to the groups they were, whose conversations they continue."""
        self._me, self._commands, self._topics, self._origins = me, commands, topics, origins

    def parse_update(self, update: TelegramUpdate) -> MessageEvent | None:
        """Return the event of an update; None if it is not for the gateway."""
        if update.callback_query:
            return self._parse_button(update.callback_query)
        message = update.message or update.channel_post
        return self.parse_messages([message]) if message else None

    def parse_messages(self, messages: Sequence[Message]) -> MessageEvent | None:
        """Return one event for a message, or for all messages of an album."""
        messages = sorted(messages, key=lambda each: each.message_id)
        first = messages[0]
        if first.from_user and first.from_user.id == self._me.id:
            return None
        media = tuple(file for each in messages for file in message_media(each))
        spoken = next((each for each in messages if message_text(each)), first)
        text = self._own_text(spoken)
        if text is None or not (text or media):
            return None
        source = self._source_of(first)
        reply = first.reply_to_message
        if reply is not None and reply.forum_topic_created:  # only the first message of its topic
            reply = None
        return MessageEvent(
            source=source,
            message_id=format_message_id(first.chat.id, first.message_id),
            text=text,
            media=media,
            reply_to_id=format_message_id(first.chat.id, reply.message_id) if reply else "",
            reply_to_text=first.quote.text if first.quote else message_text(reply) if reply else "",
            addressed=source.chat_type == "dm" or self._is_addressed(spoken, reply),
            sent_at=first.date.timestamp(),
        )

    def _parse_button(self, press: CallbackQuery) -> MessageEvent | None:
        """Return the event of a pressed button. The user is the one who pressed it."""
        message = press.message
        if message is None or press.data is None:
            return None
        chat = message.chat
        thread = _topic_of(message) if isinstance(message, Message) else ""
        user = press.from_user
        return MessageEvent(
            source=self._make_source(
                chat, thread, user_id=user.id, user_name=user.full_name, is_bot=user.is_bot
            ),
            message_id=f"press:{press.id}",
            reply_to_id=format_message_id(chat.id, message.message_id),
            addressed=True,
            button=press.data,
        )

    def _source_of(self, message: Message) -> SessionSource:
        """A message in the name of a chat (an anonymous admin, a channel) belongs to that chat: the
        user in such a message is a placeholder."""
        user, sender, chat = message.from_user, message.sender_chat, message.chat
        thread = _topic_of(message)
        name = (sender.title or "") if sender else user.full_name if user else ""
        return self._make_source(
            chat,
            thread,
            user_id=sender.id if sender else user.id if user else "",
            user_name=name,
            is_bot=bool(message.is_automatic_forward or (user and user.is_bot and not sender)),
        )

    def _make_source(
        self, chat: Chat, thread: str, *, user_id: int | str, user_name: str, is_bot: bool
    ) -> SessionSource:
        origin = self._origins.get(chat.id)
        name = chat.title or chat.full_name or str(chat.id)
        topic = self._topics.get((chat.id, int(thread))) if thread else None
        return SessionSource(
            platform="telegram",
            chat_id=str(origin or chat.id),
            chat_type=CHAT_TYPES.get(chat.type, "group"),
            user_id=str(user_id),
            user_name=user_name,
            chat_name=f"{name} / {topic}" if topic else name,
            thread_id=thread,
            is_bot=is_bot,
            chat_now=str(chat.id) if origin else "",
        )

    def _own_text(self, message: Message) -> str | None:
        """Return the text without our address; None for a command of another bot."""
        text = message_text(message)
        if command := _COMMAND.match(text):
            name, bot = command.groups()
            if bot and bot.lower() != self._me.username.lower():
                return None
            return command_name(name, self._commands) + text[command.end() :]
        if message.chat.type == TelegramChatType.PRIVATE:
            return text
        return strip_mention(text, (self._me.username,))

    def _is_addressed(self, message: Message, reply: Message | None) -> bool:
        if reply and reply.from_user and reply.from_user.id == self._me.id:
            return True
        if command := _COMMAND.match(message_text(message)):
            name, bot = command.groups()
            return bool(bot) or name[1:].lower().replace("-", "_") in self._commands
        mention, named = MessageEntityType.MENTION, MessageEntityType.TEXT_MENTION
        parsed = message.parse_entities([mention, named]) if message.text else {}
        parsed |= message.parse_caption_entities([mention, named]) if message.caption else {}
        return any(
            (entity.user is not None and entity.user.id == self._me.id)
            or words.lower() == f"@{self._me.username}".lower()
            for entity, words in parsed.items()
        )


class _PendingAlbum(msgspec.Struct, eq=False):
    chat_id: int
    due: float
    updates: dict[int, RawUpdate] = {}


class AlbumBuffer:
    """Joins the updates of an album to one message.

    Telegram sends the next update only after the previous one was acknowledged, so the parts are
    stored on disk until the album is complete. They survive a crash.
    """

    def __init__(self, folder: Path, state: TelegramState, clock: Clock, wait: float) -> None:
        """An album is complete `wait` seconds after its last part."""
        self._folder, self._state, self._clock, self._wait = folder, state, clock, wait
        self._albums: dict[str, _PendingAlbum] = {}
        self._tasks = TaskSet()
        self._lock = asyncio.Lock()

    def start(self, deliver: DeliverAlbum) -> None:
        """Resume the albums that an earlier process stored."""
        self._deliver = deliver
        for path in sorted(self._folder.glob("*.json")):
            try:
                update = msgspec.json.decode(path.read_bytes(), type=RawUpdate)
                if update["update_id"] in self._state.merged:
                    path.unlink()  # delivered just before a crash
                else:
                    self._add(update)
            except (msgspec.MsgspecError, KeyError, OSError):
                logger.warning("a stored part of an album cannot be read: %s", path.name)

    async def stop(self) -> None:
        """Stop; stored parts stay on disk."""
        await self._tasks.close()
        self._albums.clear()

    async def add(self, update: RawUpdate) -> bool:
        """Store a part; return True once it is on disk."""
        number = update["update_id"]
        if number in self._state.merged:
            return True  # redelivered after it was accepted
        try:
            data = msgspec.json.encode(update)
            await asyncio.to_thread(write_private, self._folder / f"{number}.json", data)
        except OSError as error:
            logger.error("a part of an album cannot be stored: %s", error.strerror)
            return False
        self._add(update)
        return True

    async def flush(self, chat_id: int) -> bool:
        """Deliver the albums of a chat before its next message; return True if all were
        accepted."""
        groups = [name for name, album in self._albums.items() if album.chat_id == chat_id]
        return all([await self._deliver_album(group) for group in groups])

    def _add(self, update: RawUpdate) -> None:
        message = update.get("message") or update["channel_post"]
        group = message["media_group_id"]
        due = self._clock.monotonic() + self._wait
        if group not in self._albums:
            self._albums[group] = _PendingAlbum(message["chat"]["id"], due)
            self._tasks.start(self._deliver_when_due(group))
        self._albums[group].updates[update["update_id"]] = update
        self._albums[group].due = due

    async def _deliver_when_due(self, group: str) -> None:
        while album := self._albums.get(group):
            left = album.due - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
            elif not await self._deliver_album(group):
                await self._clock.sleep(RETRY_SECONDS)

    async def _deliver_album(self, group: str) -> bool:
        async with self._lock:
            album = self._albums.get(group)
            if album is None:
                return True
            updates = dict(album.updates)
            if not await self._deliver([updates[number] for number in sorted(updates)]):
                return False
            self._state.record(MergedEntry(tuple(updates)))
            for number in updates:
                album.updates.pop(number)
                with contextlib.suppress(OSError):  # it would be read again and recognized
                    (self._folder / f"{number}.json").unlink()
            if not album.updates:
                self._albums.pop(group)
            return True


class UpdateHandler:
    """Handles each update: learns topics and moved groups, buffers albums, delivers events."""

    def __init__(
        self,
        bot: Bot,
        state: TelegramState,
        reader: UpdateParser,
        topics: TopicNames,
        albums: AlbumBuffer,
        receive: Receive,
    ) -> None:
        self._bot, self._state, self._reader = bot, state, reader
        self._topics, self._albums, self._receive = topics, albums, receive
        self._answers = TaskSet()
        self.chats: dict[tuple[str, str], ChatInfo] = {}  #: Chats that wrote, by chat and thread.
        albums.start(self._deliver_album)

    async def stop(self) -> None:
        await self._albums.stop()
        await self._answers.close()

    async def handle(self, raw: dict[str, Any]) -> bool:
        """Handle an update; return True if Telegram may forget it."""
        update = self._parse(raw)
        if update is None:
            return True  # it would be unreadable the next time too
        message = update.message or update.channel_post
        if message is not None:
            learn_topic_name(message, self._topics)
            # A group became a supergroup: messages go there, and its conversation continues.
            if message.migrate_to_chat_id:
                self._state.record(MovedEntry(message.chat.id, message.migrate_to_chat_id))
            elif message.migrate_from_chat_id:
                self._state.record(MovedEntry(message.migrate_from_chat_id, message.chat.id))
            if message.media_group_id:
                return await self._albums.add(raw)
        if update.callback_query is not None:
            # Answer at once, or the button appears to do nothing.
            self._answers.start(self._answer(update.callback_query))
        chat = update.effective_chat
        if chat and not await self._albums.flush(chat.id):
            return False
        return await self._deliver(self._reader.parse_update(update))

    async def _deliver_album(self, updates: Sequence[dict[str, Any]]) -> bool:
        messages = []
        for raw in updates:
            update = self._parse(raw)
            message = (update.message or update.channel_post) if update else None
            if message is not None:
                messages.append(message)
        return await self._deliver(self._reader.parse_messages(messages)) if messages else True

    async def _deliver(self, event: MessageEvent | None) -> bool:
        if event is None:
            return True
        source = event.source
        name = source.chat_name or source.user_name
        self.chats[source.chat_id, source.thread_id] = ChatInfo(
            source.chat_id, name, source.chat_type, source.thread_id
        )
        return await deliver_once(self._receive, event)

    def _parse(self, raw: dict[str, Any]) -> TelegramUpdate | None:
        try:
            return TelegramUpdate.de_json(raw, self._bot)
        except _PARSE_ERRORS as error:
            logger.error("an update of Telegram cannot be read: %s", type(error).__name__)
            return None

    async def _answer(self, press: CallbackQuery) -> None:
        try:
            await self._bot.answer_callback_query(press.id)
        except TelegramError as error:
            logger.info("a pressed button was not acknowledged: %s", type(error).__name__)


class UpdatePoller:
    """Long polling. Telegram forgets updates below the requested offset, so the offset is raised
    only after the gateway has stored an update."""

    def __init__(self, bot: Bot, clock: Clock, handle: HandleUpdate) -> None:
        self._bot, self._clock, self._handle = bot, clock, handle
        self._offset = 0
        self._up_to_date = False

    async def start(self, connection: Connection) -> None:
        """Start polling. Raises `AdapterError` when Telegram refuses."""
        with translate_connect_errors():
            await self._bot.delete_webhook(drop_pending_updates=False)
            await self._first_poll()
        connection.resources.push_async_callback(self._confirm_offset)
        connection.run_until_closed(self._run())

    async def ping(self) -> None:
        with translate_connect_errors():
            await self._bot.get_me()

    async def _confirm_offset(self) -> None:
        """Confirm handled updates, so that they are not delivered again."""
        if not self._offset:
            return
        try:
            await self._fetch(hold=0, limit=1, patience=2.0)
        except TelegramError as error:
            logger.info(
                "handled updates were not confirmed to Telegram: %s", map_connect_error(error)
            )

    async def _first_poll(self) -> None:
        """Poll once without waiting. The poll of a gateway that was just killed may conflict."""
        for attempt in range(MAX_CONFLICTS):
            try:
                await self._fetch(hold=0, limit=1)
            except Conflict as error:
                if attempt == MAX_CONFLICTS - 1:
                    raise map_connect_error(error) from None
                await self._clock.sleep(1.0)
            else:
                return

    async def _run(self) -> None:
        """Poll until the token is rejected or another program receives the updates."""
        pause, conflicts = 0.0, 0
        while True:
            try:
                # After an error request an immediate answer: it shows what was missed.
                hold = POLL_SECONDS if self._up_to_date else 0
                updates = await self._fetch(hold=hold, limit=MAX_UPDATES)
            except (Conflict, InvalidToken) as error:
                conflicts += 1
                self._up_to_date = False  # the other program may have received some
                failure = map_connect_error(error)
                if isinstance(failure, CredentialsRefused) or conflicts >= MAX_CONFLICTS:
                    raise failure from None
                pause = 1.0
            except TelegramError as error:
                logger.info("%s", map_connect_error(error))
                self._up_to_date = False
                wished = error.seconds if isinstance(error, TelegramRateLimited) else 0.0
                pause = max(min(pause * 2 or 0.1, MAX_PAUSE), wished)
            else:
                conflicts = 0
                self._up_to_date = len(updates) < MAX_UPDATES
                pause = 0.0 if await self._handle_all(updates) else min(pause * 2 or 0.2, 5.0)
            if pause:
                await self._clock.sleep(pause)

    async def _handle_all(self, updates: list[RawUpdate]) -> bool:
        """Handle updates in order; stop at the first that is not accepted."""
        for update in updates:
            if not await self._handle(update):
                return False
            self._offset = max(self._offset, update["update_id"] + 1)
        return True

    async def _fetch(
        self, *, hold: int, limit: int, patience: float = REQUEST_SECONDS
    ) -> list[RawUpdate]:
        """`Bot.get_updates` is not used, because one unreadable update would fail all of them."""
        query: dict[str, Any] = {
            "timeout": hold,
            "limit": limit,
            "allowed_updates": msgspec.json.encode(UPDATE_KINDS).decode(),
        }
        if self._offset:
            query["offset"] = self._offset
        found = await self._bot.request.post(
            f"{self._bot.base_url}/getUpdates?{urlencode(query)}",
            read_timeout=hold + patience,
            connect_timeout=patience,
        )
        return found if isinstance(found, list) else []


class UpdateWebhook:
    """Receives updates over HTTP. An update that is not accepted gets 503 and is delivered again.

    Every path is served, because a proxy may change it; the secret authenticates the caller.
    """

    def __init__(self, bot: Bot, options: TelegramOptions, handle: HandleUpdate) -> None:
        self._bot, self._url, self._port = bot, options.webhook_url, options.webhook_port
        self._handle = handle
        self._secret = options.webhook_secret or secrets.token_urlsafe(32)
        self._logged_error_at: datetime | None = None

    async def start(self, connection: Connection) -> None:
        """Start the server and register it. Telegram keeps updates while we are away."""
        # Imported here and below: long polling needs no HTTP server.
        from hermes.sdk.platforms import serve_http

        hint = "set TELEGRAM_WEBHOOK_PORT to a free one"
        await serve_http(connection, self._answer, "0.0.0.0", self._port, hint=hint)
        with translate_connect_errors():
            await self._bot.set_webhook(
                self._url, secret_token=self._secret, allowed_updates=UPDATE_KINDS
            )

    async def ping(self) -> None:
        with translate_connect_errors():
            info = await self._bot.get_webhook_info()
        if info.url != self._url:
            raise NotConnected("Telegram's webhook was changed by another program")
        failed_at = info.last_error_date
        if info.pending_update_count and failed_at and failed_at != self._logged_error_at:
            self._logged_error_at = failed_at
            logger.warning("Telegram cannot call our webhook: %s", info.last_error_message)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        status = await self._handle_request(scope, receive) if scope["type"] == "http" else None
        if status is not None:
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    async def _handle_request(self, scope: Any, receive: Any) -> HTTPStatus:
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        given = dict(scope["headers"]).get(SECRET_HEADER, b"")
        if not hmac.compare_digest(given, self._secret.encode()):
            return HTTPStatus.FORBIDDEN
        from hermes.sdk.platforms import BodyTooLarge, ClientDisconnected, read_body

        try:
            body = await read_body(receive, {}, MAX_BODY)
            update = msgspec.json.decode(body, type=dict[str, Any])
        except BodyTooLarge:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        except (ClientDisconnected, msgspec.MsgspecError):
            return HTTPStatus.BAD_REQUEST
        if not isinstance(update.get("update_id"), int):
            return HTTPStatus.BAD_REQUEST
        accepted = await self._handle(update)
        return HTTPStatus.OK if accepted else HTTPStatus.SERVICE_UNAVAILABLE


def _text_with_links(message: Message) -> str:
    """Return the text with the addresses of links."""
    text = message.text or message.caption or ""
    entities = message.entities if message.text else message.caption_entities
    links = [each for each in entities if each.type == MessageEntityType.TEXT_LINK and each.url]
    # From the end, so that earlier offsets stay valid. Offsets count UTF-16 units.
    data = text.encode("utf-16-le", "surrogatepass")
    for link in sorted(links, key=lambda each: each.offset, reverse=True):
        start, end = 2 * link.offset, 2 * (link.offset + link.length)
        label = data[start:end].decode("utf-16-le", "surrogatepass")
        if label.rstrip("/") != (link.url or "").rstrip("/"):
            written = f"[{label}]({link.url})".encode("utf-16-le", "surrogatepass")
            data = data[:start] + written + data[end:]
    return data.decode("utf-16-le", "surrogatepass")


def _other_text(message: Message) -> str:
    if venue := message.venue:
        at = venue.location
        return f"[place: {venue.title}, {venue.address} ({at.latitude}, {at.longitude})]"
    if place := message.location:
        return f"[location: {place.latitude}, {place.longitude}]"
    if message.sticker:
        return f"[sticker {message.sticker.emoji or ''}".strip() + "]"
    if contact := message.contact:
        name = " ".join(filter(None, (contact.first_name, contact.last_name)))
        return f"[contact: {name}, {contact.phone_number}]"
    if poll := message.poll:
        return f"[poll: {poll.question} – {' / '.join(option.text for option in poll.options)}]"
    if dice := message.dice:
        return f"[{dice.emoji} {dice.value}]"
    return ""


def _topic_of(message: Message) -> str:
    """Return the topic. Outside forums Telegram numbers reply threads too, which are not topics."""
    if message.is_topic_message and message.message_thread_id:
        return str(message.message_thread_id)
    return str(GENERAL_TOPIC) if message.chat.is_forum else ""
