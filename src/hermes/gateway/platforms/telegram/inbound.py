"""Updates on their way to the gateway: albums put together, presses answered, chats remembered."""

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
from telegram import Bot, CallbackQuery, Chat, Message, MessageEntity
from telegram import Update as TelegramUpdate
from telegram.constants import ChatType as TelegramChatType
from telegram.constants import MessageEntityType
from telegram.error import Conflict, InvalidToken, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import Connection, TaskSet
from hermes.gateway.platforms.kit.contract import (
    ChatInfo,
    CredentialsRefused,
    Media,
    MessageEvent,
    NotConnected,
    Receive,
    SessionSource,
)
from hermes.gateway.platforms.kit.http_server import serve_http
from hermes.gateway.platforms.kit.inbound import deliver_once, strip_mention
from hermes.gateway.platforms.telegram.client import (
    CHAT_TYPES,
    GENERAL,
    Options,
    TooOften,
    message_name,
    of_connecting,
    real_command,
    told,
)
from hermes.gateway.platforms.telegram.journal import Journal, Names, note_topic
from hermes.util import atomic

# What is in a message of Telegram: its files, and words for what is no text and no file.

PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})


def media_of(message: Message) -> tuple[Media, ...]:
    """The file of a message; Telegram has at most one in each."""
    if message.photo:
        photo = message.photo[-1]  # the largest
        return (Media("image", "photo.jpg", "image/jpeg", photo.file_size or 0, photo.file_id),)
    if message.voice:
        voice = message.voice
        mime = voice.mime_type or "audio/ogg"
        return (Media("voice", "voice.ogg", mime, voice.file_size or 0, voice.file_id),)
    if audio := message.audio:
        name, mime = audio.file_name or "audio.mp3", audio.mime_type or ""
        return (Media("audio", name, mime, audio.file_size or 0, audio.file_id),)
    return _film(message) or _document(message)


def _film(message: Message) -> tuple[Media, ...]:
    if film := message.video or message.animation:
        name, mime = film.file_name or "video.mp4", film.mime_type or "video/mp4"
        return (Media("video", name, mime, film.file_size or 0, film.file_id),)
    if note := message.video_note:
        return (Media("video", "video.mp4", "video/mp4", note.file_size or 0, note.file_id),)
    return ()


def _document(message: Message) -> tuple[Media, ...]:
    document = message.document
    if document is None:
        return ()
    mime = document.mime_type or ""
    kind = "image" if mime in PICTURES else "document"
    name, size = document.file_name or "document", document.file_size or 0
    return (Media(kind, name, mime, size, document.file_id),)  # type: ignore[arg-type]  # the kind is one of ours


def words_of(message: Message) -> str:
    """Its text or caption, or a few words for what it is; "" for what only Telegram cares about."""
    return _written(message) or _place(message) or _other(message)


def _written(message: Message) -> str:
    """With the addresses that links hide behind words."""
    text = message.text or message.caption or ""
    entities = message.entities if message.text else message.caption_entities
    links = [each for each in entities if each.type == MessageEntityType.TEXT_LINK and each.url]
    # From the end, so that places before stay where they are. They count UTF-16 units.
    data = text.encode("utf-16-le", "surrogatepass")
    for link in sorted(links, key=lambda each: each.offset, reverse=True):
        data = _linked(data, link)
    return data.decode("utf-16-le", "surrogatepass")


def _linked(data: bytes, link: MessageEntity) -> bytes:
    start, end = 2 * link.offset, 2 * (link.offset + link.length)
    label = data[start:end].decode("utf-16-le", "surrogatepass")
    if label.rstrip("/") == (link.url or "").rstrip("/"):
        return data
    return data[:start] + f"[{label}]({link.url})".encode("utf-16-le", "surrogatepass") + data[end:]


def _place(message: Message) -> str:
    if venue := message.venue:
        at = venue.location
        return f"[place: {venue.title}, {venue.address} ({at.latitude}, {at.longitude})]"
    if place := message.location:
        return f"[location: {place.latitude}, {place.longitude}]"
    return ""


def _other(message: Message) -> str:
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


# From an update of Telegram to a message of the gateway. Pure: it asks nobody.

_COMMAND = re.compile(r"(/[\w-]{1,64})(?:@(\w{3,64}))?(?=\s|\Z)", re.ASCII)


class Me(msgspec.Struct, frozen=True):
    id: int
    username: str


