"""Updates on their way to the gateway: albums put together, presses answered, chats remembered."""

import logging
from collections.abc import Sequence
from typing import Any

from telegram import Bot, CallbackQuery, Message, Update
from telegram.error import TelegramError

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import ChatName, Receive
from hermes.gateway.platforms.kit.offering import kept
from hermes.gateway.platforms.kit.tasks import Tasks
from hermes.gateway.platforms.telegram.albums import Albums
from hermes.gateway.platforms.telegram.journal import Journal
from hermes.gateway.platforms.telegram.reading import Reader
from hermes.gateway.platforms.telegram.topics import Names, note_topic

log = logging.getLogger(__name__)

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
        self._answers = Tasks()
        self.chats: dict[tuple[str, str], ChatName] = {}
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
        self.chats[source.chat_id, source.thread_id] = ChatName(
            source.chat_id, name, source.chat_type, source.thread_id
        )
        return await kept(self._receive, event)

    def _update(self, raw: dict[str, Any]) -> Update | None:
        try:
            return Update.de_json(raw, self._bot)
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
