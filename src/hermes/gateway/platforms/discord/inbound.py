"""What comes from Discord, on its way to the gateway. A message counts as read only when it is
kept or is not for us."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

import discord
import msgspec
from discord.http import Route

from hermes.gateway.platforms.discord import client
from hermes.gateway.platforms.discord.client import TROUBLE, Bot, Options, Pace
from hermes.gateway.platforms.kit.connection import ChatQueues, cancel_and_wait
from hermes.gateway.platforms.kit.contract import (
    ChatType,
    Media,
    MessageEvent,
    Receive,
    SessionSource,
)
from hermes.gateway.platforms.kit.inbound import (
    GroupRules,
    ReadPosition,
    deliver_until_accepted,
    group_rules,
    is_for_us,
    remember,
)
from hermes.gateway.platforms.kit.media import media_kind

# What people wrote on Discord, as events of ours.

PLATFORM = "discord"
SPOKEN = frozenset({discord.MessageType.default, discord.MessageType.reply})
"""What people write. All else is Discord telling of something: a pin, a new member."""
THREADED = frozenset({discord.ChannelType.text, discord.ChannelType.news})
"""Channels where a thread can be opened for a message."""
QUOTED = 500
"""Characters of a message that is answered."""

_MENTION = re.compile(r"<(@!?|@&|#)(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")


class Place(msgspec.Struct, frozen=True):
    chat_id: str
    chat_type: ChatType
    thread_id: str = ""
    name: str = ""
    can_open_threads: bool = False
    """A thread can be opened here for a message."""
    thread_is_ours: bool = False
    """We opened the thread we are in."""


def place_of(channel: object, guild_id: int | None, me: int) -> Place:
    """A thread and a forum post belong to the channel they are in."""
    number = str(getattr(channel, "id", ""))
    name = str(getattr(channel, "name", None) or "")
    if guild_id is None:
        return Place(number, "dm", name=name)
    if isinstance(channel, discord.Thread):
        parent = channel.parent.name if channel.parent else ""
        label = f"#{parent} / {name}" if parent else name
        ours = channel.owner_id == me
        return Place(str(channel.parent_id), "group", number, label, thread_is_ours=ours)
    can_open = _can_open_threads(channel, me)
    return Place(number, "group", name=f"#{name}", can_open_threads=can_open)


def source_of(place: Place, user: discord.abc.User) -> SessionSource:
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
    """By name, or by the role that Discord gives each bot and that looks the same to people."""
    if me in message.raw_mentions:
        return True
    return any(role.tags is not None and role.tags.bot_id == me for role in message.role_mentions)


def mentions_others_only(message: discord.Message, me: int) -> bool:
    """In its text: that a reply pings whom it answers is no mention."""
    others = any(user != me for user in message.raw_mentions)
    return others and not answers_us(message, me) and not mentions_us(message, me)


def answers_us(message: discord.Message, me: int) -> bool:
    answered = _answered(message)
    return answered is not None and answered.author.id == me


def event_of(
    message: discord.Message,
    place: Place,
    me: int,
    *,
    writer: discord.abc.User,
    in_talk: bool = False,
) -> MessageEvent:
    """`writer` is its author with roles, if it has any; `in_talk` is whether we talk in its thread
    already, so that no mention is needed."""
    answered = _answered(message)
    reference = message.reference
    replies = message.type is discord.MessageType.reply and reference is not None
    return MessageEvent(
        source=source_of(place, writer),
        message_id=str(message.id),
        text=text_of(message, me),
        media=tuple(_media(message)),
        reply_to_id=str(reference.message_id or "") if replies and reference else "",
        reply_to_text=answered.content[:QUOTED] if answered is not None else "",
        addressed=place.chat_type == "dm"
        or in_talk
        or mentions_us(message, me)
        or answers_us(message, me),
        sent_at=message.created_at.timestamp(),
    )


def text_of(message: discord.Message, me: int) -> str:
    return "\n".join(filter(None, _texts(message, me)))


def _can_open_threads(channel: object, me: int) -> bool:
    if not isinstance(channel, discord.TextChannel) or channel.type not in THREADED:
        return False
    member = channel.guild.get_member(me)
    if member is None:
        return False
    allowed = channel.permissions_for(member)
    return allowed.create_public_threads and allowed.send_messages_in_threads


def _answered(message: discord.Message) -> discord.Message | None:
    """The message that this one replies to, as far as Discord sent it along."""
    if message.type is not discord.MessageType.reply or message.reference is None:
        return None
    resolved = message.reference.resolved
    return resolved if isinstance(resolved, discord.Message) else None


def _texts(message: discord.Message, me: int) -> Iterator[str]:
    yield _readable(message, me)
    for sticker in message.stickers:
        yield f"[sticker: {sticker.name}]"
    for snapshot in message.message_snapshots:
        yield f"[forwarded] {snapshot.content}"
    if poll := message.poll:
        yield f"[poll: {poll.question} – {' / '.join(each.text for each in poll.answers)}]"
    if message.author.bot:  # of people they are only previews of their links
        for embed in message.embeds:
            yield embed_text(embed)


def embed_text(embed: discord.Embed) -> str:
    parts = [embed.title, embed.url, embed.description]
    parts += [f"{field.name}: {field.value}" for field in embed.fields]
    parts.append(embed.footer.text)
    return "\n".join(part for part in parts if part)


def _readable(message: discord.Message, me: int) -> str:
    """Mentions by name; our own is an address and no part of what is said."""
    users = {user.id: user.display_name for user in message.mentions}
    roles = {role.id: role for role in message.role_mentions}
    channels = {channel.id: channel.name for channel in message.channel_mentions}

    def said(found: re.Match[str]) -> str:
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

    return _replaced(message.content, said)


def _replaced(text: str, said: Callable[[re.Match[str]], str]) -> str:
    readable = _MENTION.sub(said, text)
    return _EMOJI.sub(r"\1", readable).strip()


def _media(message: discord.Message) -> Iterator[Media]:
    forwarded = [file for shot in message.message_snapshots for file in shot.attachments]
    for file in [*message.attachments, *forwarded]:
        mime = (file.content_type or "").partition(";")[0].strip()
        kind = "voice" if file.is_voice_message() else media_kind(mime, file.filename)
        yield Media(kind, file.filename, mime, file.size, ref=file.url)


# Texts that one person sends in quick succession are one message: a paste longer than Discord
# takes is sent in parts, and only its first one mentions us.
#
# Nothing waits longer than it must: a command, a file, a message of somebody else or a press ends
# the
# waiting. What waits is not done (`ReadPosition`), so after a crash it comes again, each part under
# its
# own
# name. Which parts were given as one is written down before they are.

FULL = 1900
"""Characters from which a text looks like a part of a longer one."""


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

    def __init__(self, lanes: ChatQueues, pace: Pace, give: Give) -> None:
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
            and not mentions_others_only(message, me)
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
    text = "\n".join(text_of(message, me) for message in messages)
    return msgspec.structs.replace(event, text=text)


def _is_text(message: discord.Message) -> bool:
    """Words and nothing else, and no command."""
    other = message.attachments or message.stickers or message.message_snapshots or message.poll
    return bool(message.content.strip()) and not message.content.startswith("/") and not other


def _is_full(message: discord.Message) -> bool:
    return len(message.content) >= FULL


# Buttons and slash commands of Discord's own menu.

logger = logging.getLogger(__name__)

EPHEMERAL = 64
ANSWER_LATER = {"type": 5, "data": {"flags": EPHEMERAL}}
NOTHING_CHANGES = {"type": 6}
NOT_HERE = {"type": 4, "data": {"flags": EPHEMERAL, "content": "I do not answer in this channel."}}


class Interactions:
    def __init__(
        self, bot: Bot, rules: GroupRules, lanes: ChatQueues, batches: Batches, receive: Receive
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
            await deliver_until_accepted(self._receive, event, asyncio.sleep)
            if command:  # "is thinking" goes away, the answer is another message
                await self._forget_answer(interaction)

        self._lanes.put(event.source.chat_id, take)

    def _use(self, interaction: discord.Interaction) -> MessageEvent:
        place = place_of(interaction.channel, interaction.guild_id, self._bot.me)
        data: Mapping[str, Any] = dict(interaction.data or {})
        button = str(data.get("custom_id", ""))
        return MessageEvent(
            source=source_of(place, interaction.user),
            message_id=str(interaction.id),
            text="" if button else client.as_text(data),
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


# What was written while we were away. Discord keeps it, but does not deliver it by itself.

T = TypeVar("T")

AT_ONCE = 8
"""Channels asked side by side."""
MOST = 500
"""Messages of one channel."""
PAGE = 100
TRIES = 5

Dated = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
Readable = Dated | discord.PartialMessageable


async def missed(bot: Bot, since: int, private: Iterable[str]) -> list[discord.Message]:
    """All messages after `since`, oldest first: of channels and threads that have some, as Discord
    says, and of the private chats given. Raises what a call may raise."""
    channels: list[Readable] = [*_with_news(bot, since)]
    channels += [
        bot.get_partial_messageable(int(chat), type=discord.ChannelType.private) for chat in private
    ]
    gate = asyncio.Semaphore(AT_ONCE)

    async def of(channel: Readable) -> list[discord.Message]:
        async with gate:
            return await patiently(lambda: _after(bot, channel, since))

    found = await asyncio.gather(*map(of, channels))
    return sorted((message for some in found for message in some), key=lambda each: each.id)


async def history(bot: Bot, channel: Readable, since: int) -> list[discord.Message]:
    """Messages after `since`, oldest first, at most `MOST`; what cannot be read is left out."""
    found: list[dict[str, Any]] = []
    while len(found) < MOST:
        newest_first: Any = await bot.rest.logs_from(channel.id, PAGE, after=since)
        found += newest_first[::-1]
        if len(newest_first) < PAGE:
            break
        since = int(newest_first[0]["id"])
    read = [bot.read(channel, data) for data in found[:MOST]]
    return [message for message in read if message is not None]


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Waits where Discord wants us to."""
    for _ in range(TRIES):
        try:
            return await call()
        except discord.RateLimited as error:
            await asyncio.sleep(error.retry_after)
    return await call()


