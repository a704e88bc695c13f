"""Discord. Messages come by its gateway, all else goes by HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import discord
from discord.http import MultipartParameters, Route

from hermes.gateway.events import Media, Outgoing, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    ChatName,
    Receive,
    Unknowable,
)
from hermes.gateway.platforms.discord import sending
from hermes.gateway.platforms.discord.bot import Bot
from hermes.gateway.platforms.discord.directory import names_of
from hermes.gateway.platforms.discord.failures import TROUBLE, told
from hermes.gateway.platforms.discord.ids import id_at
from hermes.gateway.platforms.discord.live import Live
from hermes.gateway.platforms.discord.missed import MOST, history, patiently
from hermes.gateway.platforms.discord.options import options_of
from hermes.gateway.platforms.discord.threads import NO_HISTORY, in_place, number
from hermes.gateway.platforms.kit.connection import ConnectedAdapter
from hermes.gateway.platforms.kit.media import MediaCache
from hermes.gateway.platforms.kit.seen import OVERLAP
from hermes.store.records import OutboxRow

CHUNK = 65_536


class DiscordAdapter(ConnectedAdapter[Live]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._options = options_of(context)
        self._pings = sending.pings(self._options.settings.allow_mentions)
        self._media = MediaCache(context.cache)

    def connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._options)

    @property
    def _bot(self) -> Bot:
        """Raises the reason when there is no connection and none will come: the library lets go of
        everything then."""
        self.live.check()
        return self.live.bot

    # messages of ours

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        bot = self._bot
        wanted = self._options.quotes and message.reply_to.isdecimal()
        # the first message of a thread cannot be answered in it, and need not be
        reply_to = message.reply_to if wanted and message.reply_to != target.thread_id else ""
        limit = self.manifest.capabilities.max_upload_bytes
        with (
            told(),
            sending.parameters(message, key, self._pings, reply_to=reply_to, limit=limit) as params,
        ):
            if self._is_forum(target):
                post = await bot.rest.start_thread_in_forum(
                    number(target.chat_id), params=sending.as_post(params, message.text)
                )
                return str(post["id"])
            shown = await self._show(bot, target, params)
        self.live.intake.is_there(sending.nonce_of(key), int(shown["id"]))
        if target.thread_id:
            self.live.seen.add_thread(target.thread_id)
        return str(shown["id"])

    async def _show(self, bot: Bot, target: Target, params: MultipartParameters) -> Any:
        try:
            return await in_place(
                bot, target, lambda channel: bot.rest.send_message(channel, params=params)
            )
        except discord.HTTPException as error:
            if error.code != NO_HISTORY:
                raise
        alone = sending.without_quote(params)
        return await in_place(
            bot, target, lambda channel: bot.rest.send_message(channel, params=alone)
        )

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:
        bot = self._bot
        channel = message_id if self._is_forum(target) else target.thread_id or target.chat_id
        with told():
            await bot.rest.edit_message(
                number(channel), number(message_id), params=sending.edited(message, self._pings)
            )

    def newest(self, target: Target) -> str:
        """The newest message that we know of where a message is to go; "" when there is none."""
        if not self.is_connected:
            return ""
        place = target.thread_id or target.chat_id
        channel = self.live.bot.get_channel(int(place)) if place.isdecimal() else None
        known = self.live.intake.newest.get(place) or getattr(channel, "last_message_id", None)
        return str(known or "")

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:
        """Sending it again would show only one, but for a few minutes only; so it is looked for."""
        bot, nonce = self._bot, sending.nonce_of(row.key)
        sent = self.live.intake.sent
        if nonce in sent:
            return str(sent[nonce])
        if self._is_forum(target):
            raise Unknowable("Discord does not say which posts of a forum were sent")
        since = int(row.after_id) if row.after_id.isdecimal() else id_at(row.created_at - OVERLAP)
        others, looked_at = frozenset(sent.values()), 0
        channel = bot.get_partial_messageable(number(target.thread_id or target.chat_id))
        with told():
            try:
                for there in await patiently(lambda: history(bot, channel, since)):
                    looked_at += 1
                    ours = there.author.id == bot.me and there.id not in others
                    if ours and sending.is_same(there, message, nonce):
                        return str(there.id)
            except (discord.Forbidden, discord.NotFound):
                return None  # nobody sees it there, and sending will say why
        if looked_at >= MOST:
            raise Unknowable("too much was written on Discord since then")
        return None

    async def typing(self, target: Target) -> None:
        bot = self._bot
        with told():
            await in_place(bot, target, bot.rest.send_typing)

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:
        bot = self._bot
        if not self._options.settings.reactions:
            return
        call: Callable[[Any, Any, str], Awaitable[Any]]
        call = bot.rest.add_reaction if on else bot.rest.remove_own_reaction
        places = [target.thread_id or target.chat_id]
        if message_id == target.thread_id:  # the first message of a thread is beside it
            places.insert(0, target.chat_id)
        with told():
            for place in places:
                try:
                    await call(number(place), number(message_id), emoji)
                except discord.NotFound:
                    continue  # what asked us by a command is no message
                return

    # what the platform knows

    async def fetch(self, media: Media, limit: int) -> Media:
        bot = self._bot
        try:
            fetched = await self._download(bot, media.ref, media, limit)
            if fetched is None:
                fetched = await self._download(bot, await _fresh(bot, media.ref), media, limit)
        except TROUBLE as error:
            raise AdapterError(f"the file did not come: {type(error).__name__}") from error
        if fetched is None:
            raise AdapterError("Discord does not have the file any more")
        return fetched

    async def chats(self) -> Sequence[ChatName]:
        return names_of(self._bot, self.live.seen.private)

    async def _download(self, bot: Bot, url: str, media: Media, limit: int) -> Media | None:
        """None when it is not there under this address."""
        async with await bot.rest.download(url) as response:
            if response.status in (403, 404):
                return None
            if response.status != 200:
                raise AdapterError(f"Discord answered {response.status} for the file")
            return await self._media.save(response.content.iter_chunked(CHUNK), media, limit)

    def _is_forum(self, target: Target) -> bool:
        if target.thread_id or not target.chat_id.isdecimal():
            return False
        return isinstance(self._bot.get_channel(int(target.chat_id)), discord.ForumChannel)


async def _fresh(bot: Bot, url: str) -> str:
    """Addresses of files are good for a day; then there is a new one."""
    route = Route("POST", "/attachments/refresh-urls")
    answer = await bot.rest.request(route, json={"attachment_urls": [url]})
    return str(answer["refreshed_urls"][0]["refreshed"])
