"""Discord. Messages come by its gateway, all else goes by HTTP."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import discord
from discord.http import MultipartParameters, Route

from hermes.gateway.platforms.discord import client, outbound
from hermes.gateway.platforms.discord.client import (
    SCALE,
    TOKEN_HINT,
    TROUBLE,
    Bot,
    Options,
    id_at,
    of_connecting,
    options_of,
    told,
)
from hermes.gateway.platforms.discord.inbound import MOST, Intake, history, patiently
from hermes.gateway.platforms.discord.outbound import NO_HISTORY, in_place, number
from hermes.gateway.platforms.kit.connection import ConnectedAdapter, Connection
from hermes.gateway.platforms.kit.contract import (
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    CredentialsRefused,
    DeliveryUnknown,
    Media,
    NotConnected,
    OutgoingMessage,
    Receive,
)
from hermes.gateway.platforms.kit.inbound import OVERLAP, ReadPosition
from hermes.gateway.platforms.kit.media import MediaCache
from hermes.store.records import OutboxRow

# One connection to Discord.

logger = logging.getLogger(__name__)

CONNECTING = 30.0
"""Seconds until a connection that does not come has failed."""
RESUMING = 3.0
"""Seconds that a broken connection gets to come back by itself."""


class Live(Connection):
    bot: Bot
    seen: ReadPosition[int]
    intake: Intake

    def __init__(self, context: AdapterContext, receive: Receive, options: Options) -> None:
        super().__init__(context, receive)
        if not options.token:
            raise CredentialsRefused("there is no token for Discord", hint=TOKEN_HINT)
        self.identities, self._options = (options.token,), options

    async def open(self) -> None:
        self.seen = self.read_position(SCALE)
        self.bot = Bot(self._options)
        self.intake = Intake(self.bot, self._options, self.seen, self.receive)
        self.bot.listener = self.intake
        self.run_until_closed(self._stay())
        # Before its task is cancelled, which may be closing it already.
        self.resources.push_async_callback(self.bot.close)
        self.resources.push_async_callback(self.intake.close)
        try:
            async with asyncio.timeout(CONNECTING):
                await self.wait_for(self.bot.settled)
        except TimeoutError as error:
            raise NotConnected("Discord does not answer") from error
        self.offering = self.spawn(self._offer_commands())

    async def ping(self) -> None:
        try:
            await self.bot.rest.request(Route("GET", "/users/@me"))
        except TROUBLE as error:
            if not isinstance(error, discord.RateLimited):  # then it is there, which is enough
                raise of_connecting(error) from error
        for _ in range(int(RESUMING / 0.1)):
            if self.bot.settled.is_set() and getattr(self.bot.ws, "open", False):
                return
            self.raise_if_broken()
            await asyncio.sleep(0.1)
        raise NotConnected("the connection to Discord is broken")

    async def _stay(self) -> None:
        try:
            await self.bot.login(self._options.token)
            await self.bot.rest.find_gateway()
            await self.bot.connect()
        except TROUBLE as error:
            raise of_connecting(error) from error

    async def _offer_commands(self) -> None:
        ours, policy = client.described(self.context.commands), self._options.sync
        application, rest = self.bot.application_id, self.bot.rest
        if not ours or policy == "off" or application is None:
            return
        try:
            there = await patiently(lambda: rest.get_global_commands(application))
            new: Any = client.replacement(there, ours, policy)
            if new is not None:
                await patiently(lambda: rest.bulk_upsert_global_commands(application, new))
        except TROUBLE as error:
            logger.warning("Discord's menu of commands is not up to date: %s", error)


# The chats that we are in.

Channel = discord.TextChannel | discord.ForumChannel


def names_of(bot: Bot, private: Mapping[str, str]) -> list[ChatInfo]:
    """Channels as `#name`, with the server before it where two have the same."""
    channels: list[Channel] = []
    for server in bot.guilds:
        channels += [*server.text_channels, *server.forums]
    channels = [channel for channel in channels if _may_write(channel, bot.me)]
    uses = Counter(channel.name for channel in channels)
    chats = [
        ChatInfo(str(channel.id), _label(channel, alone=uses[channel.name] == 1), "group")
        for channel in channels
    ]
    names = {chat.chat_id: chat.name for chat in chats}
    threads = [thread for server in bot.guilds for thread in server.threads]
    chats += [
        ChatInfo(
            str(thread.parent_id),
            f"{names[str(thread.parent_id)]} / {thread.name}",
            "group",
            str(thread.id),
        )
        for thread in threads
        if str(thread.parent_id) in names
    ]
    return chats + [ChatInfo(chat_id, name, "dm") for chat_id, name in private.items()]


def _label(channel: Channel, *, alone: bool) -> str:
    return f"#{channel.name}" if alone else f"{channel.guild.name}/#{channel.name}"


def _may_write(channel: Channel, me: int) -> bool:
    member = channel.guild.get_member(me)
    return member is not None and channel.permissions_for(member).send_messages


CHUNK = 65_536


class DiscordAdapter(ConnectedAdapter[Live]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._options = options_of(context)
        self._pings = outbound.pings(self._options.settings.allow_mentions)
        self._media = MediaCache(context.cache)

    def make_connection(self, receive: Receive) -> Live:
        return Live(self.context, receive, self._options)

    @property
    def _bot(self) -> Bot:
        """Raises the reason when there is no connection and none will come: the library lets go of
        everything then."""
        self.connection.raise_if_broken()
        return self.connection.bot

    # messages of ours

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        bot = self._bot
        wanted = self._options.quotes and message.reply_to.isdecimal()
        # the first message of a thread cannot be answered in it, and need not be
        reply_to = message.reply_to if wanted and message.reply_to != target.thread_id else ""
        limit = self.manifest.capabilities.max_upload_bytes
        with (
            told(),
            outbound.parameters(
                message, key, self._pings, reply_to=reply_to, limit=limit
            ) as params,
        ):
            if self._is_forum(target):
                post = await bot.rest.start_thread_in_forum(
                    number(target.chat_id), params=outbound.as_post(params, message.text)
                )
                return str(post["id"])
            shown = await self._show(bot, target, params)
        self.connection.intake.is_there(outbound.nonce_of(key), int(shown["id"]))
        if target.thread_id:
            self.connection.seen.add_thread(target.thread_id)
        return str(shown["id"])

    async def _show(self, bot: Bot, target: ChatTarget, params: MultipartParameters) -> Any:
        try:
            return await in_place(
                bot, target, lambda channel: bot.rest.send_message(channel, params=params)
            )
        except discord.HTTPException as error:
            if error.code != NO_HISTORY:
                raise
        alone = outbound.without_quote(params)
        return await in_place(
            bot, target, lambda channel: bot.rest.send_message(channel, params=alone)
        )

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        bot = self._bot
        channel = message_id if self._is_forum(target) else target.thread_id or target.chat_id
        with told():
            await bot.rest.edit_message(
                number(channel), number(message_id), params=outbound.edited(message, self._pings)
            )

    def newest(self, target: ChatTarget) -> str:
        """The newest message that we know of where a message is to go; "" when there is none."""
        if not self.is_connected:
            return ""
        place = target.thread_id or target.chat_id
        channel = self.connection.bot.get_channel(int(place)) if place.isdecimal() else None
        known = self.connection.intake.newest.get(place) or getattr(
            channel, "last_message_id", None
        )
        return str(known or "")

    async def was_delivered(
        self, row: OutboxRow, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """Sending it again would show only one, but for a few minutes only; so it is looked for."""
        bot, nonce = self._bot, outbound.nonce_of(row.key)
        sent = self.connection.intake.sent
        if nonce in sent:
            return str(sent[nonce])
        if self._is_forum(target):
            raise DeliveryUnknown("Discord does not say which posts of a forum were sent")
        since = int(row.after_id) if row.after_id.isdecimal() else id_at(row.created_at - OVERLAP)
        others, looked_at = frozenset(sent.values()), 0
        channel = bot.get_partial_messageable(number(target.thread_id or target.chat_id))
        with told():
            try:
                for there in await patiently(lambda: history(bot, channel, since)):
                    looked_at += 1
                    ours = there.author.id == bot.me and there.id not in others
                    if ours and outbound.is_same(there, message, nonce):
                        return str(there.id)
            except (discord.Forbidden, discord.NotFound):
                return None  # nobody sees it there, and sending will say why
        if looked_at >= MOST:
            raise DeliveryUnknown("too much was written on Discord since then")
        return None

    async def typing(self, target: ChatTarget) -> None:
        bot = self._bot
        with told():
            await in_place(bot, target, bot.rest.send_typing)

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
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

    async def chats(self) -> Sequence[ChatInfo]:
        return names_of(self._bot, self.connection.seen.private)

    async def _download(self, bot: Bot, url: str, media: Media, limit: int) -> Media | None:
        """None when it is not there under this address."""
        async with await bot.rest.download(url) as response:
            if response.status in (403, 404):
                return None
            if response.status != 200:
                raise AdapterError(f"Discord answered {response.status} for the file")
            return await self._media.save(response.content.iter_chunked(CHUNK), media, limit)

    def _is_forum(self, target: ChatTarget) -> bool:
        if target.thread_id or not target.chat_id.isdecimal():
            return False
        return isinstance(self._bot.get_channel(int(target.chat_id)), discord.ForumChannel)


async def _fresh(bot: Bot, url: str) -> str:
    """Addresses of files are good for a day; then there is a new one."""
    route = Route("POST", "/attachments/refresh-urls")
    answer = await bot.rest.request(route, json={"attachment_urls": [url]})
    return str(answer["refreshed_urls"][0]["refreshed"])
