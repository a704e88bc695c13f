"""The Telegram adapter and its connection."""

import logging
from collections.abc import Sequence
from typing import Protocol

from telegram import Bot, ReactionTypeEmoji
from telegram.constants import ChatAction
from telegram.error import BadRequest, TelegramError

from hermes.sdk import Clock, SystemClock
from hermes.sdk.platforms import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    Media,
    MediaCache,
    MediaTooLarge,
    NotConnected,
    OutgoingMessage,
    Receive,
)
from hermes_plugins.platforms.telegram.client import (
    TelegramChats,
    TelegramState,
    chat_of_message,
    command_names,
    create_topics,
    error_mentions,
    known_topics,
    make_bot,
    map_connect_error,
    map_error,
    message_number,
    read_options,
    set_menu,
    translate_connect_errors,
    translate_send_errors,
    typing_thread,
)
from hermes_plugins.platforms.telegram.inbound import (
    AlbumBuffer,
    BotIdentity,
    UpdateHandler,
    UpdateParser,
    UpdatePoller,
    UpdateWebhook,
)
from hermes_plugins.platforms.telegram.outbound import TelegramSender

logger = logging.getLogger(__name__)
MAX_DOWNLOAD = 20_000_000
EMOJI_SUBSTITUTES = {"✅": "👍", "❌": "👎", "⏳": "🤔"}
"""Substitutes for reactions that Telegram does not have."""


class UpdateSource(Protocol):
    """Delivers updates: long polling or a webhook."""

    async def start(self, connection: Connection) -> None: ...

    async def ping(self) -> None: ...


class TelegramConnection(Connection):
    bot: Bot
    chats: TelegramChats
    sender: TelegramSender

    def __init__(
        self, context: AdapterContext, receive: Receive, clock: Clock, album_wait: float
    ) -> None:
        super().__init__(context, receive)
        self._clock, self._album_wait = clock, album_wait
        self.options = read_options(context)
        self.identities = (self.options.token,)
        self.state = TelegramState(context.state / "telegram.jsonl")

    async def open(self) -> None:
        context, state = self.context, self.state
        try:
            state.open()
        except OSError as error:
            raise NotConnected(f"telegram.jsonl cannot be written: {error.strerror}") from error
        self.bot = bot = make_bot(self.options)
        self.resources.push_async_callback(bot.shutdown)
        with translate_connect_errors():
            await bot.initialize()
        try:
            await set_menu(bot, context.commands)
        except TelegramError as error:
            logger.warning("Telegram's command menu was not set: %s", map_connect_error(error))
        await create_topics(bot, state, self.options.dm_topics)
        topics = known_topics(self.options, state)
        me, names = BotIdentity(bot.id, bot.username), command_names(context.commands)
        reader = UpdateParser(me, names, topics, state.origins)
        albums = AlbumBuffer(context.state / "albums", state, self._clock, self._album_wait)
        self._handler = handler = UpdateHandler(bot, state, reader, topics, albums, self.receive)
        self.resources.push_async_callback(handler.stop)
        self.chats = TelegramChats(bot, state)
        upload = context.manifest.capabilities.max_upload_bytes
        self.sender = TelegramSender(bot, state, self.chats, upload)
        self._source: UpdateSource = (
            UpdateWebhook(bot, self.options, handler.handle)
            if self.options.webhook_url
            else UpdatePoller(bot, self._clock, handler.handle)
        )
        await self._source.start(self)

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


class TelegramAdapter(ConnectedAdapter[TelegramConnection]):
    def __init__(
        self, context: AdapterContext, *, clock: Clock | None = None, album_wait: float = 0.8
    ) -> None:
        """`album_wait`: seconds to wait for further parts of an album."""
        super().__init__(context)
        self._clock, self._album_wait = clock or SystemClock(), album_wait

    def make_connection(self, receive: Receive) -> TelegramConnection:
        return TelegramConnection(self.context, receive, self._clock, self._album_wait)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        return await self.connection.sender.send(target, message, key)

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        await self.connection.sender.edit(target, message_id, message)

    async def typing(self, target: ChatTarget) -> None:
        connection = self.connection
        chat_id, thread = await connection.chats.resolve(target), typing_thread(target.thread_id)
        with translate_send_errors():
            await connection.bot.send_chat_action(
                chat_id, ChatAction.TYPING, message_thread_id=thread
            )

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
