"""The Telegram adapter and its connection."""

import logging
from collections.abc import Sequence
from typing import Protocol

import msgspec
from telegram import Bot, ReactionTypeEmoji
from telegram.constants import ChatAction
from telegram.error import BadRequest, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.connection import ConnectedAdapter, Connection
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    Media,
    NotConnected,
    OutgoingMessage,
    Receive,
)
from hermes.gateway.platforms.kit.media import MediaCache, MediaTooLarge
from hermes.gateway.platforms.telegram.client import (
    chat_of_message,
    command_names,
    error_mentions,
    make_bot,
    map_connect_error,
    map_error,
    message_number,
    read_options,
    set_menu,
    translate_connect_errors,
    typing_thread,
)
from hermes.gateway.platforms.telegram.inbound import (
    AlbumBuffer,
    BotIdentity,
    UpdateHandler,
    UpdateParser,
    UpdatePoller,
    UpdateWebhook,
)
from hermes.gateway.platforms.telegram.journal import (
    TelegramChats,
    TelegramJournal,
    create_topics,
    known_topics,
)
from hermes.gateway.platforms.telegram.outbound import DeliveryCheck, TelegramSender
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

logger = logging.getLogger(__name__)
MAX_DOWNLOAD = 20_000_000
EMOJI_SUBSTITUTES = {"✅": "👍", "❌": "👎", "⏳": "🤔"}
"""Substitutes for reactions that Telegram does not have."""


class UpdateSource(Protocol):
    """Delivers updates: long polling or a webhook."""

    async def start(self, connection: Connection) -> None: ...

    async def ping(self) -> None: ...

    async def catch_up(self, patience: float) -> None: ...


class TelegramWaits(msgspec.Struct, frozen=True):
    """Waiting times in seconds."""

    settle: float = 3.0
    """How long Telegram may still process a request after its connection broke."""
    album: float = 0.8
    """How long to wait for further parts of an album."""
    patience: float = 10.0
    """How long a delivery check waits for older updates."""


class TelegramConnection(Connection):
    bot: Bot
    chats: TelegramChats
    sender: TelegramSender
    delivery_check: DeliveryCheck

    def __init__(
        self, context: AdapterContext, receive: Receive, clock: Clock, waits: TelegramWaits
    ) -> None:
        super().__init__(context, receive)
        self._clock, self._waits = clock, waits
        self.options = read_options(context)
        self.identities = (self.options.token,)
        self.journal = TelegramJournal(context.state / "telegram.jsonl")

    async def open(self) -> None:
        context, journal, clock = self.context, self.journal, self._clock
        self.resources.callback(journal.close)
        try:
            journal.open()
        except OSError as error:
            raise NotConnected(
                f"the Telegram journal cannot be written: {error.strerror}"
            ) from error
        self.bot = bot = make_bot(self.options)
        self.resources.push_async_callback(bot.shutdown)
        with translate_connect_errors():
            await bot.initialize()
        await self._set_up()
        topics = known_topics(self.options, journal)
        me, names = BotIdentity(bot.id, bot.username), command_names(context.commands)
        reader = UpdateParser(me, names, topics, journal.origins)
        albums = AlbumBuffer(context.state / "albums", journal, clock, self._waits.album)
        self._handler = handler = UpdateHandler(bot, journal, reader, topics, albums, self.receive)
        self.resources.push_async_callback(handler.stop)
        self.chats = TelegramChats(bot, journal)
        upload = context.manifest.capabilities.max_upload_bytes
        self.sender = TelegramSender(bot, journal, self.chats, clock, upload)
        self._source = source = self._make_source(handler)
        self.delivery_check = DeliveryCheck(
            bot,
            journal,
            self.chats,
            self.sender,
            clock,
            lambda: source.catch_up(self._waits.patience),
            self._waits.settle,
        )
        await source.start(self)

    async def ping(self) -> None:
        await self._source.ping()

    def known_chats(self) -> tuple[ChatInfo, ...]:
        """Return the chats that wrote since the start, and the topics of config.yaml."""
        chats = dict(self._handler.chats)
        for group in self.options.group_topics:
            for topic in group.topics:
                key = str(group.chat_id), str(topic.thread_id or "")
                chats.setdefault(key, ChatInfo(key[0], topic.name, "group", key[1]))
        return (*chats.values(), *self.chats.found.values())

    async def _set_up(self) -> None:
        """Set the command menu and create topics of private chats. Failures are only logged."""
        try:
            await set_menu(self.bot, self.context.commands)
        except TelegramError as error:
            logger.warning("Telegram's command menu was not set: %s", map_connect_error(error))
        await create_topics(self.bot, self.journal, self.options.dm_topics)

    def _make_source(self, handler: UpdateHandler) -> UpdateSource:
        if not self.options.webhook_url:
            return UpdatePoller(self.bot, self._clock, handler.note_number, handler.handle)
        return UpdateWebhook(self.bot, self.options, self._clock, handler.handle)


