"""Discord. Messages come by its gateway, all else goes by HTTP."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import discord
from discord.http import MultipartParameters, Route

from hermes.gateway.events import Media, Outgoing, Target
from hermes.gateway.platforms.base import (
    AdapterContext,
    AdapterError,
    BaseAdapter,
    ChatName,
    CredentialsRefused,
    NotConnected,
    Receive,
    Unknowable,
)
from hermes.gateway.platforms.discord import commands, sending
from hermes.gateway.platforms.discord.bot import Bot
from hermes.gateway.platforms.discord.directory import names_of
from hermes.gateway.platforms.discord.failures import TOKEN_HINT, TROUBLE, of_connecting, told
from hermes.gateway.platforms.discord.ids import SCALE, id_at
from hermes.gateway.platforms.discord.intake import Intake
from hermes.gateway.platforms.discord.missed import MOST, history, patiently
from hermes.gateway.platforms.discord.options import options_of
from hermes.gateway.platforms.discord.threads import NO_HISTORY, in_place, number
from hermes.gateway.platforms.kit.media import MediaCache
from hermes.gateway.platforms.kit.seen import OVERLAP, Seen
from hermes.gateway.platforms.kit.token_lock import (
    ScopedLock,
    acquire_scoped_lock,
    release_scoped_lock,
)
from hermes.store.mail import OutboxRow

logger = logging.getLogger(__name__)

CONNECTING = 30.0
"""Seconds until a connection that does not come has failed."""
RESUMING = 3.0
"""Seconds that a broken connection gets to come back by itself."""
CHUNK = 65_536


class DiscordAdapter(BaseAdapter):
    def __init__(self, context: AdapterContext) -> None:
        super().__init__(context)
        self._options = options_of(context)
        self._pings = sending.pings(self._options.settings.allow_mentions)
        self._media = MediaCache(context.cache)
        self._lock: ScopedLock | None = None
        self._bot: Bot | None = None
        self._intake: Intake | None = None
        self._seen: Seen[int] | None = None
        self._connection: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # the connection

    async def connect(self, receive: Receive) -> None:
        if not self._options.token:
            raise CredentialsRefused("there is no token for Discord", hint=TOKEN_HINT)
        context = self.context
        self._lock = acquire_scoped_lock(
            self.manifest.name, self._options.token, context.locks, holder=str(context.state)
        )
        try:
            async with asyncio.timeout(CONNECTING):
                await self._open(receive)
        except TimeoutError as error:
            await self.disconnect()
            raise NotConnected("Discord does not answer") from error
        except TROUBLE as error:
            await self.disconnect()
            raise of_connecting(error) from error
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        if self._intake:
            await self._intake.close()
        if self._bot:  # before its task is cancelled, which may be closing it already
            await self._bot.close()
        tasks = [task for task in (*self._tasks, self._connection) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._bot = self._intake = self._connection = None
        self._tasks = []
        seen, self._seen = self._seen, None
        try:
            if seen:
                seen.write()
        finally:
            lock, self._lock = self._lock, None
            release_scoped_lock(lock)

    async def probe(self) -> None:
        bot = self._connected()
        try:
            await bot.rest.request(Route("GET", "/users/@me"))
        except TROUBLE as error:
            if not isinstance(error, discord.RateLimited):  # then it is there, which is enough
                raise of_connecting(error) from error
        for _ in range(int(RESUMING / 0.1)):
            if bot.settled.is_set() and getattr(bot.ws, "open", False):
                return
            self._connected()
            await asyncio.sleep(0.1)
        raise NotConnected("the connection to Discord is broken")

    async def _open(self, receive: Receive) -> None:
        bot = self._bot = Bot(self._options)
        seen = self._seen = Seen(self.context.state / "seen.json", self.manifest.label, SCALE)
        self._intake = bot.listener = Intake(bot, self._options, seen, receive)
        await bot.login(self._options.token)
        await bot.rest.find_gateway()
        self._connection = asyncio.create_task(bot.connect())
        settled = asyncio.create_task(bot.settled.wait())
        try:
            await asyncio.wait([self._connection, settled], return_when=asyncio.FIRST_COMPLETED)
        finally:
            settled.cancel()
        self._connected()
        self._tasks = [
            asyncio.create_task(seen.keep()),
            asyncio.create_task(self._offer_commands(bot)),
        ]

    def _connected(self) -> Bot:
        """Raises the reason when there is no connection and none will come."""
        if self._bot is None or self._connection is None:
            raise NotConnected("Discord is not connected")
        if self._connection.done():
            error = None if self._connection.cancelled() else self._connection.exception()
            raise of_connecting(error or ConnectionError()) from error
        return self._bot

    async def _offer_commands(self, bot: Bot) -> None:
        ours, policy = commands.described(self.context.commands), self._options.sync
        application = bot.application_id
        if not ours or policy == "off" or application is None:
            return
        try:
            there = await patiently(lambda: bot.rest.get_global_commands(application))
            new = commands.replacement(there, ours, policy)
            if new is not None:
                payload: Any = new
                await patiently(lambda: bot.rest.bulk_upsert_global_commands(application, payload))
        except TROUBLE as error:
            logger.warning("Discord's menu of commands is not up to date: %s", error)

    # messages of ours

    async def send(self, target: Target, message: Outgoing, key: str) -> str:
        bot = self._connected()
        wanted = self._options.quotes and message.reply_to.isdecimal()
        # the first message of a thread cannot be answered in it, and need not be
        reply_to = message.reply_to if wanted and message.reply_to != target.thread_id else ""
        limit = self.manifest.capabilities.max_upload_bytes
        with (
            told(),
            sending.parameters(message, key, self._pings, reply_to=reply_to, limit=limit) as params,
        ):
            if self._is_forum(target):
                post = await bot.rest.start_thread_in_forum(
                    number(target.chat_id), params=sending.as_post(params, message.text)
                )
                return str(post["id"])
            shown = await self._show(bot, target, params)
        if self._intake:
            self._intake.is_there(sending.nonce_of(key), int(shown["id"]))
        if self._seen and target.thread_id:
            self._seen.add_thread(target.thread_id)
        return str(shown["id"])

    async def _show(self, bot: Bot, target: Target, params: MultipartParameters) -> Any:
        try:
            return await in_place(
                bot, target, lambda channel: bot.rest.send_message(channel, params=params)
            )
        except discord.HTTPException as error:
            if error.code != NO_HISTORY:
                raise
        alone = sending.without_quote(params)
        return await in_place(
            bot, target, lambda channel: bot.rest.send_message(channel, params=alone)
        )

    async def edit(self, target: Target, message_id: str, message: Outgoing) -> None:
        bot = self._connected()
        channel = message_id if self._is_forum(target) else target.thread_id or target.chat_id
        with told():
            await bot.rest.edit_message(
                number(channel), number(message_id), params=sending.edited(message, self._pings)
            )

    def newest(self, target: Target) -> str:
        """The newest message that we know of where a message is to go; "" when there is none."""
        if self._bot is None or self._intake is None:
            return ""
        place = target.thread_id or target.chat_id
        channel = self._bot.get_channel(int(place)) if place.isdecimal() else None
        known = self._intake.newest.get(place) or getattr(channel, "last_message_id", None)
        return str(known or "")

    async def find_sent(self, row: OutboxRow, target: Target, message: Outgoing) -> str | None:
        """Sending it again would show only one, but for a few minutes only; so it is looked for."""
        bot, nonce = self._connected(), sending.nonce_of(row.key)
        sent = self._intake.sent if self._intake else {}
        if nonce in sent:
            return str(sent[nonce])
        if self._is_forum(target):
            raise Unknowable("Discord does not say which posts of a forum were sent")
        since = int(row.after_id) if row.after_id.isdecimal() else id_at(row.created_at - OVERLAP)
        others, looked_at = frozenset(sent.values()), 0
        channel = bot.get_partial_messageable(number(target.thread_id or target.chat_id))
        with told():
            try:
                for there in await patiently(lambda: history(bot, channel, since)):
                    looked_at += 1
                    ours = there.author.id == bot.me and there.id not in others
                    if ours and sending.is_same(there, message, nonce):
                        return str(there.id)
            except (discord.Forbidden, discord.NotFound):
                return None  # nobody sees it there, and sending will say why
        if looked_at >= MOST:
            raise Unknowable("too much was written on Discord since then")
        return None

    async def typing(self, target: Target) -> None:
        bot = self._connected()
        with told():
            await in_place(bot, target, bot.rest.send_typing)

    async def react(self, target: Target, message_id: str, emoji: str, *, on: bool = True) -> None:
        bot = self._connected()
        if not self._options.settings.reactions:
            return
        call: Callable[[Any, Any, str], Awaitable[Any]]
        call = bot.rest.add_reaction if on else bot.rest.remove_own_reaction
        places = [target.thread_id or target.chat_id]
        if message_id == target.thread_id:  # the first message of a thread is beside it
            places.insert(0, target.chat_id)
        with told():
            for place in places:
                try:
                    await call(number(place), number(message_id), emoji)
                except discord.NotFound:
                    continue  # what asked us by a command is no message
                return

    # what the platform knows

    async def fetch(self, media: Media, limit: int) -> Media:
        bot = self._connected()
        try:
            fetched = await self._download(bot, media.ref, media, limit)
            if fetched is None:
                fetched = await self._download(bot, await _fresh(bot, media.ref), media, limit)
        except TROUBLE as error:
            raise AdapterError(f"the file did not come: {type(error).__name__}") from error
        if fetched is None:
            raise AdapterError("Discord does not have the file any more")
        return fetched

    async def chats(self) -> Sequence[ChatName]:
        bot = self._connected()
        return names_of(bot, self._seen.private if self._seen else {})

    async def _download(self, bot: Bot, url: str, media: Media, limit: int) -> Media | None:
        """None when it is not there under this address."""
        async with await bot.rest.download(url) as response:
            if response.status in (403, 404):
                return None
            if response.status != 200:
                raise AdapterError(f"Discord answered {response.status} for the file")
            return await self._media.save(response.content.iter_chunked(CHUNK), media, limit)

    def _is_forum(self, target: Target) -> bool:
        if target.thread_id or self._bot is None or not target.chat_id.isdecimal():
            return False
        return isinstance(self._bot.get_channel(int(target.chat_id)), discord.ForumChannel)


async def _fresh(bot: Bot, url: str) -> str:
    """Addresses of files are good for a day; then there is a new one."""
    route = Route("POST", "/attachments/refresh-urls")
    answer = await bot.rest.request(route, json={"attachment_urls": [url]})
    return str(answer["refreshed_urls"][0]["refreshed"])
