"""Telegram as the gateway sees it."""

import logging
from collections.abc import Sequence
from importlib import import_module
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
    bot_of,
    chat_in,
    number_of,
    of_call,
    of_connecting,
    options_from,
    real_names,
    says,
    set_menu,
    told,
    typing_thread,
)
from hermes.gateway.platforms.telegram.inbound import Albums, Intake, Me, Poller, Reader
from hermes.gateway.platforms.telegram.journal import Chats, Journal, known_topics, make_topics
from hermes.gateway.platforms.telegram.outbound import Doubts, Sender
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

# One connection to Telegram.

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where updates come from."""

    async def start(self, connection: Connection) -> None: ...

    async def ping(self) -> None: ...

    async def catch_up(self, patience: float) -> None: ...


class Waits(msgspec.Struct, frozen=True):
    """Seconds."""

    settle: float = 3.0
    """That a request may still be worked on after its connection broke."""
    album: float = 0.8
    """That the parts of an album are waited for."""
    patience: float = 10.0
    """That a question about a sent message waits for older updates."""


class Live(Connection):
    bot: Bot
    chats: Chats
    sender: Sender
    doubts: Doubts

    def __init__(
        self, context: AdapterContext, receive: Receive, clock: Clock, waits: Waits
    ) -> None:
        super().__init__(context, receive)
        self._clock, self._waits = clock, waits
        self.options = options_from(context)
        self.identities = (self.options.token,)
        self.journal = Journal(context.state / "telegram.jsonl")

    async def open(self) -> None:
        context, journal, clock = self.context, self.journal, self._clock
        self.resources.callback(journal.close)
        try:
            journal.open()
        except OSError as error:
            raise NotConnected(
                f"the Telegram journal cannot be written: {error.strerror}"
            ) from error
        self.bot = bot = bot_of(self.options)
        self.resources.push_async_callback(bot.shutdown)
        with told():
            await bot.initialize()
        await self._set_up()
        topics = known_topics(self.options, journal)
        me, names = Me(bot.id, bot.username), real_names(context.commands)
        reader = Reader(me, names, topics, journal.origins)
        albums = Albums(context.state / "albums", journal, clock, self._waits.album)
        self._intake = intake = Intake(bot, journal, reader, topics, albums, self.receive)
        self.resources.push_async_callback(intake.stop)
        self.chats = Chats(bot, journal)
        upload = context.manifest.capabilities.max_upload_bytes
        self.sender = Sender(bot, journal, self.chats, clock, upload)
        self._source = source = self._source_of(intake)
        self.doubts = Doubts(
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
        """Those that wrote since the start, and topics that config.yaml names."""
        chats = dict(self._intake.chats)
        for group in self.options.group_topics:
            for topic in group.topics:
                key = str(group.chat_id), str(topic.thread_id or "")
                chats.setdefault(key, ChatInfo(key[0], topic.name, "group", key[1]))
        return (*chats.values(), *self.chats.found.values())

    async def _set_up(self) -> None:
        """What is nice to have: the menu and the topics of private chats."""
        try:
            await set_menu(self.bot, self.context.commands)
        except TelegramError as error:
            log.warning("Telegram's command menu was not set: %s", of_connecting(error))
        await make_topics(self.bot, self.journal, self.options.dm_topics)

    def _source_of(self, intake: Intake) -> Source:
        if not self.options.webhook_url:
            return Poller(self.bot, self._clock, intake.look, intake.take)
        # Its HTTP server is loaded only where it is used.
        webhook = import_module("hermes.gateway.platforms.telegram.inbound")
        source: Source = webhook.Webhook(self.bot, self.options, self._clock, intake.take)
        return source


MAX_DOWNLOAD = 20_000_000
EMOJI = {"✅": "👍", "❌": "👎", "⏳": "🤔"}
"""Reactions that Telegram does not have, and the nearest it has."""


class TelegramAdapter(ConnectedAdapter[Live]):
    def __init__(
        self, context: AdapterContext, *, clock: Clock | None = None, waits: Waits | None = None
    ) -> None:
        super().__init__(context)
        self._clock, self._waits = clock or SystemClock(), waits or Waits()

    def make_connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._clock, self._waits)

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        return await self.connection.sender.send(target, message, key)

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        await self.connection.sender.edit(target, message_id, message)

    async def was_delivered(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """See `doubt`. Errors other than `Unknowable` mean: ask again later."""
        return await self.connection.doubts.find(row, target, message)

    def newest(self, target: ChatTarget) -> str:
        """The newest message number known in the chat, for `OutboxRow.after_id`; "" for none."""
        if not self.is_connected:
            return ""
        chat_id = self.connection.chats.known(target)
        number = self.connection.journal.after(chat_id) if chat_id is not None else 0
        return str(number) if number else ""

    async def typing(self, target: ChatTarget) -> None:
        live = self.connection
        chat_id, thread = await live.chats.find(target), typing_thread(target.thread_id)
        try:
            await live.bot.send_chat_action(chat_id, ChatAction.TYPING, message_thread_id=thread)
        except TelegramError as error:
            raise of_call(error) from None

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        live = self.connection
        if not live.options.reactions:
            return
        chat_id = chat_in(message_id) or await live.chats.find(target)
        # Its kind is named, since the library takes emoji it does not know for ids of its own.
        reaction = [ReactionTypeEmoji(EMOJI.get(emoji, emoji))] if on else []
        try:
            await live.bot.set_message_reaction(chat_id, number_of(message_id), reaction)
        except TelegramError as error:
            if not says(error, "reaction_invalid"):
                raise of_call(error) from None
            log.info("Telegram has no reaction %s", emoji)

    async def fetch(self, media: Media, limit: int) -> Media:
        live = self.connection
        if media.size > limit:
            raise MediaTooLarge(media.name, limit)
        try:
            file = await live.bot.get_file(media.ref)
            if (file.file_size or 0) > limit:
                raise MediaTooLarge(media.name, limit)
            data = bytes(await file.download_as_bytearray())
        except BadRequest as error:
            if says(error, "file is too big"):
                raise MediaTooLarge(media.name, MAX_DOWNLOAD) from None
            raise AdapterError(f"{media.name} cannot be fetched: {error.message}") from None
        except TelegramError as error:
            raise NotConnected(f"{media.name} cannot be fetched: {of_call(error)}") from None
        return await MediaCache(self.context.cache).save(data, media, limit)

    async def chats(self) -> Sequence[ChatInfo]:
        return self.connection.known_chats()