class TelegramAdapter(ConnectedAdapter[TelegramConnection]):
    def __init__(
        self,
        context: AdapterContext,
        *,
        clock: Clock | None = None,
        waits: TelegramWaits | None = None,
    ) -> None:
        super().__init__(context)
        self._clock, self._waits = clock or SystemClock(), waits or TelegramWaits()

    def make_connection(self, receive: Receive) -> TelegramConnection:
        return TelegramConnection(self.context, receive, self._clock, self._waits)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        return await self.connection.sender.send(target, message, key)

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        await self.connection.sender.edit(target, message_id, message)

    async def was_delivered(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """See `DeliveryCheck`. Errors other than `DeliveryUnknown` mean: try again later."""
        return await self.connection.delivery_check.was_delivered(row, target, message)

    def newest(self, target: ChatTarget) -> str:
        """Return the newest message number known in the chat, for `OutboxRow.after_id`; "" for
        none."""
        if not self.is_connected:
            return ""
        chat_id = self.connection.chats.lookup(target)
        number = self.connection.journal.newest_number(chat_id) if chat_id is not None else 0
        return str(number) if number else ""

    async def typing(self, target: ChatTarget) -> None:
        connection = self.connection
        chat_id, thread = await connection.chats.resolve(target), typing_thread(target.thread_id)
        try:
            await connection.bot.send_chat_action(
                chat_id, ChatAction.TYPING, message_thread_id=thread
            )
        except TelegramError as error:
            raise map_error(error) from None

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        connection = self.connection
        if not connection.options.reactions:
            return
        chat_id = chat_of_message(message_id) or await connection.chats.resolve(target)
        # The type is explicit, because the library treats unknown emoji as custom emoji ids.
        reaction = [ReactionTypeEmoji(EMOJI_SUBSTITUTES.get(emoji, emoji))] if on else []
        try:
            await connection.bot.set_message_reaction(chat_id, message_number(message_id), reaction)
        except TelegramError as error:
            if not error_mentions(error, "reaction_invalid"):
                raise map_error(error) from None
            logger.info("Telegram has no reaction %s", emoji)

    async def fetch(self, media: Media, limit: int) -> Media:
        connection = self.connection
        if media.size > limit:
            raise MediaTooLarge(media.name, limit)
        try:
            file = await connection.bot.get_file(media.ref)
            if (file.file_size or 0) > limit:
                raise MediaTooLarge(media.name, limit)
            data = bytes(await file.download_as_bytearray())
        except BadRequest as error:
            if error_mentions(error, "file is too big"):
                raise MediaTooLarge(media.name, MAX_DOWNLOAD) from None
            raise AdapterError(f"{media.name} cannot be fetched: {error.message}") from None
        except TelegramError as error:
            raise NotConnected(f"{media.name} cannot be fetched: {map_error(error)}") from None
        return await MediaCache(self.context.cache).save(data, media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        return self.connection.known_chats()