class Reader:
    def __init__(
        self,
        me: Me,
        commands: Mapping[str, str],
        topics: Mapping[tuple[int, int], str],
        origins: Mapping[int, int],
    ) -> None:
        """`commands` are our names by those of the menu; `topics` names of threads, by chat;
        `origins` what supergroups were before, under which their conversations go on."""
        self._me, self._commands, self._topics, self._origins = me, commands, topics, origins

    def event(self, update: TelegramUpdate) -> MessageEvent | None:
        """None for what is nothing to the gateway."""
        if update.callback_query:
            return self._press(update.callback_query)
        message = update.message or update.channel_post
        return self.message([message]) if message else None

    def message(self, messages: Sequence[Message]) -> MessageEvent | None:
        """One message, or all of an album, which is one message with several files."""
        messages = sorted(messages, key=lambda each: each.message_id)
        first = messages[0]
        if first.from_user and first.from_user.id == self._me.id:
            return None
        media = tuple(file for each in messages for file in media_of(each))
        spoken = next((each for each in messages if words_of(each)), first)
        text = self._for_us(spoken)
        if text is None or not (text or media):
            return None
        source = self._source(first)
        reply = _answered(first)
        return MessageEvent(
            source=source,
            message_id=message_name(first.chat.id, first.message_id),
            text=text,
            media=media,
            reply_to_id=message_name(first.chat.id, reply.message_id) if reply else "",
            reply_to_text=_quoted(first, reply),
            addressed=source.chat_type == "dm" or self._addressed(spoken, reply),
            sent_at=first.date.timestamp(),
        )

    def _press(self, press: CallbackQuery) -> MessageEvent | None:
        """A button. Who pressed it is not who the message was for."""
        message = press.message
        if message is None or press.data is None:
            return None
        chat = message.chat
        thread = _thread(message) if isinstance(message, Message) else ""
        user = press.from_user
        return MessageEvent(
            source=self._in(
                chat, thread, user_id=user.id, user_name=user.full_name, is_bot=user.is_bot
            ),
            message_id=f"press:{press.id}",
            reply_to_id=message_name(chat.id, message.message_id),
            addressed=True,
            button=press.data,
        )

    def _source(self, message: Message) -> SessionSource:
        """A message in the name of a chat (an anonymous admin, a channel) is that chat's: the user
        Telegram puts there stands for everybody who writes like that."""
        user, sender, chat = message.from_user, message.sender_chat, message.chat
        thread = _thread(message)
        name = (sender.title or "") if sender else user.full_name if user else ""
        return self._in(
            chat,
            thread,
            user_id=sender.id if sender else user.id if user else "",
            user_name=name,
            is_bot=bool(message.is_automatic_forward or (user and user.is_bot and not sender)),
        )

    def _in(
        self, chat: Chat, thread: str, *, user_id: int | str, user_name: str, is_bot: bool
    ) -> SessionSource:
        origin = self._origins.get(chat.id)
        return SessionSource(
            platform="telegram",
            chat_id=str(origin or chat.id),
            chat_type=CHAT_TYPES.get(chat.type, "group"),
            user_id=str(user_id),
            user_name=user_name,
            chat_name=self._chat_name(chat, thread),
            thread_id=thread,
            is_bot=is_bot,
            chat_now=str(chat.id) if origin else "",
        )

    def _chat_name(self, chat: Chat, thread: str) -> str:
        name = chat.title or chat.full_name or str(chat.id)
        topic = self._topics.get((chat.id, int(thread))) if thread else None
        return f"{name} / {topic}" if topic else name

    def _for_us(self, message: Message) -> str | None:
        """Its words without our address; None for a command of another bot."""
        text = words_of(message)
        if command := _COMMAND.match(text):
            name, bot = command.groups()
            if bot and bot.lower() != self._me.username.lower():
                return None
            return real_command(name, self._commands) + text[command.end() :]
        if message.chat.type == TelegramChatType.PRIVATE:
            return text
        return strip_mention(text, (self._me.username,))

    def _addressed(self, message: Message, reply: Message | None) -> bool:
        if reply and reply.from_user and reply.from_user.id == self._me.id:
            return True
        if command := _COMMAND.match(words_of(message)):
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


def _thread(message: Message) -> str:
    """The topic. Elsewhere Telegram numbers threads of answers too, which are no topics."""
    if message.is_topic_message and message.message_thread_id:
        return str(message.message_thread_id)
    return str(GENERAL) if message.chat.is_forum else ""


def _answered(message: Message) -> Message | None:
    """The message it answers; the first message of a topic does not count."""
    reply = message.reply_to_message
    return None if reply is None or reply.forum_topic_created else reply


def _quoted(message: Message, reply: Message | None) -> str:
    if message.quote:
        return message.quote.text
    return words_of(reply) if reply else ""


