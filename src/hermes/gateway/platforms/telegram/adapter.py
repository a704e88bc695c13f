"""Telegram as the gateway sees it."""

import logging
from collections.abc import Sequence

from telegram import ReactionTypeEmoji
from telegram.constants import ChatAction
from telegram.error import BadRequest, TelegramError

from hermes.core.ports import Clock
from hermes.gateway.events import Media, Outgoing, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    ChatName,
    NotConnected,
    Receive,
)
from hermes.gateway.platforms.kit.connection import ConnectedAdapter
from hermes.gateway.platforms.kit.media import MediaCache, TooLarge
from hermes.gateway.platforms.telegram.failures import of_call, says
from hermes.gateway.platforms.telegram.live import Live, Waits
from hermes.gateway.platforms.telegram.naming import chat_in, number_of, typing_thread
from hermes.store.records import OutboxRow
from hermes.util.clock import SystemClock

log = logging.getLogger(__name__)

MAX_DOWNLOAD = 20_000_000
EMOJI = {"✅": "👍", "❌": "👎", "⏳": "🤔"}
"""Reactions that Telegram does not have, and the nearest it has."""


class TelegramAdapter(ConnectedAdapter[Live]):
    def __init__(
        self, context: AdapterContext, *, clock: Clock | None = None, waits: Waits | None = None
    ) -> None:
        super().__init__(context)
        self._clock, self._waits = clock or SystemClock(), waits or Waits()

    def connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._clock, self._waits)

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        return await self.live.sender.send(target, message, key)

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:
        await self.live.sender.edit(target, message_id, message)

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:
        """See `doubt`. Errors other than `Unknowable` mean: ask again later."""
        return await self.live.doubts.find(row, target, message)

    def newest(self, target: Target) -> str:
        """The newest message number known in the chat, for `OutboxRow.after_id`; "" for none."""
        if not self.is_connected:
            return ""
        chat_id = self.live.chats.known(target)
        number = self.live.journal.after(chat_id) if chat_id is not None else 0
        return str(number) if number else ""

    async def typing(self, target: Target) -> None:
        live = self.live
        chat_id, thread = await live.chats.find(target), typing_thread(target.thread_id)
        try:
            await live.bot.send_chat_action(chat_id, ChatAction.TYPING, message_thread_id=thread)
        except TelegramError as error:
            raise of_call(error) from None

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:
        live = self.live
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
        live = self.live
        if media.size > limit:
            raise TooLarge(media.name, limit)
        try:
            file = await live.bot.get_file(media.ref)
            if (file.file_size or 0) > limit:
                raise TooLarge(media.name, limit)
            data = bytes(await file.download_as_bytearray())
        except BadRequest as error:
            if says(error, "file is too big"):
                raise TooLarge(media.name, MAX_DOWNLOAD) from None
            raise AdapterError(f"{media.name} cannot be fetched: {error.message}") from None
        except TelegramError as error:
            raise NotConnected(f"{media.name} cannot be fetched: {of_call(error)}") from None
        return await MediaCache(self.context.cache).save(data, media, limit)

    async def chats(self) -> Sequence[ChatName]:
        return self.live.known_chats()
