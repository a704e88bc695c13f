"""One connection to Telegram."""

import logging
from importlib import import_module
from typing import Protocol

import msgspec
from telegram import Bot
from telegram.error import TelegramError

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import AdapterContext, ChatName, NotConnected, Receive
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.telegram.albums import Albums
from hermes.gateway.platforms.telegram.chats import Chats
from hermes.gateway.platforms.telegram.doubt import Doubts
from hermes.gateway.platforms.telegram.failures import of_connecting, told
from hermes.gateway.platforms.telegram.intake import Intake
from hermes.gateway.platforms.telegram.journal import Journal
from hermes.gateway.platforms.telegram.menu import real_names, set_menu
from hermes.gateway.platforms.telegram.options import options_from
from hermes.gateway.platforms.telegram.polling import Poller
from hermes.gateway.platforms.telegram.reading import Me, Reader
from hermes.gateway.platforms.telegram.sending import Sender
from hermes.gateway.platforms.telegram.topics import known_topics, make_topics
from hermes.gateway.platforms.telegram.wire import bot_of

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where updates come from."""

    async def start(self, connection: Connection) -> None: ...

    async def ask(self) -> None: ...

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
        self.ends.callback(journal.close)
        try:
            journal.open()
        except OSError as error:
            raise NotConnected(
                f"the Telegram journal cannot be written: {error.strerror}"
            ) from error
        self.bot = bot = bot_of(self.options)
        self.ends.push_async_callback(bot.shutdown)
        with told():
            await bot.initialize()
        await self._set_up()
        topics = known_topics(self.options, journal)
        me, names = Me(bot.id, bot.username), real_names(context.commands)
        reader = Reader(me, names, topics, journal.origins)
        albums = Albums(context.state / "albums", journal, clock, self._waits.album)
        self._intake = intake = Intake(bot, journal, reader, topics, albums, self.receive)
        self.ends.push_async_callback(intake.stop)
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

    async def ask(self) -> None:
        await self._source.ask()

    def known_chats(self) -> tuple[ChatName, ...]:
        """Those that wrote since the start, and topics that config.yaml names."""
        chats = dict(self._intake.chats)
        for group in self.options.group_topics:
            for topic in group.topics:
                key = str(group.chat_id), str(topic.thread_id or "")
                chats.setdefault(key, ChatName(key[0], topic.name, "group", key[1]))
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
        webhook = import_module("hermes.gateway.platforms.telegram.webhook")
        source: Source = webhook.Webhook(self.bot, self.options, self._clock, intake.take)
        return source
