"""Buttons and slash commands of Discord's own menu."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import discord
from discord.http import Route

from hermes.gateway.events import MessageEvent
from hermes.gateway.platforms.base import Receive
from hermes.gateway.platforms.discord import commands, reading
from hermes.gateway.platforms.discord.batches import Batches
from hermes.gateway.platforms.discord.bot import Bot
from hermes.gateway.platforms.discord.failures import TROUBLE
from hermes.gateway.platforms.kit.lanes import Lanes
from hermes.gateway.platforms.kit.mentions import GroupRules, is_for_us
from hermes.gateway.platforms.kit.offering import offer

logger = logging.getLogger(__name__)

EPHEMERAL = 64
ANSWER_LATER = {"type": 5, "data": {"flags": EPHEMERAL}}
NOTHING_CHANGES = {"type": 6}
NOT_HERE = {"type": 4, "data": {"flags": EPHEMERAL, "content": "I do not answer in this channel."}}


class Interactions:
    def __init__(
        self, bot: Bot, rules: GroupRules, lanes: Lanes, batches: Batches, receive: Receive
    ) -> None:
        self._bot, self._rules, self._lanes = bot, rules, lanes
        self._batches, self._receive = batches, receive

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
            await self._batches.flush(event.source.chat_id)
            await offer(self._receive, event, asyncio.sleep)
            if command:  # "is thinking" goes away, the answer is another message
                await self._forget_answer(interaction)

        self._lanes.put(event.source.chat_id, take)

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
