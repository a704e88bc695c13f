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
    BaseAdapter,
    ChatName,
    NotConnected,
    Receive,
)
from hermes.gateway.platforms.kit.media import MediaCache, TooLarge
from hermes.gateway.platforms.kit.token_lock import (
    ScopedLock,
    acquire_scoped_lock,
    release_scoped_lock,
)
from hermes.gateway.platforms.telegram.failures import of_call, says
from hermes.gateway.platforms.telegram.live import Live
from hermes.gateway.platforms.telegram.naming import chat_in, number_of, typing_thread
from hermes.gateway.platforms.telegram.options import options_from
from hermes.store.mail import OutboxRow
from hermes.util.clock import SystemClock

log = logging.getLogger(__name__)

MAX_DOWNLOAD = 20_000_000
EMOJI = {"✅": "👍", "❌": "👎", "⏳": "🤔"}
"""Reactions that Telegram does not have, and the nearest it has."""


class TelegramAdapter(BaseAdapter):
    def __init__(
        self,
        context: AdapterContext,
        *,
        clock: Clock | None = None,
        settle: float = 3.0,
        album_wait: float = 0.8,
        patience: float = 10.0,
    ) -> None:
        """`settle` is how many seconds a request may still be worked on after its connection broke,
        `album_wait` how long the parts of an album are waited for, `patience` how long a question
        about a sent message waits for older updates."""
        super().__init__(context)
        self._clock = clock or SystemClock()
        self._settle, self._album_wait, self._patience = settle, album_wait, patience
        self._live: Live | None = None
        self._lock: ScopedLock | None = None

    async def connect(self, receive: Receive) -> None:
        await self.disconnect()
        options = options_from(self.context)
        self._lock = acquire_scoped_lock("telegram", options.token, self.context.locks)
        try:
            self._live = Live(self.context, options, self._clock, receive)
            await self._live.start(
                settle=self._settle, album_wait=self._album_wait, patience=self._patience
            )
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        live, self._live = self._live, None
        try:
            if live is not None:
                await live.stop()
        finally:
            lock, self._lock = self._lock, None
            release_scoped_lock(lock)

    async def probe(self) -> None:
        await self._connected().probe()

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        return await self._connected().sender.send(target, message, key)

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:
        await self._connected().sender.edit(target, message_id, message)

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:
        """See `doubt`. Errors other than `Unknowable` mean: ask again later."""
        return await self._connected().doubts.find(row, target, message)

    def newest(self, target: Target) -> str:
        """The newest message number known in the chat, for `OutboxRow.after_id`; "" for none."""
        live = self._connected()
        chat_id = live.chats.known(target)
        number = live.journal.after(chat_id) if chat_id is not None else 0
        return str(number) if number else ""

    async def typing(self, target: Target) -> None:
        live = self._connected()
        chat_id, thread = await live.chats.find(target), typing_thread(target.thread_id)
        try:
            await live.bot.send_chat_action(chat_id, ChatAction.TYPING, message_thread_id=thread)
        except TelegramError as error:
            raise of_call(error) from None

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:
        live = self._connected()
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
        live = self._connected()
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
        return self._connected().known_chats()

    def _connected(self) -> Live:
        if self._live is None:
            raise NotConnected("Telegram is not connected")
        return self._live