async def _after(bot: Bot, channel: Readable, since: int) -> list[discord.Message]:
    try:
        found = await history(bot, channel, since)
    except (discord.Forbidden, discord.NotFound) as error:
        logger.debug("a channel of Discord cannot be read: %s", error)
        return []
    if len(found) >= MOST:
        logger.warning("a channel of Discord has more than %d new messages", MOST)
    return found


def _with_news(bot: Bot, since: int) -> list[Dated]:
    channels: list[Dated] = []
    for server in bot.guilds:
        channels += [*server.text_channels, *server.threads]
        channels += [*server.voice_channels, *server.stage_channels]  # they have a chat beside them
    return [channel for channel in channels if (channel.last_message_id or 0) > since]


LONGEST_PAUSE = 30.0
MOST_SENT = 512
"""Messages of ours whose nonce is remembered."""


class Intake:
    def __init__(
        self, bot: Bot, options: Options, seen: ReadPosition[int], receive: Receive
    ) -> None:
        self._bot, self._options, self._seen, self._receive = bot, options, seen, receive
        self._rules = group_rules(options.settings)
        self._lanes = ChatQueues("Discord")
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
        await cancel_and_wait(self._catching_up)
        self._batches.close()
        await self._lanes.close()

    def is_there(self, nonce: str, message_id: int) -> None:
        remember(self.sent, nonce, message_id, MOST_SENT)

    # from the connection

    def session_began(self) -> None:
        away = self._seen.start(time.time())
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
            parts = [fresh[each] for each in self._seen.batch_of(number) if each in fresh]
            for part in parts or [message]:
                self._seen.mark_pending(part.id)
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
            self._seen.mark_done(message.id)
        elif not live or not self._batches.begin(lane, event, message):
            await self._offer(event, [message.id])

    async def _again(self, lane: str, messages: list[discord.Message]) -> None:
        """Messages that were given as one before."""
        await self._batches.flush(lane)
        event = await self._insistently(messages[0])
        numbers = [message.id for message in messages]
        if event is None:
            for number in numbers:
                self._seen.mark_done(number)
            return
        first = str(self._seen.batch_of(numbers[0])[0])
        event = msgspec.structs.replace(event, message_id=first)
        await self._offer(joined(event, messages, self._bot.me), numbers)

    async def _give(self, event: MessageEvent, messages: list[discord.Message]) -> None:
        """What waited for each other, as one message."""
        numbers = [message.id for message in messages]
        if len(messages) > 1:
            try:
                await self._seen.record_batch(numbers)
            except OSError as error:
                logger.error("texts on Discord are not joined: %s", error.strerror)
                for message in messages:
                    single = msgspec.structs.replace(event, message_id=str(message.id))
                    await self._offer(joined(single, [message], self._bot.me), [message.id])
                return
            event = joined(event, messages, self._bot.me)
        await self._offer(event, numbers)

    async def _offer(self, event: MessageEvent, numbers: list[int]) -> None:
        await deliver_until_accepted(self._receive, event, asyncio.sleep)
        for number in numbers:
            self._seen.mark_done(number)

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
        place = place_of(channel, server, self._bot.me)
        in_talk = place.thread_is_ours or self._seen.has_thread(place.thread_id)
        writer = await self._with_roles(message)
        event = event_of(message, place, self._bot.me, writer=writer, in_talk=in_talk)
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
        if message.type not in SPOKEN:
            return False
        if message.author.bot and options.bots != "all":
            return options.bots == "mentions" and mentions_us(message, me)
        if _is_private(message) or not options.ignore_others:
            return True
        return not mentions_others_only(message, me)

    def _opens_thread(self, message: discord.Message, place: Place) -> bool:
        settings, me = self._options.settings, self._bot.me
        if not settings.auto_thread or not place.can_open_threads:
            return False
        if place.chat_id in settings.no_thread_channels:
            return False
        return mentions_us(message, me) and not answers_us(message, me)

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
                self._seen.caught_up()
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
