"""What people wrote on Discord, as events of ours."""

import re
from collections.abc import Callable, Iterator

import discord
import msgspec

from hermes.gateway.events import ChatType, Media, MessageEvent, SessionSource
from hermes.gateway.platforms.kit.media import kind_of

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
        kind = "voice" if file.is_voice_message() else kind_of(mime, file.filename)
        yield Media(kind, file.filename, mime, file.size, ref=file.url)
