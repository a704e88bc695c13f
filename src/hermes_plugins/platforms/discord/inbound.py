"""Inbound messages: parsing, joining split texts, interactions, and catching up on missed messages.

A message counts as read only when the gateway has stored it or it is not for us.
"""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import discord
import msgspec
from discord.http import Route

from hermes.sdk.platforms import (
    CatchUpQueue,
    ChatQueues,
    ChatType,
    Media,
    MessageEvent,
    ReadPosition,
    Receive,
    SessionSource,
    deliver_until_accepted,
    group_rules,
    is_for_us,
    media_kind,
    remember,
)
from hermes_plugins.platforms.discord import client
from hermes_plugins.platforms.discord.client import (
    CALL_ERRORS,
    BatchTimes,
    DiscordClient,
    DiscordOptions,
)

logger = logging.getLogger(__name__)
PLATFORM = "discord"
USER_MESSAGE_TYPES = frozenset({discord.MessageType.default, discord.MessageType.reply})
"""Messages written by users; all other types are notices of Discord, such as a pin."""
THREAD_PARENTS = frozenset({discord.ChannelType.text, discord.ChannelType.news})
"""Channels in which a thread can be opened for a message."""
MAX_QUOTE = 500  #: Characters of a quoted message.
_MENTION = re.compile(r"<(@!?|@&|#)(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
FULL_MESSAGE = 1900  #: Characters from which a text looks like a part of a longer one.
DeliverBatch = Callable[[MessageEvent, list[discord.Message]], Awaitable[None]]
"""Delivers messages to the gateway as one, with the event of the first."""
EPHEMERAL = 64
DEFERRED_RESPONSE = {"type": 5, "data": {"flags": EPHEMERAL}}
DEFERRED_UPDATE = {"type": 6}
NOT_IN_THIS_CHANNEL = {
    "type": 4,
    "data": {"flags": EPHEMERAL, "content": "I do not answer in this channel."},
}
T = TypeVar("T")
MAX_PARALLEL_CHANNELS = 8  #: Channels requested in parallel.
MAX_CHANNEL_MESSAGES = 500  #: Messages read of one channel.
PAGE_SIZE = 100
MAX_ATTEMPTS = 5
DatedChannel = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
ReadableChannel = DatedChannel | discord.PartialMessageable
MAX_RETRY_SECONDS = 30.0
MAX_SENT = 512  #: Number of our messages whose nonce is remembered.


class DiscordPlace(msgspec.Struct, frozen=True):
    chat_id: str
    chat_type: ChatType
    thread_id: str = ""
    name: str = ""
    can_open_threads: bool = False  #: A thread can be opened here for a message.
    thread_is_ours: bool = False  #: The thread was opened by us.


def locate(channel: object, guild_id: int | None, me: int) -> DiscordPlace:
    """Return the place of a channel. Threads and forum posts belong to their parent channel."""
    number = str(getattr(channel, "id", ""))
    name = str(getattr(channel, "name", None) or "")
    if guild_id is None:
        return DiscordPlace(number, "dm", name=name)
    if isinstance(channel, discord.Thread):
        parent = channel.parent.name if channel.parent else ""
        label = f"#{parent} / {name}" if parent else name
        ours = channel.owner_id == me
        return DiscordPlace(str(channel.parent_id), "group", number, label, thread_is_ours=ours)
    can_open = _can_open_threads(channel, me)
    return DiscordPlace(number, "group", name=f"#{name}", can_open_threads=can_open)


def make_source(place: DiscordPlace, user: discord.abc.User) -> SessionSource:
    roles = user.roles if isinstance(user, discord.Member) else ()
    return SessionSource(
        platform=PLATFORM,
        chat_id=place.chat_id,
        chat_type=place.chat_type,
        user_id=str(user.id),
        user_name=user.display_name,
        chat_name=place.name or user.display_name,
        thread_id=place.thread_id,
        is_bot=user.bot,
        roles=tuple(str(role.id) for role in roles if not role.is_default()),
    )


def mentions_us(message: discord.Message, me: int) -> bool:
    """True for a mention of the bot or of its managed role, which looks the same to users."""
    if me in message.raw_mentions:
        return True
    return any(role.tags is not None and role.tags.bot_id == me for role in message.role_mentions)


def mentions_others_only(message: discord.Message, me: int) -> bool:
    """True for mentions of others in the text. A reply's automatic ping is not a mention."""
    others = any(user != me for user in message.raw_mentions)
    return others and not replies_to_us(message, me) and not mentions_us(message, me)


def replies_to_us(message: discord.Message, me: int) -> bool:
    answered = _replied_message(message)
    return answered is not None and answered.author.id == me


def parse_message(
    message: discord.Message,
    place: DiscordPlace,
    me: int,
    *,
    writer: discord.abc.User,
    in_talk: bool = False,
) -> MessageEvent:
    """Return the event of a message. `writer` is its author, with roles where known; `in_talk`
    means that we take part in its thread, so no mention is needed."""
    answered = _replied_message(message)
    reference = message.reference
    replies = message.type is discord.MessageType.reply and reference is not None
    return MessageEvent(
        source=make_source(place, writer),
        message_id=str(message.id),
        text=message_text(message, me),
        media=tuple(_media(message)),
        reply_to_id=str(reference.message_id or "") if replies and reference else "",
        reply_to_text=answered.content[:MAX_QUOTE] if answered is not None else "",
        addressed=place.chat_type == "dm"
        or in_talk
        or mentions_us(message, me)
        or replies_to_us(message, me),
        sent_at=message.created_at.timestamp(),
    )


def message_text(message: discord.Message, me: int) -> str:
    return "\n".join(filter(None, _text_parts(message, me)))


def embed_text(embed: discord.Embed) -> str:
    parts = [embed.title, embed.url, embed.description]
    parts += [f"{field.name}: {field.value}" for field in embed.fields]
    parts.append(embed.footer.text)
    return "\n".join(part for part in parts if part)


class _TextBatch(msgspec.Struct, eq=False):
    event: MessageEvent  #: The event of the first message.
    messages: list[discord.Message]
    due: float = 0.0
    timer: asyncio.TimerHandle | None = None


class TextBatcher:
    """Joins texts that one user sends in quick succession: a paste longer than Discord's limit is
    sent in parts, and only the first one mentions us.

    Nothing waits longer than necessary: a command, a file, a button or a message of someone else
    ends the wait. Waiting messages are not marked as done (`ReadPosition`), so after a crash they
    are read again under their own ids. The joined ids are recorded before delivery. There is at
    most one batch per queue, used only by the work of that queue.
    """

    def __init__(self, queues: ChatQueues, times: BatchTimes, deliver: DeliverBatch) -> None:
        self._queues, self._times, self._deliver_batch = queues, times, deliver
        self._batches: dict[str, _TextBatch] = {}

    def close(self) -> None:
        """Drop what waits; it is not marked as done and will be read again."""
        for batch in self._batches.values():
            if batch.timer:
                batch.timer.cancel()
        self._batches.clear()

    def start(self, queue: str, event: MessageEvent, message: discord.Message) -> bool:
        """Start a batch with the message; return False if it must not wait."""
        if not self._times.delay or event.source.is_bot or event.media or not _is_text(message):
            return False
        batch = self._batches[queue] = _TextBatch(event, [message])
        self._restart_timer(queue, batch, self._times.delay)
        return True

    def append(self, queue: str, message: discord.Message, me: int) -> bool:
        """Add the message to the waiting batch; return False if it does not belong to it."""
        batch = self._batches.get(queue)
        if batch is None or not self._continues(message, batch.messages[-1], me):
            return False
        ended = len(batch.messages[-1].content) >= FULL_MESSAGE > len(message.content)
        batch.messages.append(message)
        self._restart_timer(queue, batch, self._times.split_delay if ended else self._times.delay)
        return True

    async def flush(self, queue: str) -> None:
        """Deliver the waiting batch, before something else."""
        batch = self._batches.pop(queue, None)
        if batch is None:
            return
        if batch.timer:
            batch.timer.cancel()
        await self._deliver_batch(batch.event, batch.messages)

    def _continues(self, message: discord.Message, last: discord.Message, me: int) -> bool:
        apart = (message.created_at - last.created_at).total_seconds()
        return (
            message.author.id == last.author.id
            and message.channel.id == last.channel.id
            and message.type is discord.MessageType.default
            and 0 <= apart <= self._times.delay
            and _is_text(message)
            and not mentions_others_only(message, me)
        )

    def _restart_timer(self, queue: str, batch: _TextBatch, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if batch.timer:
            batch.timer.cancel()
        batch.due = loop.time() + seconds
        work = partial(self._flush_if_due, queue, batch)
        batch.timer = loop.call_at(batch.due, self._queues.put, queue, work)

    async def _flush_if_due(self, queue: str, batch: _TextBatch) -> None:
        # Another part or another message may have arrived just before.
        over = asyncio.get_running_loop().time() >= batch.due
        if over and self._batches.get(queue) is batch:
            await self.flush(queue)


def join_messages(event: MessageEvent, messages: list[discord.Message], me: int) -> MessageEvent:
    """Return one event for several messages, under the id of the first."""
    text = "\n".join(message_text(message, me) for message in messages)
    return msgspec.structs.replace(event, text=text)


async def fetch_missed(
    bot: DiscordClient, since: int, private: Iterable[str]
) -> list[discord.Message]:
    """Return all messages after `since`, oldest first, of the guild channels and threads with new
    ones and of the given private chats. Raises any of `CALL_ERRORS`."""
    dated: list[DatedChannel] = []
    for server in bot.guilds:
        dated += [*server.text_channels, *server.threads]
        dated += [*server.voice_channels, *server.stage_channels]  # they have a text chat
    channels: list[ReadableChannel] = [
        channel for channel in dated if (channel.last_message_id or 0) > since
    ]
    channels += [
        bot.get_partial_messageable(int(chat), type=discord.ChannelType.private) for chat in private
    ]
    gate = asyncio.Semaphore(MAX_PARALLEL_CHANNELS)

    async def of(channel: ReadableChannel) -> list[discord.Message]:
        async with gate:
            return await retry_rate_limited(lambda: _fetch_channel(bot, channel, since))

    found = await asyncio.gather(*map(of, channels))
    return sorted((message for some in found for message in some), key=lambda each: each.id)


async def fetch_history(
    bot: DiscordClient, channel: ReadableChannel, since: int
) -> list[discord.Message]:
    """Return messages after `since`, oldest first; unreadable ones are omitted."""
    found: list[dict[str, Any]] = []
    while len(found) < MAX_CHANNEL_MESSAGES:
        newest_first: Any = await bot.rest.logs_from(channel.id, PAGE_SIZE, after=since)
        found += newest_first[::-1]
        if len(newest_first) < PAGE_SIZE:
            break
        since = int(newest_first[0]["id"])
    read = [bot.read(channel, data) for data in found[:MAX_CHANNEL_MESSAGES]]
    return [message for message in read if message is not None]


async def retry_rate_limited(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call, waiting as long as Discord requests."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return await call()
        except discord.RateLimited as error:
            await asyncio.sleep(error.retry_after)
    return await call()


class DiscordInbound:
    """Handles the events of the connection and delivers messages in the order of each channel."""

    def __init__(
        self, bot: DiscordClient, options: DiscordOptions, seen: ReadPosition[int], receive: Receive
    ) -> None:
        self._bot, self._options, self._position, self._receive = bot, options, seen, receive
        self._rules = group_rules(options.settings)
        self._queues = ChatQueues("Discord")
        self._batches = TextBatcher(self._queues, options.batch_times, self._deliver_batch)
        self._away = False  #: Messages may have been missed before this session.
        self._catch_up = CatchUpQueue(seen, self._fetch_missed, self._release, CALL_ERRORS)
        self.sent: dict[str, int] = {}  #: Our delivered messages, by nonce.
        self.newest: dict[str, int] = {}  #: The newest message of each private chat.

    async def close(self) -> None:
        await self._catch_up.close()
        self._batches.close()
        await self._queues.close()

    def record_sent(self, nonce: str, message_id: int) -> None:
        remember(self.sent, nonce, message_id, MAX_SENT)

    def on_session_start(self) -> None:
        self._away = self._position.start(time.time())
        self._catch_up.start()

    def on_message_received(self, message: discord.Message) -> None:
        if message.author.id == self._bot.me and message.nonce is not None:
            self.record_sent(str(message.nonce), message.id)
        if not self._catch_up.hold(message):
            self._enqueue([message], live=True)

    async def on_interaction_used(self, interaction: discord.Interaction) -> None:
        """Acknowledge a button or command within the three seconds that Discord allows, and deliver
        it. The answer is a message sent through the outbox, like every other answer."""
        kind = interaction.type
        command = kind is discord.InteractionType.application_command
        if not command and kind is not discord.InteractionType.component:
            return
        event = self._parse_interaction(interaction)
        if not is_for_us(event, self._rules):
            await self._acknowledge(interaction, NOT_IN_THIS_CHANNEL)
            return
        await self._acknowledge(interaction, DEFERRED_RESPONSE if command else DEFERRED_UPDATE)

        async def take() -> None:
            await self._batches.flush(event.source.chat_id)
            await deliver_until_accepted(self._receive, event, asyncio.sleep)
            if command:  # removes "is thinking"; the answer is another message
                await self._delete_deferred(interaction)

        self._queues.put(event.source.chat_id, take)

    def _parse_interaction(self, interaction: discord.Interaction) -> MessageEvent:
        place = locate(interaction.channel, interaction.guild_id, self._bot.me)
        data: Mapping[str, Any] = dict(interaction.data or {})
        button = str(data.get("custom_id", ""))
        return MessageEvent(
            source=make_source(place, interaction.user),
            message_id=str(interaction.id),
            text="" if button else client.command_text(data),
            reply_to_id=str(interaction.message.id) if interaction.message else "",
            addressed=True,
            sent_at=interaction.created_at.timestamp(),
            button=button,
        )

    async def _acknowledge(self, interaction: discord.Interaction, answer: Any) -> None:
        where: dict[str, Any] = {"id": interaction.id, "webhook_token": interaction.token}
        route = Route("POST", "/interactions/{id}/{webhook_token}/callback", **where)
        try:
            await self._bot.rest.request(route, json=answer)
        except CALL_ERRORS as error:
            # Discord shows a failure, but the command is executed all the same.
            logger.warning("Discord did not accept the acknowledgement of a command: %s", error)

    async def _delete_deferred(self, interaction: discord.Interaction) -> None:
        where: Any = {"webhook_id": interaction.application_id, "webhook_token": interaction.token}
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"
        try:
            await self._bot.rest.request(Route("DELETE", path, **where))
        except CALL_ERRORS as error:
            logger.debug("the deferred response of a command was not removed: %s", error)

    def _enqueue(self, messages: Sequence[discord.Message], *, live: bool = False) -> None:
        """Queue messages. `live`: they arrive for the first time. Others may have been delivered by
        a killed process, so they are delivered the same way again: single, or joined as
        recorded."""
        fresh = {each.id: each for each in messages if not self._position.is_known(each.id)}
        for number, message in sorted(fresh.items()):
            if self._position.is_known(number):
                continue  # queued as part of a batch
            parts = [fresh[each] for each in self._position.batch_of(number) if each in fresh]
            for part in parts or [message]:
                self._position.mark_pending(part.id)
                if _is_private(part):
                    chat = str(part.channel.id)
                    remember(self.newest, chat, part.id, MAX_SENT)
                    if part.author.id != self._bot.me:
                        self._position.add_private(chat, part.author.display_name)
            # A channel and its threads share one queue.
            queue = str(getattr(message.channel, "parent_id", None) or message.channel.id)
            work = (
                partial(self._handle_batch, queue, parts)
                if parts
                else partial(self._handle, queue, message, live=live)
            )
            self._queues.put(queue, work)

    async def _handle(self, queue: str, message: discord.Message, *, live: bool) -> None:
        if live and self._batches.append(queue, message, self._bot.me):
            return
        await self._batches.flush(queue)
        event = await self._parse_until_possible(message)
        if event is None:
            self._position.mark_done(message.id)
        elif not live or not self._batches.start(queue, event, message):
            await self._deliver(event, [message.id])

    async def _handle_batch(self, queue: str, messages: list[discord.Message]) -> None:
        """Deliver messages that were joined before."""
        await self._batches.flush(queue)
        event = await self._parse_until_possible(messages[0])
        numbers = [message.id for message in messages]
        if event is None:
            for number in numbers:
                self._position.mark_done(number)
            return
        first = str(self._position.batch_of(numbers[0])[0])
        event = msgspec.structs.replace(event, message_id=first)
        await self._deliver(join_messages(event, messages, self._bot.me), numbers)

    async def _deliver_batch(self, event: MessageEvent, messages: list[discord.Message]) -> None:
        """Deliver messages that waited for each other as one."""
        numbers = [message.id for message in messages]
        if len(messages) > 1:
            try:
                await self._position.record_batch(numbers)
            except OSError as error:
                logger.error("texts on Discord are not joined: %s", error.strerror)
                for message in messages:
                    single = msgspec.structs.replace(event, message_id=str(message.id))
                    await self._deliver(
                        join_messages(single, [message], self._bot.me), [message.id]
                    )
                return
            event = join_messages(event, messages, self._bot.me)
        await self._deliver(event, numbers)

    async def _deliver(self, event: MessageEvent, numbers: list[int]) -> None:
        await deliver_until_accepted(self._receive, event, asyncio.sleep)
        for number in numbers:
            self._position.mark_done(number)

    async def _parse_until_possible(self, message: discord.Message) -> MessageEvent | None:
        pause = 0.2
        while True:
            try:
                return await self._parse(message)
            except CALL_ERRORS as error:
                logger.warning("the channel of a Discord message cannot be read: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_RETRY_SECONDS)

    async def _parse(self, message: discord.Message) -> MessageEvent | None:
        """Return the event; None if the message is not for us."""
        if not self._is_accepted(message):
            return None
        server = _guild_id(message)
        channel = await self._channel(message, server)
        if channel is None:
            return None
        place = locate(channel, server, self._bot.me)
        in_talk = place.thread_is_ours or self._position.has_thread(place.thread_id)
        writer = await self._author_with_roles(message)
        event = parse_message(message, place, self._bot.me, writer=writer, in_talk=in_talk)
        says = event.text or event.media or event.reply_to_text
        if not says or not is_for_us(event, self._rules):
            return None
        if self._opens_thread(message, place):  # a thread has the id of its first message
            source = msgspec.structs.replace(event.source, thread_id=event.message_id)
            event = msgspec.structs.replace(event, source=source)
        return event

    def _is_accepted(self, message: discord.Message) -> bool:
        me, options = self._bot.me, self._options
        if message.author.id == me or message.webhook_id is not None:
            return False
        if message.type not in USER_MESSAGE_TYPES:
            return False
        if message.author.bot and options.bots != "all":
            return options.bots == "mentions" and mentions_us(message, me)
        if _is_private(message) or not options.ignore_others:
            return True
        return not mentions_others_only(message, me)

    def _opens_thread(self, message: discord.Message, place: DiscordPlace) -> bool:
        settings, me = self._options.settings, self._bot.me
        if not settings.auto_thread or not place.can_open_threads:
            return False
        if place.chat_id in settings.no_thread_channels:
            return False
        return mentions_us(message, me) and not replies_to_us(message, me)

    async def _channel(self, message: discord.Message, server: int | None) -> object | None:
        """Return the channel with name and parent; None when we may not see it."""
        if server is None:
            return message.channel
        known = self._bot.get_channel(message.channel.id)
        if known is not None:
            return known
        try:
            return await retry_rate_limited(lambda: self._bot.fetch_channel(message.channel.id))
        except (discord.Forbidden, discord.NotFound):
            return None

    async def _author_with_roles(self, message: discord.Message) -> discord.abc.User:
        """Return the author; a missed message comes without the roles of its author."""
        writer, server = message.author, message.guild
        if isinstance(writer, discord.Member) or not server or not self._options.needs_roles:
            return writer
        try:
            return await retry_rate_limited(lambda: server.fetch_member(writer.id))
        except discord.NotFound:
            return writer

    async def _fetch_missed(self) -> Sequence[discord.Message]:
        await self._bot.guilds_known.wait()
        if not self._away:
            return ()
        since = self._position.missed_since(time.time())
        return await fetch_missed(self._bot, since, list(self._position.private))

    def _release(self, missed: Sequence[discord.Message], held: Sequence[discord.Message]) -> None:
        self._enqueue(missed)
        self._enqueue(held, live=True)


def _can_open_threads(channel: object, me: int) -> bool:
    if not isinstance(channel, discord.TextChannel) or channel.type not in THREAD_PARENTS:
        return False
    member = channel.guild.get_member(me)
    if member is None:
        return False
    allowed = channel.permissions_for(member)
    return allowed.create_public_threads and allowed.send_messages_in_threads


def _replied_message(message: discord.Message) -> discord.Message | None:
    """Return the message this one replies to, if Discord included it."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    resolved = message.reference.resolved
    return resolved if isinstance(resolved, discord.Message) else None


def _text_parts(message: discord.Message, me: int) -> Iterator[str]:
    yield _readable_content(message, me)
    for sticker in message.stickers:
        yield f"[sticker: {sticker.name}]"
    for snapshot in message.message_snapshots:
        yield f"[forwarded] {snapshot.content}"
    if poll := message.poll:
        yield f"[poll: {poll.question} – {' / '.join(each.text for each in poll.answers)}]"
    if message.author.bot:  # embeds of users are only previews of their links
        for embed in message.embeds:
            yield embed_text(embed)


def _readable_content(message: discord.Message, me: int) -> str:
    """Return the content with mentions as names. A mention of us is an address and is removed."""
    users = {user.id: user.display_name for user in message.mentions}
    roles = {role.id: role for role in message.role_mentions}
    channels = {channel.id: channel.name for channel in message.channel_mentions}

    def replace(found: re.Match[str]) -> str:
        kind, number = found[1], int(found[2])
        if kind == "#":
            return f"#{channels[number]}" if number in channels else found[0]
        if kind == "@&" and number in roles:
            role = roles[number]
            ours = role.tags is not None and role.tags.bot_id == me
            return "" if ours else f"@{role.name}"
        if number == me:
            return ""
        return f"@{users[number]}" if number in users else found[0]

    readable = _MENTION.sub(replace, message.content)
    return _EMOJI.sub(r"\1", readable).strip()


def _media(message: discord.Message) -> Iterator[Media]:
    forwarded = [file for shot in message.message_snapshots for file in shot.attachments]
    for file in [*message.attachments, *forwarded]:
        mime = (file.content_type or "").partition(";")[0].strip()
        kind = "voice" if file.is_voice_message() else media_kind(mime, file.filename)
        yield Media(kind, file.filename, mime, file.size, ref=file.url)


def _is_text(message: discord.Message) -> bool:
    """True for plain text that is not a command."""
    other = message.attachments or message.stickers or message.message_snapshots or message.poll
    return bool(message.content.strip()) and not message.content.startswith("/") and not other


async def _fetch_channel(
    bot: DiscordClient, channel: ReadableChannel, since: int
) -> list[discord.Message]:
    try:
        found = await fetch_history(bot, channel, since)
    except (discord.Forbidden, discord.NotFound) as error:
        logger.debug("a channel of Discord cannot be read: %s", error)
        return []
    if len(found) >= MAX_CHANNEL_MESSAGES:
        logger.warning("a channel of Discord has more than %d new messages", MAX_CHANNEL_MESSAGES)
    return found


def _guild_id(message: discord.Message) -> int | None:
    """Return the guild id, also when the channel is not known yet."""
    return message.guild.id if message.guild else getattr(message.channel, "guild_id", None)


def _is_private(message: discord.Message) -> bool:
    return _guild_id(message) is None
