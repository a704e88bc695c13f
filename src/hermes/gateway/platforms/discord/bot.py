"""The library's client, speaking to where we want and telling us what we need."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import discord

from hermes.gateway.platforms.discord.http import Http
from hermes.gateway.platforms.discord.options import Options

logger = logging.getLogger(__name__)

T = TypeVar("T")

SERVERS_COME = 2.0
"""Seconds after the last server within which the next one comes, else it is down."""


ESSENTIAL = frozenset({"READY", "RESUMED"})
"""Without these there is no connection."""


class Listener(Protocol):
    def session_began(self) -> None:
        """What was written before may have been missed. A connection that is resumed goes on
        without loss and does not come here."""
        ...

    def heard(self, message: discord.Message) -> None: ...

    async def used(self, interaction: discord.Interaction) -> None: ...


class Bot(discord.Client):
    def __init__(self, options: Options) -> None:
        super().__init__(
            intents=discord.Intents(
                guilds=True, guild_messages=True, dm_messages=True, message_content=True
            ),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            guild_ready_timeout=SERVERS_COME,
        )
        self.rest = Http(asyncio.get_running_loop(), options.base_url, options.proxy)
        self.http = self._connection.http = self.rest
        self._identify_pause = options.identify_pause
        parsers = self._connection.parsers
        parsers |= {event: _careful(event, parsers[event]) for event in parsers.keys() - ESSENTIAL}
        self.listener: Listener | None = None
        self.settled = asyncio.Event()
        """The servers we are in are known, as far as they are up."""
        self._absent: set[int] = set()

    @property
    def me(self) -> int:
        return self.user.id if self.user else 0

    async def before_identify_hook(self, _shard_id: int | None, *, initial: bool = False) -> None:
        if not initial:
            await asyncio.sleep(self._identify_pause)

    async def close(self) -> None:
        waiting = self._connection._ready_task  # noqa: SLF001 - the library leaves it behind
        if waiting:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await super().close()

    async def on_connect(self) -> None:
        self._absent = {server.id for server in self.guilds if server.unavailable}
        self.settled.clear()
        if self.listener:
            self.listener.session_began()
        if not self._absent:
            self.settled.set()

    async def on_guild_available(self, server: discord.Guild) -> None:
        late = self.settled.is_set() and server.id in self._absent
        self._absent.discard(server.id)
        if late and self.listener:  # it was down until now
            self.listener.session_began()
        if not self._absent:
            self.settled.set()

    async def on_guild_unavailable(self, server: discord.Guild) -> None:
        self._absent.add(server.id)

    async def on_ready(self) -> None:
        self.settled.set()

    async def on_message(self, message: discord.Message) -> None:
        if self.listener:
            self.listener.heard(message)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if self.listener:
            await self.listener.used(interaction)

    def read(self, channel: Any, data: Any) -> discord.Message | None:
        """A message that was asked for; None when the library cannot read it."""
        create = self._connection.create_message
        return _careful("message", lambda given: create(channel=channel, data=given))(data)


def _careful(what: str, parse: Callable[[Any], T]) -> Callable[[Any], T | None]:
    """What has a shape that the library does not know is left out. It would end the connection, and
    again when it is asked for as missed."""

    def careful(data: Any) -> T | None:
        try:
            return parse(data)
        except Exception:  # whatever the library stumbles over
            logger.exception("Discord sent a %s that cannot be read", what)
            return None

    return careful
