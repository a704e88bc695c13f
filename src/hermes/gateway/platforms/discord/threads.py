"""Where messages go. The thread of a mention is opened by the first thing that goes there: whoever
is not let in opens none, and after a crash it is not opened twice."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import discord

from hermes.gateway.events import Target
from hermes.gateway.platforms.base import SendRefused
from hermes.gateway.platforms.discord.bot import Bot

UNKNOWN_CHANNEL = 10003
THREAD_EXISTS = 160004
NO_HISTORY = 160002
"""We may not read what was written, and so not answer it."""
ARCHIVED_AFTER: Literal[1440] = 1440
"""Minutes of silence after which a thread is put away; writing brings it back."""
TITLE = 80
_MARKS = re.compile(r"<[@#:a][^>]*>")


def number(text: str) -> int:
    if not text.isdecimal():
        raise SendRefused(f"{text!r} is no chat of Discord", hint="Chats of Discord are numbers.")
    return int(text)


async def in_place(bot: Bot, target: Target, call: Callable[[int], Awaitable[Any]]) -> Any:
    """`call` with the channel of the target."""
    if not target.thread_id:
        return await call(number(target.chat_id))
    thread = number(target.thread_id)
    try:
        return await call(thread)
    except discord.NotFound as error:
        if error.code != UNKNOWN_CHANNEL:
            raise
    await _open(bot, number(target.chat_id), thread)
    return await call(thread)


async def _open(bot: Bot, channel: int, message: int) -> None:
    """A thread for a message; it has the message's id."""
    first = await bot.rest.get_message(channel, message)
    try:
        await bot.rest.start_thread_with_message(
            channel, message, name=title(first["content"]), auto_archive_duration=ARCHIVED_AFTER
        )
    except discord.HTTPException as error:
        if error.code != THREAD_EXISTS:
            raise


def title(text: str) -> str:
    """Of a thread, from its first message."""
    words = " ".join(_MARKS.sub(" ", text).split()) or "Talk"
    return words if len(words) <= TITLE else f"{words[: TITLE - 1].rstrip()}…"
