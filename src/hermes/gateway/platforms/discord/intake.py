"""What comes from Discord, on its way to the gateway. A message counts as read only when it is
kept or is not for us."""

import asyncio
import logging
import time
from functools import partial

import discord
import msgspec

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import Receive
from hermes.gateway.platforms.discord import reading
from hermes.gateway.platforms.discord.batches import Batches, joined
from hermes.gateway.platforms.discord.bot import Bot
from hermes.gateway.platforms.discord.failures import TROUBLE
from hermes.gateway.platforms.discord.interactions import Interactions
from hermes.gateway.platforms.discord.missed import missed, patiently
from hermes.gateway.platforms.discord.options import Options
from hermes.gateway.platforms.kit.keeping import remember
from hermes.gateway.platforms.kit.lanes import Lanes
from hermes.gateway.platforms.kit.mentions import is_for_us, rules_from
from hermes.gateway.platforms.kit.offering import offer
from hermes.gateway.platforms.kit.seen import Seen
from hermes.gateway.platforms.kit.tasks import ended

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0
MOST_SENT = 512
"""Messages of ours whose nonce is remembered."""


class Intake:
    def __init__(self, bot: Bot, options: Options, seen: Seen[int], receive: Receive) -> None:
        self._bot, self._options, self._seen, self._receive = bot, options, seen, receive
        self._rules = rules_from(options.settings)
        self._lanes = Lanes("Discord")
        self._batches = Batches(self._lanes, options.pace, self._give)
        self._interactions = Interactions(bot, self._rules, self._lanes, self._batches, receive)
        self._held: list[discord.Message] | None = None
        """What comes while we look for what was missed."""
        self._catching_up: asyncio.Task[None] | None = None
        self.sent: dict[str, int] = {}
        """Messages of ours that we know to be there, by nonce."""
        self.newest: dict[str, int] = {}
        """The newest message of private chats."""

    async def close(self) -> None:
        await ended(self._catching_up)
        self._batches.close()
        await self._lanes.close()

    def is_there(self, nonce: str, message_id: int) -> None:
        remember(self.sent, nonce, message_id, MOST_SENT)

    # from the connection

    def session_began(self) -> None:
        away = self._seen.begin(time.time())
        if self._held is None:
            self._held = []
        if self._catching_up:
            self._catching_up.cancel()
        self._catching_up = asyncio.create_task(self._catch_up(away=away))

    def heard(self, message: discord.Message) -> None:
        if message.author.id == self._bot.me and message.nonce is not None:
            self.is_there(str(message.nonce), message.id)
        if self._held is not None:
            self._held.append(message)
        else:
            self._put([message], live=True)

    async def used(self, interaction: discord.Interaction) -> None:
        await self._interactions.used(interaction)

    # messages

    def _put(self, messages: list[discord.Message], *, live: bool = False) -> None:
        """`live`: they come for the first time. Others may have been given to the gateway by
        somebody who was killed then, so they must come as they came: single, or joined as noted."""
        fresh = {each.id: each for each in messages if not self._seen.is_known(each.id)}
        for number, message in sorted(fresh.items()):
            if self._seen.is_known(number):
                continue  # it came with another one
            parts = [fresh[each] for each in self._seen.joined_with(number) if each in fresh]
            for part in parts or [message]:
                self._seen.wait_for(part.id)
                if _is_private(part):
                    self._in_private(part)
            lane = _lane(message.channel)
            work = (
                partial(self._again, lane, parts)
                if parts
                else partial(self._take, lane, message, live=live)
            )
            self._lanes.put(lane, work)

    async def _take(self, lane: str, message: discord.Message, *, live: bool) -> None:
        if live and self._batches.join(lane, message, self._bot.me):
            return
        await self._batches.flush(lane)
        event = await self._insistently(message)
        if event is None:
            self._seen.done(message.id)
        elif not live or not self._batches.begin(lane, event, message):
            await self._offer(event, [message.id])

    async def _again(self, lane: str, messages: list[discord.Message]) -> None:
        """Messages that were given as one before."""
        await self._batches.flush(lane)
        event = await self._insistently(messages[0])
        numbers = [message.id for message in messages]
        if event is None:
            for number in numbers:
                self._seen.done(number)
            return
        first = str(self._seen.joined_with(numbers[0])[0])
        event = msgspec.structs.replace(event, message_id=first)
        await self._offer(joined(event, messages, self._bot.me), numbers)

    async def _give(self, event: MessageEvent, messages: list[discord.Message]) -> None:
        """What waited for each other, as one message."""
        numbers = [message.id for message in messages]
        if len(messages) > 1:
            try:
                await self._seen.join(numbers)
            except OSError as error:
                logger.error("texts on Discord are not joined: %s", error.strerror)
                for message in messages:
                    single = msgspec.structs.replace(event, message_id=str(message.id))
                    await self._offer(joined(single, [message], self._bot.me), [message.id])
                return
            event = joined(event, messages, self._bot.me)
        await self._offer(event, numbers)

    async def _offer(self, event: MessageEvent, numbers: list[int]) -> None:
        await offer(self._receive, event, asyncio.sleep)
        for number in numbers:
            self._seen.done(number)

    async def _insistently(self, message: discord.Message) -> MessageEvent | None:
        pause = 0.2
        while True:
            try:
                return await self._event(message)
            except TROUBLE as error:
                logger.warning("Discord does not say where a message is from: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _event(self, message: discord.Message) -> MessageEvent | None:
        """None when it is not for us."""
        if not self._is_heard(message):
            return None
        server = _server(message)
        channel = await self._channel(message, server)
        if channel is None:
            return None
        place = reading.place_of(channel, server, self._bot.me)
        in_talk = place.thread_is_ours or self._seen.talks_in(place.thread_id)
        writer = await self._with_roles(message)
        event = reading.event_of(message, place, self._bot.me, writer=writer, in_talk=in_talk)
        says = event.text or event.media or event.reply_to_text
        if not says or not is_for_us(event, self._rules):
            return None
        if self._opens_thread(message, place):  # a thread has the id of its first message
            source = msgspec.structs.replace(event.source, thread_id=event.message_id)
            event = msgspec.structs.replace(event, source=source)
        return event

    def _is_heard(self, message: discord.Message) -> bool:
        me, options = self._bot.me, self._options
        if message.author.id == me or message.webhook_id is not None:
            return False
        if message.type not in reading.SPOKEN:
            return False
        if message.author.bot and options.bots != "all":
            return options.bots == "mentions" and reading.mentions_us(message, me)
        if _is_private(message) or not options.ignore_others:
            return True
        return not reading.mentions_others_only(message, me)

    def _opens_thread(self, message: discord.Message, place: reading.Place) -> bool:
        settings, me = self._options.settings, self._bot.me
        if not settings.auto_thread or not place.can_open_threads:
            return False
        if place.chat_id in settings.no_thread_channels:
            return False
        return reading.mentions_us(message, me) and not reading.answers_us(message, me)

    async def _channel(self, message: discord.Message, server: int | None) -> object | None:
        """The channel with its name and what it belongs to; None when we may not see it."""
        if server is None:
            return message.channel
        known = self._bot.get_channel(message.channel.id)
        if known is not None:
            return known
        try:
            return await patiently(lambda: self._bot.fetch_channel(message.channel.id))
        except (discord.Forbidden, discord.NotFound):
            return None

    async def _with_roles(self, message: discord.Message) -> discord.abc.User:
        """Who wrote it; a message that was missed comes without the roles of its writer."""
        writer, server = message.author, message.guild
        if isinstance(writer, discord.Member) or not server or not self._options.wants_roles:
            return writer
        try:
            return await patiently(lambda: server.fetch_member(writer.id))
        except discord.NotFound:
            return writer

    def _in_private(self, message: discord.Message) -> None:
        chat = str(message.channel.id)
        remember(self.newest, chat, message.id, MOST_SENT)
        if message.author.id != self._bot.me:
            self._seen.add_private(chat, message.author.display_name)

    async def _catch_up(self, *, away: bool) -> None:
        """What was missed while we were `away` comes before what comes now."""
        pause = 1.0
        await self._bot.settled.wait()
        if not away:
            self._release([])
            return
        since = self._seen.missed_since(time.time())
        while True:
            try:
                self._release(await missed(self._bot, since, list(self._seen.private)))
            except TROUBLE as error:
                logger.warning("what was missed on Discord cannot be asked for yet: %s", error)
                self._release([])  # people who write now need not wait for it
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self._seen.nothing_missed()
                return

    def _release(self, found: list[discord.Message]) -> None:
        held, self._held = self._held or [], None
        self._put(found)
        self._put(held, live=True)


def _server(message: discord.Message) -> int | None:
    """Also of a message whose channel is not known (yet)."""
    return message.guild.id if message.guild else getattr(message.channel, "guild_id", None)


def _lane(channel: object) -> str:
    """A channel and its threads keep their order together."""
    return str(getattr(channel, "parent_id", None) or getattr(channel, "id", ""))


def _is_private(message: discord.Message) -> bool:
    return _server(message) is None
