"""One connection to Discord."""

import asyncio
import logging
from typing import Any

import discord
from discord.http import Route

from hermes.gateway.platforms.base import AdapterContext, CredentialsRefused, NotConnected, Receive
from hermes.gateway.platforms.discord import commands
from hermes.gateway.platforms.discord.bot import Bot
from hermes.gateway.platforms.discord.failures import TOKEN_HINT, TROUBLE, of_connecting
from hermes.gateway.platforms.discord.ids import SCALE
from hermes.gateway.platforms.discord.intake import Intake
from hermes.gateway.platforms.discord.missed import patiently
from hermes.gateway.platforms.discord.options import Options
from hermes.gateway.platforms.kit.connection import Connection
from hermes.gateway.platforms.kit.seen import Seen

logger = logging.getLogger(__name__)

CONNECTING = 30.0
"""Seconds until a connection that does not come has failed."""
RESUMING = 3.0
"""Seconds that a broken connection gets to come back by itself."""


class Live(Connection):
    bot: Bot
    seen: Seen[int]
    intake: Intake

    def __init__(self, context: AdapterContext, receive: Receive, options: Options) -> None:
        super().__init__(context, receive)
        if not options.token:
            raise CredentialsRefused("there is no token for Discord", hint=TOKEN_HINT)
        self.identities, self._options = (options.token,), options

    async def open(self) -> None:
        self.seen = self.remember(SCALE)
        self.bot = Bot(self._options)
        self.intake = Intake(self.bot, self._options, self.seen, self.receive)
        self.bot.listener = self.intake
        self.flow(self._stay())
        # Before its task is cancelled, which may be closing it already.
        self.ends.push_async_callback(self.bot.close)
        self.ends.push_async_callback(self.intake.close)
        try:
            async with asyncio.timeout(CONNECTING):
                await self.until(self.bot.settled)
        except TimeoutError as error:
            raise NotConnected("Discord does not answer") from error
        self.offering = self.beside(self._offer_commands())

    async def ask(self) -> None:
        try:
            await self.bot.rest.request(Route("GET", "/users/@me"))
        except TROUBLE as error:
            if not isinstance(error, discord.RateLimited):  # then it is there, which is enough
                raise of_connecting(error) from error
        for _ in range(int(RESUMING / 0.1)):
            if self.bot.settled.is_set() and getattr(self.bot.ws, "open", False):
                return
            self.check()
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
        ours, policy = commands.described(self.context.commands), self._options.sync
        application, rest = self.bot.application_id, self.bot.rest
        if not ours or policy == "off" or application is None:
            return
        try:
            there = await patiently(lambda: rest.get_global_commands(application))
            new: Any = commands.replacement(there, ours, policy)
            if new is not None:
                await patiently(lambda: rest.bulk_upsert_global_commands(application, new))
        except TROUBLE as error:
            logger.warning("Discord's menu of commands is not up to date: %s", error)
