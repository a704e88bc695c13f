"""What comes from Discord, on its way to the gateway. A message counts as read only when it is
kept or is not for us."""

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import discord
import msgspec
from discord.http import Route

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import Receive
from hermes.gateway.platforms.discord import commands, reading
from hermes.gateway.platforms.discord.bot import Bot
from hermes.gateway.platforms.discord.failures import TROUBLE
from hermes.gateway.platforms.discord.missed import missed, patiently
from hermes.gateway.platforms.discord.options import Options
from hermes.gateway.platforms.discord.seen import Seen
from hermes.gateway.platforms.kit.lanes import Lanes
from hermes.gateway.platforms.kit.mentions import is_for_us, rules_from
from hermes.gateway.platforms.kit.offering import offer

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 30.0
MOST_SENT = 512
"""Messages of ours whose nonce is remembered."""
EPHEMERAL = 64
ANSWER_LATER = {"type": 5, "data": {"flags": EPHEMERAL}}
NOTHING_CHANGES = {"type": 6}
NOT_HERE = {"type": 4, "data": {"flags": EPHEMERAL, "content": "I do not answer in this channel."}}


class Intake:
    def __init__(self, bot: Bot, options: Options, seen: Seen, receive: Receive) -> None:
        self._bot, self._options, self._seen, self._receive = bot, options, seen, receive
        self._rules = rules_from(options.settings)
        self._lanes = Lanes("Discord")
        self._held: list[discord.Message] | None = None
        """What comes while we look for what was missed."""
        self._catching_up: asyncio.Task[None] | None = None
        self.sent: dict[str, int] = {}
        """Messages of ours that we know to be there, by nonce."""
        self.newest: dict[str, int] = {}
        """The newest message of private chats."""

    async def close(self) -> None:
        if self._catching_up:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)
        await self._lanes.close()

    def is_there(self, nonce: str, message_id: int) -> None:
        self.sent[nonce] = message_id
        while len(self.sent) > MOST_SENT:
            del self.sent[next(iter(self.sent))]

    # from the connection

    def session_began(self) -> None:
        self._seen.start(time.time())
        self._seen.freeze()
        if self._held is None:
            self._held = []
        if self._catching_up:
            self._catching_up.cancel()
        self._catching_up = asyncio.create_task(self._catch_up())

    def heard(self, message: discord.Message) -> None:
        if message.author.id == self._bot.me and message.nonce is not None:
            self.is_there(str(message.nonce), message.id)
        if self._held is not None:
            self._held.append(message)
        else:
            self._put([message])

    async def used(self, interaction: discord.Interaction) -> None:
        """A button or a slash command. Discord wants to hear of it within three seconds; what is
        to be answered comes as a message, by the outbox, like every other answer."""
        kind = interaction.type
        command = kind is discord.InteractionType.application_command
        if not command and kind is not discord.InteractionType.component:
            return
        event = self._use(interaction)
        if not is_for_us(event, self._rules):
            await self._acknowledge(interaction, NOT_HERE)
            return
        await self._acknowledge(interaction, ANSWER_LATER if command else NOTHING_CHANGES)

        async def take() -> None:
            await offer(self._receive, event, asyncio.sleep)
            if command:  # "is thinking" goes away, the answer is another message
                await self._forget_answer(interaction)

        self._lanes.put(event.source.chat_id, take)

    # messages

    def _put(self, messages: list[discord.Message]) -> None:
        fresh = {each.id: each for each in messages if self._seen.is_new(each.id)}
        self._seen.wait_for(fresh)
        for _, message in sorted(fresh.items()):
            if _is_private(message):
                self._in_private(message)
            self._lanes.put(_lane(message.channel), partial(self._take, message))

    async def _take(self, message: discord.Message) -> None:
        event = await self._insistently(message)
        if event is not None:
            await offer(self._receive, event, asyncio.sleep)
        self._seen.done(message.id)

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
        self.newest.pop(chat, None)
        self.newest[chat] = message.id
        while len(self.newest) > MOST_SENT:
            del self.newest[next(iter(self.newest))]
        if message.author.id != self._bot.me:
            self._seen.add_private(chat, message.author.display_name)

    async def _catch_up(self) -> None:
        """What was missed comes before what comes now."""
        pause = 1.0
        await self._bot.settled.wait()
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
                self._seen.thaw()
                return

    def _release(self, found: list[discord.Message]) -> None:
        held, self._held = self._held or [], None
        self._put([*found, *held])

    # buttons and slash commands

    def _use(self, interaction: discord.Interaction) -> MessageEvent:
        place = reading.place_of(interaction.channel, interaction.guild_id, self._bot.me)
        data: Mapping[str, Any] = dict(interaction.data or {})
        button = str(data.get("custom_id", ""))
        return MessageEvent(
            source=reading.source_of(place, interaction.user),
            message_id=str(interaction.id),
            text="" if button else commands.as_text(data),
            reply_to_id=str(interaction.message.id) if interaction.message else "",
            addressed=True,
            sent_at=interaction.created_at.timestamp(),
            button=button,
        )

    async def _acknowledge(self, interaction: discord.Interaction, answer: Any) -> None:
        route = Route(
            "POST",
            "/interactions/{id}/{webhook_token}/callback",
            id=interaction.id,
            webhook_token=interaction.token,
        )
        try:
            await self._bot.rest.request(route, json=answer)
        except (
            TROUBLE
        ) as error:  # Discord shows that it failed; what was asked is done all the same
            logger.warning("Discord did not hear that a command was taken: %s", error)

    async def _forget_answer(self, interaction: discord.Interaction) -> None:
        route = Route(
            "DELETE",
            "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
            webhook_id=interaction.application_id,
            webhook_token=interaction.token,
        )
        try:
            await self._bot.rest.request(route)
        except TROUBLE as error:
            logger.debug("the waiting sign of a command stays: %s", error)


def _server(message: discord.Message) -> int | None:
    """Also of a message whose channel is not known (yet)."""
    return message.guild.id if message.guild else getattr(message.channel, "guild_id", None)


def _lane(channel: object) -> str:
    """A channel and its threads keep their order together."""
    return str(getattr(channel, "parent_id", None) or getattr(channel, "id", ""))


def _is_private(message: discord.Message) -> bool:
    return _server(message) is None
