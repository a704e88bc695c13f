"""What was written while we were away. Discord keeps it, but does not deliver it by itself."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

import discord

from hermes.gateway.platforms.discord.bot import Bot

logger = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 8
"""Channels asked side by side."""
MOST = 500
"""Messages of one channel."""
TRIES = 5

Readable = discord.abc.Messageable
Dated = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel


async def missed(bot: Bot, since: int, private: Iterable[str]) -> list[discord.Message]:
    """All messages after `since`, oldest first: of channels and threads that have some, as Discord
    says, and of the private chats given. Raises what a call may raise."""
    channels: list[Readable] = [*_with_news(bot, since)]
    channels += [
        bot.get_partial_messageable(int(chat), type=discord.ChannelType.private) for chat in private
    ]
    gate = asyncio.Semaphore(AT_ONCE)

    async def of(channel: Readable) -> list[discord.Message]:
        async with gate:
            return await patiently(lambda: _after(channel, since))

    found = await asyncio.gather(*map(of, channels))
    return sorted((message for some in found for message in some), key=lambda each: each.id)


async def history(channel: Readable, since: int, limit: int) -> AsyncIterator[discord.Message]:
    async for message in channel.history(
        limit=limit, after=discord.Object(since), oldest_first=True
    ):
        yield message


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Waits where Discord wants us to."""
    for _ in range(TRIES):
        try:
            return await call()
        except discord.RateLimited as error:
            await asyncio.sleep(error.retry_after)
    return await call()


async def _after(channel: Readable, since: int) -> list[discord.Message]:
    try:
        found = [message async for message in history(channel, since, MOST)]
    except (discord.Forbidden, discord.NotFound) as error:
        logger.debug("a channel of Discord cannot be read: %s", error)
        return []
    if len(found) == MOST:
        logger.warning("a channel of Discord has more than %d new messages", MOST)
    return found


def _with_news(bot: Bot, since: int) -> list[Dated]:
    channels: list[Dated] = []
    for server in bot.guilds:
        channels += [*server.text_channels, *server.threads]
        channels += [*server.voice_channels, *server.stage_channels]  # they have a chat beside them
    return [channel for channel in channels if (channel.last_message_id or 0) > since]
