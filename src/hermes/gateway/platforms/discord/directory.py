"""The chats that we are in."""

from collections import Counter
from collections.abc import Mapping

import discord

from hermes.gateway.platforms.base import ChatName
from hermes.gateway.platforms.discord.bot import Bot

Channel = discord.TextChannel | discord.ForumChannel


def names_of(bot: Bot, private: Mapping[str, str]) -> list[ChatName]:
    """Channels as `#name`, with the server before it where two have the same."""
    channels: list[Channel] = []
    for server in bot.guilds:
        channels += [*server.text_channels, *server.forums]
    channels = [channel for channel in channels if _may_write(channel, bot.me)]
    uses = Counter(channel.name for channel in channels)
    chats = [
        ChatName(str(channel.id), _label(channel, alone=uses[channel.name] == 1), "group")
        for channel in channels
    ]
    names = {chat.chat_id: chat.name for chat in chats}
    threads = [thread for server in bot.guilds for thread in server.threads]
    chats += [
        ChatName(
            str(thread.parent_id),
            f"{names[str(thread.parent_id)]} / {thread.name}",
            "group",
            str(thread.id),
        )
        for thread in threads
        if str(thread.parent_id) in names
    ]
    return chats + [ChatName(chat_id, name, "dm") for chat_id, name in private.items()]


def _label(channel: Channel, *, alone: bool) -> str:
    return f"#{channel.name}" if alone else f"{channel.guild.name}/#{channel.name}"


def _may_write(channel: Channel, me: int) -> bool:
    member = channel.guild.get_member(me)
    return member is not None and channel.permissions_for(member).send_messages
