"""What people wrote on Slack, as events of ours."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from hermes.gateway.events import ChatType, Media, MessageEvent, SessionSource
from hermes.gateway.platforms.kit.media import kind_of
from hermes.gateway.platforms.slack.ids import message_id
from hermes.gateway.platforms.slack.markup import NO_NAMES, Names, mentions, readable
from hermes.gateway.platforms.slack.workspace import Workspace

PLATFORM = "slack"
SPOKEN = frozenset({"", "file_share", "bot_message", "thread_broadcast", "me_message"})
"""Kinds of messages that somebody wrote. The rest tells of edits, joins, topics."""
NOT_THERE = frozenset({"tombstone", "hidden_by_limit"})
"""Files that were deleted or are not shown any more."""
QUOTED = 500
"""Characters of a message that is answered."""


class File(msgspec.Struct, frozen=True):
    id: str
    name: str = ""
    title: str = ""
    mimetype: str = ""
    size: int = 0
    mode: str = ""
    subtype: str = ""
    is_external: bool = False
    url_private: str = ""


class Attachment(msgspec.Struct, frozen=True):
    title: str = ""
    text: str = ""
    fallback: str = ""
    author_name: str = ""
    is_share: bool = False


class Said(msgspec.Struct, frozen=True):
    """A message as Slack has it."""

    ts: str
    channel: str = ""
    channel_type: str = ""
    user: str = ""
    username: str = ""
    bot_id: str = ""
    subtype: str = ""
    text: str = ""
    thread_ts: str = ""
    parent_user_id: str = ""
    user_team: str = ""
    hidden: bool = False
    files: tuple[File, ...] = ()
    attachments: tuple[Attachment, ...] = ()

    @property
    def thread(self) -> str:
        """ "" for the first message of a thread."""
        return self.thread_ts if self.thread_ts != self.ts else ""

    @property
    def is_private(self) -> bool:
        return is_private(self.channel, self.channel_type)

    @property
    def is_bot(self) -> bool:
        return bool(self.bot_id) or self.subtype == "bot_message"

    @property
    def is_spoken(self) -> bool:
        return self.subtype in SPOKEN and not self.hidden


def said(data: Mapping[str, Any]) -> Said:
    """Raises `msgspec.ValidationError` for what is no message."""
    return msgspec.convert(_filled(dict(data)), Said)


def is_private(channel: str, channel_type: str = "") -> bool:
    return channel_type == "im" or (not channel_type and channel.startswith("D"))


def source_of(
    workspace: Workspace, channel: str, user_id: str, *, private: bool, thread: str = ""
) -> SessionSource:
    """Without names."""
    chat_type: ChatType = "dm" if private else "group"
    return SessionSource(
        platform=PLATFORM,
        chat_id=workspace.chat_id(channel),
        chat_type=chat_type,
        user_id=user_id,
        thread_id=thread,
    )


def event_of(
    message: Said, workspace: Workspace, *, in_talk: bool = False, in_threads: bool = False
) -> MessageEvent:
    """Without names. `in_talk`: we take part in its thread, so that no mention is needed.
    `in_threads`: what is written in a channel is answered in a thread of its own."""
    thread = message.thread
    if in_threads and not thread and not message.is_private:
        thread = message.ts
    source = source_of(
        workspace,
        message.channel,
        workspace.user_id(message.user or message.bot_id, message.user_team),
        private=message.is_private,
        thread=thread,
    )
    addressed = (
        message.is_private
        or in_talk
        or message.parent_user_id == workspace.me
        or mentions(message.text, workspace.me)
    )
    return MessageEvent(
        source=msgspec.structs.replace(source, is_bot=message.is_bot),
        message_id=message_id(source.chat_id, message.ts),
        text=text_of(message, NO_NAMES, workspace.me),
        media=tuple(_media(message, workspace)),
        addressed=addressed,
        sent_at=float(message.ts),
    )


def named(event: MessageEvent, message: Said, names: Names, me: str) -> MessageEvent:
    """The same with names in place of ids."""
    source = event.source
    user = names.users.get(message.user) or message.username
    channel = names.channels.get(message.channel)
    place = user if source.chat_type == "dm" else f"#{channel}" if channel else ""
    return msgspec.structs.replace(
        event,
        source=msgspec.structs.replace(source, user_name=user, chat_name=place),
        text=text_of(message, names, me),
    )


def answering(event: MessageEvent, root: Said, names: Names) -> MessageEvent:
    """The same with the first message of its thread."""
    return msgspec.structs.replace(
        event,
        reply_to_id=message_id(event.source.chat_id, root.ts),
        reply_to_text=text_of(root, names)[:QUOTED],
    )


def text_of(message: Said, names: Names = NO_NAMES, me: str = "") -> str:
    return "\n".join(filter(None, _texts(message, names, me)))


def _texts(message: Said, names: Names, me: str) -> Iterator[str]:
    yield readable(message.text, names, me)
    for attachment in message.attachments:
        if attachment.is_share:
            by = f" from {attachment.author_name}" if attachment.author_name else ""
            yield f"[forwarded{by}] {readable(attachment.text or attachment.fallback, names)}"
        elif message.is_bot:  # of people they are only previews of their links
            words = attachment.text or attachment.fallback
            yield "\n".join(filter(None, (attachment.title, readable(words, names))))
    for file in message.files:
        if file.is_external:
            yield f"[file: {file.title or file.name}] {file.url_private}"


def _media(message: Said, workspace: Workspace) -> Iterator[Media]:
    for file in message.files:
        if file.is_external or file.mode in NOT_THERE:
            continue
        kind = "voice" if file.subtype == "slack_audio" else kind_of(file.mimetype, file.name)
        ref = workspace.chat_id(file.id)
        yield Media(kind, file.name or file.title, file.mimetype, file.size, ref=ref)


def _filled(value: Any) -> Any:
    """Without what is null: Slack leaves fields out or empties them, as it likes."""
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_filled(each) for each in value if each is not None]
    return value