# Albums: several updates that are one message.
#
# Telegram wants each update acknowledged before it sends the next, so the first ones cannot wait
# unacknowledged for the last. They are kept here on disk until the album is whole, and are there
# after a crash.

log = logging.getLogger(__name__)

Update = dict[str, Any]
Deliver = Callable[[Sequence[Update]], Awaitable[bool]]
"""Gives an album to the gateway; whether it was kept."""
RETRY = 1.0


class Album(msgspec.Struct, eq=False):
    chat_id: int
    due: float
    updates: dict[int, Update] = {}


class Albums:
    def __init__(self, folder: Path, journal: Journal, clock: Clock, wait: float) -> None:
        """`wait` is how many seconds after the last part an album is taken for whole."""
        self._folder, self._journal, self._clock, self._wait = folder, journal, clock, wait
        self._albums: dict[str, Album] = {}
        self._tasks = TaskSet()
        self._turn = asyncio.Lock()

    def start(self, deliver: Deliver) -> None:
        """Go on with what an earlier process held."""
        self._deliver = deliver
        for path in sorted(self._folder.glob("*.json")):
            try:
                update = msgspec.json.decode(path.read_bytes(), type=Update)
                if update["update_id"] in self._journal.merged:
                    path.unlink()  # taken just before a crash
                else:
                    self._add(update)
            except (msgspec.MsgspecError, KeyError, OSError):
                log.warning("a held part of an album cannot be read: %s", path.name)

    async def stop(self) -> None:
        """What is held stays on disk."""
        await self._tasks.close()
        self._albums.clear()

    async def hold(self, update: Update) -> bool:
        """Keep a part; True once it is on disk."""
        number = update["update_id"]
        if number in self._journal.merged:
            return True  # delivered again after it was taken
        try:
            await asyncio.to_thread(self._write, number, msgspec.json.encode(update))
        except OSError as error:
            log.error("a part of an album cannot be kept: %s", error.strerror)
            return False
        self._add(update)
        return True

    async def flush(self, chat_id: int) -> bool:
        """Give albums of a chat to the gateway before something else of it; whether they were
        kept."""
        groups = [name for name, album in self._albums.items() if album.chat_id == chat_id]
        return all([await self._give(group) for group in groups])

    def _write(self, number: int, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic.write_bytes(self._folder / f"{number}.json", data)

    def _add(self, update: Update) -> None:
        message = update.get("message") or update["channel_post"]
        group = message["media_group_id"]
        due = self._clock.monotonic() + self._wait
        if group not in self._albums:
            self._albums[group] = Album(message["chat"]["id"], due)
            self._tasks.start(self._later(group))
        self._albums[group].updates[update["update_id"]] = update
        self._albums[group].due = due

    async def _later(self, group: str) -> None:
        while album := self._albums.get(group):
            left = album.due - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
            elif not await self._give(group):
                await self._clock.sleep(RETRY)

    async def _give(self, group: str) -> bool:
        async with self._turn:
            album = self._albums.get(group)
            if album is None:
                return True
            updates = dict(album.updates)
            if not await self._deliver([updates[number] for number in sorted(updates)]):
                return False
            self._journal.merge(tuple(updates))
            for number in updates:
                album.updates.pop(number)
                with contextlib.suppress(OSError):  # it would be offered again and known
                    (self._folder / f"{number}.json").unlink()
            if not album.updates:
                self._albums.pop(group)
            return True


UNREADABLE = (KeyError, TypeError, ValueError, AttributeError)
"""What the library raises for an update it cannot read."""


class Intake:
    def __init__(
        self,
        bot: Bot,
        journal: Journal,
        reader: Reader,
        topics: Names,
        albums: Albums,
        receive: Receive,
    ) -> None:
        self._bot, self._journal, self._reader = bot, journal, reader
        self._topics, self._albums, self._receive = topics, albums, receive
        self._answers = TaskSet()
        self.chats: dict[tuple[str, str], ChatInfo] = {}
        """Those that wrote, by chat and thread."""
        albums.start(self._album)

    async def stop(self) -> None:
        await self._albums.stop()
        await self._answers.close()

    def look(self, update: dict[str, Any]) -> None:
        """Note the number of a message, before anything is done with it."""
        message = update.get("message") or update.get("channel_post") or {}
        try:
            self._journal.see(message["chat"]["id"], message["message_id"])
        except UNREADABLE:
            return  # no message, or none that can be read

    async def take(self, raw: dict[str, Any]) -> bool:
        """Whether an update is kept, so that Telegram may forget it."""
        self.look(raw)
        update = self._update(raw)
        if update is None:
            return True  # it would be as unreadable the next time
        message = update.message or update.channel_post
        if message is not None:
            note_topic(message, self._topics)
            self._note_move(message)
            if message.media_group_id:
                return await self._albums.hold(raw)
        if update.callback_query is not None:
            # At once, else the button looks as if it did nothing.
            self._answers.start(self._answer(update.callback_query))
        chat = update.effective_chat
        if chat and not await self._albums.flush(chat.id):
            return False
        return await self._give(self._reader.event(update))

    async def _album(self, updates: Sequence[dict[str, Any]]) -> bool:
        messages = []
        for raw in updates:
            update = self._update(raw)
            message = (update.message or update.channel_post) if update else None
            if message is not None:
                messages.append(message)
        return await self._give(self._reader.message(messages)) if messages else True

    async def _give(self, event: MessageEvent | None) -> bool:
        if event is None:
            return True
        source = event.source
        name = source.chat_name or source.user_name
        self.chats[source.chat_id, source.thread_id] = ChatInfo(
            source.chat_id, name, source.chat_type, source.thread_id
        )
        return await deliver_once(self._receive, event)

    def _update(self, raw: dict[str, Any]) -> TelegramUpdate | None:
        try:
            return TelegramUpdate.de_json(raw, self._bot)
        except UNREADABLE as error:
            log.error("an update of Telegram cannot be read: %s", type(error).__name__)
            return None

    def _note_move(self, message: Message) -> None:
        """A group has become a supergroup: what is on its way to it goes there, and its
        conversation goes on."""
        if message.migrate_to_chat_id:
            self._journal.move(message.chat.id, message.migrate_to_chat_id)
        elif message.migrate_from_chat_id:
            self._journal.move(message.migrate_from_chat_id, message.chat.id)

    async def _answer(self, press: CallbackQuery) -> None:
        try:
            await self._bot.answer_callback_query(press.id)
        except TelegramError as error:
            log.info("a press was not answered: %s", type(error).__name__)


# Long polling. Telegram forgets an update when a later one is asked for, so that happens only once
# the gateway has kept it.

UPDATES = ("message", "channel_post", "callback_query")
"""Kinds of updates that are asked for; edits are not."""
LIMIT = 100
HOLD = 25
"""Seconds that Telegram waits for an update before it answers."""
SLACK = 15.0
MOST_CONFLICTS = 3
"""A gateway that was just killed may still be waiting for its answer."""
LONGEST_PAUSE = 30.0


class Poller:
    def __init__(
        self,
        bot: Bot,
        clock: Clock,
        look: Callable[[Update], None],
        handle: Callable[[Update], Awaitable[bool]],
    ) -> None:
        """`look` sees each update as it comes; `handle` says whether it was kept."""
        self._bot, self._clock, self._look, self._handle = bot, clock, look, handle
        self._offset = 0
        self._up_to_date = asyncio.Event()

    async def start(self, connection: Connection) -> None:
        """Raises when Telegram does not give us the updates."""
        with told():
            await self._bot.delete_webhook(drop_pending_updates=False)
            await self._first()
        connection.resources.push_async_callback(self._tell_kept)
        connection.run_until_closed(self._run())

    async def ping(self) -> None:
        with told():
            await self._bot.get_me()

    async def catch_up(self, patience: float) -> None:
        """Until every update that was waiting at Telegram has been seen."""
        try:
            async with asyncio.timeout(patience):
                await self._up_to_date.wait()
        except TimeoutError:
            raise NotConnected("Telegram still has older messages for us") from None

    async def _tell_kept(self) -> None:
        """So that it does not come again."""
        if not self._offset:
            return
        try:
            await self._fetch(hold=0, limit=1, patience=2.0)
        except TelegramError as error:
            log.info("Telegram was not told what was kept: %s", of_connecting(error))

    async def _first(self) -> None:
        """One poll that does not wait. The one of a gateway just killed may be in the way."""
        for attempt in range(MOST_CONFLICTS):
            try:
                self._seen(await self._fetch(hold=0, limit=LIMIT))
            except Conflict as error:
                if attempt == MOST_CONFLICTS - 1:
                    raise of_connecting(error) from None
                await self._clock.sleep(1.0)
            else:
                return

    async def _run(self) -> None:
        """Ends when we are not accepted, or somebody else gets the updates."""
        pause, conflicts = 0.0, 0
        while True:
            try:
                # After trouble the first answer is wanted at once: it says what we missed.
                hold = HOLD if self._up_to_date.is_set() else 0
                updates = await self._fetch(hold=hold, limit=LIMIT)
            except (Conflict, InvalidToken) as error:
                conflicts += 1
                self._up_to_date.clear()  # another one may have got some
                failure = of_connecting(error)
                if isinstance(failure, CredentialsRefused) or conflicts >= MOST_CONFLICTS:
                    raise failure from None
                pause = 1.0
            except TelegramError as error:
                log.info("%s", of_connecting(error))
                self._up_to_date.clear()
                wished = error.seconds if isinstance(error, TooOften) else 0.0
                pause = max(min(pause * 2 or 0.1, LONGEST_PAUSE), wished)
            else:
                conflicts = 0
                self._seen(updates)
                pause = 0.0 if await self._all_kept(updates) else min(pause * 2 or 0.2, 5.0)
            if pause:
                await self._clock.sleep(pause)

    def _seen(self, updates: list[Update]) -> None:
        for update in updates:
            self._look(update)
        if len(updates) < LIMIT:
            self._up_to_date.set()

    async def _all_kept(self, updates: list[Update]) -> bool:
        """One after the other; after one that is not kept the rest waits too."""
        for update in updates:
            if not await self._handle(update):
                return False
            self._offset = max(self._offset, update["update_id"] + 1)
        return True

    async def _fetch(self, *, hold: int, limit: int, patience: float = SLACK) -> list[Update]:
        """Not `Bot.get_updates`: one update that the library cannot read would fail them all."""
        query: dict[str, Any] = {
            "timeout": hold,
            "limit": limit,
            "allowed_updates": msgspec.json.encode(UPDATES).decode(),
        }
        if self._offset:
            query["offset"] = self._offset
        found = await self._bot.request.post(
            f"{self._bot.base_url}/getUpdates?{urlencode(query)}",
            read_timeout=hold + patience,
            connect_timeout=patience,
        )
        return found if isinstance(found, list) else []


# Telegram calls us. An update is answered with 200 only when it was kept; else it comes again.

MAX_BODY = 1_000_000
SECRET_HEADER = b"x-telegram-bot-api-secret-token"
Handle = Callable[[dict[str, Any]], Awaitable[bool]]


class Webhook:
    """Takes calls on every path: a proxy in front may change it, and the secret is what counts."""

    def __init__(self, bot: Bot, options: Options, clock: Clock, handle: Handle) -> None:
        self._bot, self._url, self._port = bot, options.webhook_url, options.webhook_port
        self._clock, self._handle = clock, handle
        self._secret = options.webhook_secret or secrets.token_urlsafe(32)
        self._told_at: datetime | None = None

    async def start(self, connection: Connection) -> None:
        """Telegram keeps what comes until we are there again."""
        hint = "set TELEGRAM_WEBHOOK_PORT to a free one"
        await serve_http(connection, self._answer, "0.0.0.0", self._port, hint=hint)
        with told():
            await self._bot.set_webhook(
                self._url, secret_token=self._secret, allowed_updates=UPDATES
            )

    async def ping(self) -> None:
        with told():
            info = await self._bot.get_webhook_info()
        if info.url != self._url:
            raise NotConnected("Telegram's webhook was changed by another program")
        told_at = info.last_error_date
        if info.pending_update_count and told_at and told_at != self._told_at:
            self._told_at = told_at
            log.warning("Telegram cannot call us: %s", info.last_error_message)

    async def catch_up(self, patience: float) -> None:
        """Until no update waits at Telegram."""
        end = self._clock.monotonic() + patience
        while True:
            with told():
                info = await self._bot.get_webhook_info()
            if not info.pending_update_count:
                return
            if self._clock.monotonic() > end:
                raise NotConnected("Telegram still has older messages for us")
            await self._clock.sleep(0.2)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        status = await self._status(scope, receive) if scope["type"] == "http" else None
        if status is not None:
            headers = [(b"content-length", b"0")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    async def _status(self, scope: Any, receive: Any) -> HTTPStatus:
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        given = dict(scope["headers"]).get(SECRET_HEADER, b"")
        if not hmac.compare_digest(given, self._secret.encode()):
            return HTTPStatus.FORBIDDEN
        body = await _body(receive)
        if body is None:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        try:
            update = msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError:
            return HTTPStatus.BAD_REQUEST
        if not isinstance(update.get("update_id"), int):
            return HTTPStatus.BAD_REQUEST
        accepted = await self._handle(update)
        return HTTPStatus.OK if accepted else HTTPStatus.SERVICE_UNAVAILABLE


async def _body(receive: Any) -> bytes | None:
    """None when it is too large, or the caller went away."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += bytes(message.get("body", b""))
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return body
