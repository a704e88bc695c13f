"""Texts that one person sends in quick succession are one message: a paste longer than Discord
takes is sent in parts, and only its first one mentions us.

Nothing waits longer than it must: a command, a file, a message of somebody else or a press ends the
waiting. What waits is not done (`Seen`), so after a crash it comes again, each part under its own
name. Which parts were given as one is written down before they are.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import discord
import msgspec

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.discord import reading
from hermes.gateway.platforms.kit.lanes import Lanes

FULL = 1900
"""Characters from which a text looks like a part of a longer one."""


class Pace(msgspec.Struct, frozen=True):
    delay: float = 0.6
    """Seconds that a text waits for more of its writer; 0 joins nothing."""
    split_delay: float = 0.1
    """The same once the last part of a long text seems to be there: after a full one, one that is
    not full."""


class Batch(msgspec.Struct, eq=False):
    event: MessageEvent
    """Of the first message."""
    messages: list[discord.Message]
    due: float = 0.0
    timer: asyncio.TimerHandle | None = None


Give = Callable[[MessageEvent, list[discord.Message]], Awaitable[None]]
"""Gives messages to the gateway as one; the event is that of the first."""


class Batches:
    """At most one for each lane, and touched only by the work of that lane."""

    def __init__(self, lanes: Lanes, pace: Pace, give: Give) -> None:
        self._lanes, self._pace, self._give = lanes, pace, give
        self._batches: dict[str, Batch] = {}

    def close(self) -> None:
        """What waits is dropped; it is not done and comes again."""
        for batch in self._batches.values():
            if batch.timer:
                batch.timer.cancel()
        self._batches.clear()

    def begin(self, lane: str, event: MessageEvent, message: discord.Message) -> bool:
        """Whether a message waits for more."""
        if not self._pace.delay or event.source.is_bot or event.media or not _is_text(message):
            return False
        batch = self._batches[lane] = Batch(event, [message])
        self._wait(lane, batch, self._pace.delay)
        return True

    def join(self, lane: str, message: discord.Message, me: int) -> bool:
        """Whether a message was put to those that wait."""
        batch = self._batches.get(lane)
        if batch is None or not self._belongs(message, batch.messages[-1], me):
            return False
        ended = _is_full(batch.messages[-1]) and not _is_full(message)
        batch.messages.append(message)
        self._wait(lane, batch, self._pace.split_delay if ended else self._pace.delay)
        return True

    async def flush(self, lane: str) -> None:
        """Something else comes: what waits is given first."""
        batch = self._batches.pop(lane, None)
        if batch is None:
            return
        if batch.timer:
            batch.timer.cancel()
        await self._give(batch.event, batch.messages)

    def _belongs(self, message: discord.Message, last: discord.Message, me: int) -> bool:
        apart = (message.created_at - last.created_at).total_seconds()
        return (
            message.author.id == last.author.id
            and message.channel.id == last.channel.id
            and message.type is discord.MessageType.default
            and 0 <= apart <= self._pace.delay
            and _is_text(message)
            and not reading.mentions_others_only(message, me)
        )

    def _wait(self, lane: str, batch: Batch, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if batch.timer:
            batch.timer.cancel()
        batch.due = loop.time() + seconds
        work = partial(self._end, lane, batch)
        batch.timer = loop.call_at(batch.due, self._lanes.put, lane, work)

    async def _end(self, lane: str, batch: Batch) -> None:
        # Another part, or something else, may have come just before.
        over = asyncio.get_running_loop().time() >= batch.due
        if over and self._batches.get(lane) is batch:
            await self.flush(lane)


def joined(event: MessageEvent, messages: list[discord.Message], me: int) -> MessageEvent:
    """One event of several messages, under the name of the first."""
    text = "\n".join(reading.text_of(message, me) for message in messages)
    return msgspec.structs.replace(event, text=text)


def _is_text(message: discord.Message) -> bool:
    """Words and nothing else, and no command."""
    other = message.attachments or message.stickers or message.message_snapshots or message.poll
    return bool(message.content.strip()) and not message.content.startswith("/") and not other


def _is_full(message: discord.Message) -> bool:
    return len(message.content) >= FULL
