"""What was written while we were away. Discord keeps it, but does not deliver it by itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import discord

from hermes.gateway.platforms.discord.bot import Bot

logger = logging.getLogger(__name__)

T = TypeVar("T")

AT_ONCE = 8
"""Channels asked side by side."""
MOST = 500
"""Messages of one channel."""
PAGE = 100
TRIES = 5

Dated = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
Readable = Dated | discord.PartialMessageable


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
            return await patiently(lambda: _after(bot, channel, since))

    found = await asyncio.gather(*map(of, channels))
    return sorted((message for some in found for message in some), key=lambda each: each.id)


async def history(bot: Bot, channel: Readable, since: int) -> list[discord.Message]:
    """Messages after `since`, oldest first, at most `MOST`; what cannot be read is left out."""
    found: list[dict[str, Any]] = []
    while len(found) < MOST:
        newest_first: Any = await bot.rest.logs_from(channel.id, PAGE, after=since)
        found += newest_first[::-1]
        if len(newest_first) < PAGE:
            break
        since = int(newest_first[0]["id"])
    read = [bot.read(channel, data) for data in found[:MOST]]
    return [message for message in read if message is not None]


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Waits where Discord wants us to."""
    for _ in range(TRIES):
        try:
            return await call()
        except discord.RateLimited as error:
            await asyncio.sleep(error.retry_after)
    return await call()


async def _after(bot: Bot, channel: Readable, since: int) -> list[discord.Message]:
    try:
        found = await history(bot, channel, since)
    except (discord.Forbidden, discord.NotFound) as error:
        logger.debug("a channel of Discord cannot be read: %s", error)
        return []
    if len(found) >= MOST:
        logger.warning("a channel of Discord has more than %d new messages", MOST)
    return found


def _with_news(bot: Bot, since: int) -> list[Dated]:
    channels: list[Dated] = []
    for server in bot.guilds:
        channels += [*server.text_channels, *server.threads]
        channels += [*server.voice_channels, *server.stage_channels]  # they have a chat beside them
    return [channel for channel in channels if (channel.last_message_id or 0) > since]
