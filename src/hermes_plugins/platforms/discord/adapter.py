"""Discord. Messages come by its gateway, all else goes by HTTP."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import discord
from discord.http import MultipartParameters, Route

from hermes.sdk.platforms import (
    OVERLAP,
    AdapterContext,
    AdapterError,
    ChatInfo,
    ChatTarget,
    ConnectedAdapter,
    Connection,
    CredentialsRefused,
    DeliveryQuery,
    DeliveryUnknown,
    Media,
    MediaCache,
    NotConnected,
    OutgoingMessage,
    ReadPosition,
    Receive,
)
from hermes_plugins.platforms.discord import client, outbound
from hermes_plugins.platforms.discord.client import (
    CALL_ERRORS,
    SCALE,
    TOKEN_HINT,
    DiscordClient,
    DiscordOptions,
    id_at,
    map_connect_error,
    read_options,
    translate_call_errors,
)
from hermes_plugins.platforms.discord.inbound import (
    MAX_CHANNEL_MESSAGES,
    DiscordInbound,
    fetch_history,
    retry_rate_limited,
)
from hermes_plugins.platforms.discord.outbound import CANNOT_READ_HISTORY, call_in_channel, parse_id

logger = logging.getLogger(__name__)
CONNECT_SECONDS = 30.0  #: Time limit for connecting.
RESUME_SECONDS = 3.0  #: Time that a broken connection gets to resume by itself.
CHUNK = 65_536


class DiscordConnection(Connection):
    bot: DiscordClient
    position: ReadPosition[int]
    inbound: DiscordInbound

    def __init__(self, context: AdapterContext, receive: Receive, options: DiscordOptions) -> None:
        super().__init__(context, receive)
        if not options.token:
            raise CredentialsRefused("no bot token for Discord is set", hint=TOKEN_HINT)
        self.identities, self._options = (options.token,), options

    async def open(self) -> None:
        self.position = self.read_position(SCALE)
        self.bot = DiscordClient(self._options)
        self.inbound = DiscordInbound(self.bot, self._options, self.position, self.receive)
        self.bot.listener = self.inbound
        self.run_until_closed(self._run())
        # Registered after the task, so that the client is closed before its task is cancelled.
        self.resources.push_async_callback(self.bot.close)
        self.resources.push_async_callback(self.inbound.close)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self.wait_for(self.bot.guilds_known)
        except TimeoutError as error:
            raise NotConnected("Discord does not answer") from error
        self.command_sync = self.spawn(self._sync_commands())

    async def ping(self) -> None:
        try:
            await self.bot.rest.request(Route("GET", "/users/@me"))
        except CALL_ERRORS as error:
            if not isinstance(error, discord.RateLimited):  # rate limited means connected
                raise map_connect_error(error) from error
        for _ in range(int(RESUME_SECONDS / 0.1)):
            if self.bot.guilds_known.is_set() and getattr(self.bot.ws, "open", False):
                return
            self.raise_if_broken()
            await asyncio.sleep(0.1)
        raise NotConnected("the connection to Discord is broken")

    async def _run(self) -> None:
        try:
            await self.bot.login(self._options.token)
            await self.bot.rest.find_gateway()
            await self.bot.connect()
        except CALL_ERRORS as error:
            raise map_connect_error(error) from error

    async def _sync_commands(self) -> None:
        ours, policy = client.command_definitions(self.context.commands), self._options.sync
        application, rest = self.bot.application_id, self.bot.rest
        if not ours or policy == "off" or application is None:
            return
        try:
            there = await retry_rate_limited(lambda: rest.get_global_commands(application))
            new: Any = client.merge_commands(there, ours, policy)
            if new is not None:
                await retry_rate_limited(lambda: rest.bulk_upsert_global_commands(application, new))
        except CALL_ERRORS as error:
            logger.warning("Discord's menu of commands is not up to date: %s", error)


def list_chats(bot: DiscordClient, private: Mapping[str, str]) -> list[ChatInfo]:
    """Return the chats: channels as `#name`, preceded by the guild where a name is not unique."""
    channels: list[discord.TextChannel | discord.ForumChannel] = []
    for server in bot.guilds:
        if member := server.get_member(bot.me):
            found: list[Any] = [*server.text_channels, *server.forums]
            channels += [each for each in found if each.permissions_for(member).send_messages]
    uses = Counter(channel.name for channel in channels)
    names = {
        channel.id: f"#{channel.name}"
        if uses[channel.name] == 1
        else f"{channel.guild.name}/#{channel.name}"
        for channel in channels
    }
    chats = [ChatInfo(str(number), name, "group") for number, name in names.items()]
    for thread in (thread for server in bot.guilds for thread in server.threads):
        if parent := names.get(thread.parent_id):
            label = f"{parent} / {thread.name}"
            chats.append(ChatInfo(str(thread.parent_id), label, "group", str(thread.id)))
    return chats + [ChatInfo(chat_id, name, "dm") for chat_id, name in private.items()]


class DiscordAdapter(ConnectedAdapter[DiscordConnection]):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._options = read_options(context)
        self._pings = outbound.allowed_mentions(self._options.settings.allow_mentions)
        self._media = MediaCache(context.cache)

    def make_connection(self, receive: Receive) -> DiscordConnection:
        return DiscordConnection(self.context, receive, self._options)

    @property
    def _bot(self) -> DiscordClient:
        """The client. Raises the reason when the connection is lost for good: the library has
        released everything then."""
        self.connection.raise_if_broken()
        return self.connection.bot

    async def send(self, target: ChatTarget, message: OutgoingMessage, key: str) -> str:
        bot = self._bot
        wanted = self._options.reply_references and message.reply_to.isdecimal()
        # the first message of a thread cannot be referenced in it
        reply_to = message.reply_to if wanted and message.reply_to != target.thread_id else ""
        limit = self.manifest.capabilities.max_upload_bytes
        with (
            translate_call_errors(),
            outbound.message_params(
                message, key, self._pings, reply_to=reply_to, limit=limit
            ) as params,
        ):
            if self._is_forum(target):
                post = await bot.rest.start_thread_in_forum(
                    parse_id(target.chat_id),
                    params=outbound.forum_post_params(params, message.text),
                )
                return str(post["id"])
            shown = await self._post(bot, target, params)
        self.connection.inbound.record_sent(outbound.make_nonce(key), int(shown["id"]))
        if target.thread_id:
            self.connection.position.add_thread(target.thread_id)
        return str(shown["id"])

    async def _post(
        self, bot: DiscordClient, target: ChatTarget, params: MultipartParameters
    ) -> Any:
        try:
            return await call_in_channel(
                bot, target, lambda channel: bot.rest.send_message(channel, params=params)
            )
        except discord.HTTPException as error:
            if error.code != CANNOT_READ_HISTORY:
                raise
        alone = outbound.without_reference(params)
        return await call_in_channel(
            bot, target, lambda channel: bot.rest.send_message(channel, params=alone)
        )

    async def edit(self, target: ChatTarget, message_id: str, message: OutgoingMessage) -> None:
        bot = self._bot
        channel = message_id if self._is_forum(target) else target.thread_id or target.chat_id
        with translate_call_errors():
            await bot.rest.edit_message(
                parse_id(channel),
                parse_id(message_id),
                params=outbound.edit_params(message, self._pings),
            )

    def newest(self, target: ChatTarget) -> str:
        if not self.is_connected:
            return ""
        place = target.thread_id or target.chat_id
        channel = self.connection.bot.get_channel(int(place)) if place.isdecimal() else None
        known = self.connection.inbound.newest.get(place) or getattr(
            channel, "last_message_id", None
        )
        return str(known or "")

    async def was_delivered(
        self, query: DeliveryQuery, target: ChatTarget, message: OutgoingMessage
    ) -> str | None:
        """Search for the message: a nonce prevents duplicates for a few minutes only."""
        bot, nonce = self._bot, outbound.make_nonce(query.key)
        sent = self.connection.inbound.sent
        if nonce in sent:
            return str(sent[nonce])
        if self._is_forum(target):
            raise DeliveryUnknown("Discord does not say which posts of a forum were sent")
        after = query.after_id
        since = int(after) if after.isdecimal() else id_at(query.created_at - OVERLAP)
        others, looked_at = frozenset(sent.values()), 0
        channel = bot.get_partial_messageable(parse_id(target.thread_id or target.chat_id))
        with translate_call_errors():
            try:
                for there in await retry_rate_limited(lambda: fetch_history(bot, channel, since)):
                    looked_at += 1
                    ours = there.author.id == bot.me and there.id not in others
                    if ours and outbound.is_same_message(there, message, nonce):
                        return str(there.id)
            except (discord.Forbidden, discord.NotFound):
                return None  # not visible there; sending again reports why
        if looked_at >= MAX_CHANNEL_MESSAGES:
            raise DeliveryUnknown("too much was written on Discord since then")
        return None

    async def typing(self, target: ChatTarget) -> None:
        bot = self._bot
        with translate_call_errors():
            await call_in_channel(bot, target, bot.rest.send_typing)

    async def react(
        self, target: ChatTarget, message_id: str, emoji: str, *, on: bool = True
    ) -> None:
        bot = self._bot
        if not self._options.settings.reactions:
            return
        call: Callable[[Any, Any, str], Awaitable[Any]]
        call = bot.rest.add_reaction if on else bot.rest.remove_own_reaction
        places = [target.thread_id or target.chat_id]
        if message_id == target.thread_id:  # the first message of a thread is in the parent channel
            places.insert(0, target.chat_id)
        with translate_call_errors():
            for place in places:
                try:
                    await call(parse_id(place), parse_id(message_id), emoji)
                except discord.NotFound:
                    continue  # a command is not a message
                return

    async def fetch(self, media: Media, limit: int) -> Media:
        bot = self._bot
        try:
            fetched = await self._download(bot, media.ref, media, limit)
            if fetched is None:
                fetched = await self._download(
                    bot, await _refresh_url(bot, media.ref), media, limit
                )
        except CALL_ERRORS as error:
            raise AdapterError(
                f"the file could not be downloaded: {type(error).__name__}"
            ) from error
        if fetched is None:
            raise AdapterError("Discord does not have the file any more")
        return fetched

    async def chats(self) -> Sequence[ChatInfo]:
        return list_chats(self._bot, self.connection.position.private)

    async def _download(
        self, bot: DiscordClient, url: str, media: Media, limit: int
    ) -> Media | None:
        """Download a file; None when it does not exist at this address."""
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


async def _refresh_url(bot: DiscordClient, url: str) -> str:
    """Return a new address of a file; addresses expire after a day."""
    route = Route("POST", "/attachments/refresh-urls")
    answer = await bot.rest.request(route, json={"attachment_urls": [url]})
    return str(answer["refreshed_urls"][0]["refreshed"])
