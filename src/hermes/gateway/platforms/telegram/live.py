"""One connection to Telegram: everything that lives from `connect` to `disconnect`."""

import logging
from importlib import import_module
from typing import Protocol

from telegram.error import TelegramError

from hermes.core.ports import Clock
from hermes.gateway.platforms.base import AdapterContext, ChatName, NotConnected, Receive
from hermes.gateway.platforms.telegram.chats import Chats
from hermes.gateway.platforms.telegram.doubt import Doubts
from hermes.gateway.platforms.telegram.failures import of_connecting, told
from hermes.gateway.platforms.telegram.intake import Intake
from hermes.gateway.platforms.telegram.journal import Journal
from hermes.gateway.platforms.telegram.menu import real_names, set_menu
from hermes.gateway.platforms.telegram.options import Options
from hermes.gateway.platforms.telegram.polling import Poller
from hermes.gateway.platforms.telegram.reading import Me, Reader
from hermes.gateway.platforms.telegram.sending import Sender
from hermes.gateway.platforms.telegram.topics import known_topics, make_topics
from hermes.gateway.platforms.telegram.wire import bot_of

log = logging.getLogger(__name__)


class Source(Protocol):
    """Where updates come from."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def probe(self) -> None: ...

    async def catch_up(self, patience: float) -> None: ...


class Live:
    doubts: Doubts

    def __init__(
        self, context: AdapterContext, options: Options, clock: Clock, receive: Receive
    ) -> None:
        self.options, self._context, self._clock = options, context, clock
        self._receive = receive
        self.bot = bot_of(options)
        self.journal = Journal(context.state / "telegram.jsonl")
        upload = context.manifest.capabilities.max_upload_bytes
        self.chats = Chats(self.bot, self.journal)
        self.sender = Sender(self.bot, self.journal, self.chats, clock, upload)
        self._source: Source | None = None
        self._intake: Intake | None = None

    async def start(self, *, settle: float, album_wait: float, patience: float) -> None:
        try:
            self.journal.open()
        except OSError as error:
            raise NotConnected(
                f"the Telegram journal cannot be written: {error.strerror}"
            ) from error
        with told():
            await self.bot.initialize()
        me = Me(self.bot.id, self.bot.username)
        await self._set_up()
        topics = known_topics(self.options, self.journal)
        reader = Reader(me, real_names(self._context.commands), topics)
        intake = Intake(self.bot, self.journal, reader, topics, self._receive)
        self._intake = intake
        intake.start(self._context.state / "albums", self._clock, album_wait)
        self._source = source = self._source_of(intake)
        self.doubts = Doubts(
            self.bot,
            self.journal,
            self.chats,
            self.sender,
            self._clock,
            lambda: source.catch_up(patience),
            settle,
        )
        await source.start()

    async def stop(self) -> None:
        if self._source is not None:
            await self._source.stop()
        if self._intake is not None:
            await self._intake.stop()
        await self.bot.shutdown()
        self.journal.close()

    async def probe(self) -> None:
        if self._source is None:
            raise NotConnected("Telegram is not connected")
        await self._source.probe()

    def known_chats(self) -> tuple[ChatName, ...]:
        """Those that wrote since the start, and topics that config.yaml names."""
        chats = dict(self._intake.chats) if self._intake else {}
        for group in self.options.group_topics:
            for topic in group.topics:
                key = str(group.chat_id), str(topic.thread_id or "")
                chats.setdefault(key, ChatName(key[0], topic.name, "group", key[1]))
        return (*chats.values(), *self.chats.found.values())

    async def _set_up(self) -> None:
        """What is nice to have: the menu and the topics of private chats."""
        try:
            await set_menu(self.bot, self._context.commands)
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
