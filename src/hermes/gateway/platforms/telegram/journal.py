"""What must be known after a crash and Telegram does not tell: which messages we were about to
send, which of them are there, and the newest number seen in each chat.

Lines are only added to the file, each with one write, so a killed process loses none. After a power
cut the last ones may be missing: numbers are then lower than they could be, which costs a few more
questions and never a wrong answer.
"""

import logging
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec
from telegram import Bot, Message
from telegram.error import TelegramError

from hermes.gateway.platforms.kit.contract import (
    ChatInfo,
    ChatTarget,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.gateway.platforms.telegram.client import (
    CHAT_TYPES,
    ChatTopics,
    Options,
    Topic,
    of_call,
    row_of,
)
from hermes.util import atomic

log = logging.getLogger(__name__)

MOST_LINES = 20_000
"""After so many new lines the file is written anew with what still matters."""
MOST_SENDS = 1_000
MOST_ALBUM_PARTS = 200


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """The newest number of a row."""

    row: str
    number: int


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    """A message is about to be sent."""

    key: str
    chat_id: int
    after: int
    """The newest number known before; 0 when none is."""
    at: float
    parts: int = 1
    markup: str = ""
    """Its buttons."""


class Arrived(msgspec.Struct, frozen=True, tag="arrived"):
    """A part of a message is there."""

    key: str
    number: int


class Absent(msgspec.Struct, frozen=True, tag="absent"):
    """The part that was on its way is surely not there."""

    key: str


class Moved(msgspec.Struct, frozen=True, tag="moved"):
    """A group has become a supergroup."""

    chat_id: int
    to: int


class Merged(msgspec.Struct, frozen=True, tag="merged"):
    """Updates of an album that were given to the gateway as one message."""

    updates: tuple[int, ...]


class MadeTopic(msgspec.Struct, frozen=True, tag="topic"):
    chat_id: int
    name: str
    thread_id: int


Entry = Seen | Begun | Arrived | Absent | Moved | Merged | MadeTopic
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


class Sending(msgspec.Struct):
    begun: Begun
    numbers: list[int] = []
    """Of the parts that are there."""
    open: bool = True
    """A part may be there or not."""

    @property
    def complete(self) -> bool:
        return len(self.numbers) >= self.begun.parts


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._lines = 0
        self.newest: dict[str, int] = {}
        self.sends: dict[str, Sending] = {}
        """By key, the latest last."""
        self.moved: dict[int, int] = {}
        """Where groups are now."""
        self.origins: dict[int, int] = {}
        """What supergroups were before."""
        self.merged: deque[int] = deque(maxlen=MOST_ALBUM_PARTS)
        self.topics: dict[tuple[int, str], int] = {}

    def open(self) -> None:
        """Read what is there. Lines that cannot be read are left out."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                try:
                    self._apply(_decoder.decode(line))
                except msgspec.MsgspecError:
                    log.warning("a line of %s cannot be read and is left out", self._path.name)
        self._rewrite()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def see(self, chat_id: int, number: int) -> None:
        row = row_of(chat_id)
        if number > self.newest.get(row, 0):
            self._note(Seen(row, number))

    def after(self, chat_id: int) -> int:
        """The newest number known in the chat's row; 0 for none."""
        return self.newest.get(row_of(self.home(chat_id)), 0)

    def home(self, chat_id: int) -> int:
        """Where a chat is now."""
        return self.moved.get(chat_id, chat_id)

    def begin(self, entry: Begun) -> Sending:
        """A part of it goes out now; one that was begun before goes on where it was. Raises
        `SendLater` when that cannot be written: nothing is sent that would be forgotten."""
        try:
            self._add(entry)
        except OSError as error:
            raise SendLater(f"the Telegram journal cannot be written: {error.strerror}") from error
        return self.sends[entry.key]

    def arrive(self, key: str, number: int) -> None:
        self._note(Arrived(key, number))
        self.see(self.sends[key].begun.chat_id, number)

    def absent(self, key: str) -> None:
        if key in self.sends:
            self._note(Absent(key))

    def move(self, chat_id: int, to: int) -> None:
        if self.moved.get(chat_id) != to:
            log.info("the Telegram group %d is %d now; its name here stays", chat_id, to)
            self._note(Moved(chat_id, to))

    def merge(self, updates: tuple[int, ...]) -> None:
        self._note(Merged(updates))

    def topic(self, chat_id: int, name: str, thread_id: int) -> None:
        self._note(MadeTopic(chat_id, name, thread_id))

    def ours(self, chat_id: int) -> set[int]:
        """Numbers of our messages in a chat, as far as remembered."""
        sends = (each for each in self.sends.values() if each.begun.chat_id == chat_id)
        return {number for each in sends for number in each.numbers}

    def doubts(self, chat_id: int) -> list[Sending]:
        """Messages of a chat that may be there or not, the oldest first."""
        return [s for s in self.sends.values() if s.open and s.begun.chat_id == chat_id]

    def _note(self, entry: Entry) -> None:
        """What has happened has happened: a full disk is no reason to stop."""
        try:
            self._add(entry)
        except OSError as error:
            log.error("the Telegram journal cannot be written: %s", error.strerror)

    def _add(self, entry: Entry) -> None:
        self._apply(entry)
        if self._file is None:
            return
        os.write(self._file, msgspec.json.encode(entry) + b"\n")
        self._lines += 1
        if self._lines > MOST_LINES:
            self._rewrite()

    def _apply(self, entry: Entry) -> None:
        match entry:
            case Seen(row, number):
                self.newest[row] = max(number, self.newest.get(row, 0))
            case Begun():
                known = self.sends.pop(entry.key, None)
                kept = known.numbers if known is not None and not known.complete else []
                self.sends[entry.key] = Sending(entry, list(kept))
            case Arrived(key, number):
                if sending := self.sends.get(key):
                    sending.numbers.append(number)
                    sending.open = False
            case Absent(key):
                if sending := self.sends.get(key):
                    sending.open = False
            case Moved(chat_id, to):
                self.moved[chat_id], self.origins[to] = to, chat_id
            case Merged(updates):
                self.merged.extend(updates)
            case MadeTopic(chat_id, name, thread_id):
                self.topics[chat_id, name] = thread_id

    def _rewrite(self) -> None:
        self.sends = dict(list(self.sends.items())[-MOST_SENDS:])
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in self._entries())
        self.close()
        atomic.write_bytes(self._path, lines, mode=0o600)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._lines = 0

    def _entries(self) -> list[Entry]:
        """The shortest journal that says the same."""
        entries: list[Entry] = [Seen(row, number) for row, number in self.newest.items()]
        entries += [Moved(chat_id, to) for chat_id, to in self.moved.items()]
        entries += [MadeTopic(c, name, thread) for (c, name), thread in self.topics.items()]
        if self.merged:
            entries.append(Merged(tuple(self.merged)))
        for key, sending in self.sends.items():
            entries.append(sending.begun)
            entries += [Arrived(key, number) for number in sending.numbers]
            if not sending.open and not sending.numbers:
                entries.append(Absent(key))
            if sending.open and sending.numbers:
                # The last part is in doubt: begun again, with what is there kept.
                entries.append(sending.begun)
        return entries


# Which chat is meant: by its number, or by the public name of a channel or group.


class Chats:
    def __init__(self, bot: Bot, journal: Journal) -> None:
        self._bot, self._journal = bot, journal
        self._named: dict[str, int] = {}
        self.found: dict[str, ChatInfo] = {}
        """Those that were asked for by name."""

    def known(self, target: ChatTarget) -> int | None:
        """Where the chat is now; None for a name that was not asked for yet, or for no chat."""
        number = _number(target.chat_id) or self._named.get(target.chat_id.lower())
        return self._journal.home(number) if number else None

    async def find(self, target: ChatTarget) -> int:
        """Where the chat is now. Raises `SendRefused` for what is none, `SendLater` when Telegram
        cannot be asked."""
        if (known := self.known(target)) is not None:
            return known
        name = target.chat_id.lower()
        if not name.startswith("@"):
            raise SendRefused(f"{target.chat_id!r} is no Telegram chat")
        try:
            chat = await self._bot.get_chat(name)
        except TelegramError as error:
            failure = of_call(error)
            if isinstance(failure, SendUnsure):  # a question can be asked again
                raise SendLater(str(failure)) from None
            raise failure from None
        self._named[name] = chat.id
        kind = CHAT_TYPES.get(chat.type, "group")
        self.found[name] = ChatInfo(str(chat.id), name, kind)
        return self._journal.home(chat.id)


def _number(chat_id: str) -> int | None:
    try:
        return int(chat_id)
    except ValueError:
        return None


# Topics of forums and of private chats: their names, and those that config.yaml asks for.

Names = dict[tuple[int, int], str]
"""Names of threads, by chat and thread."""


def known_topics(options: Options, journal: Journal) -> Names:
    """Those of config.yaml and those we made."""
    names = {(chat_id, thread): name for (chat_id, name), thread in journal.topics.items()}
    for chat in (*options.group_topics, *options.dm_topics):
        for topic in chat.topics:
            if topic.thread_id is not None:
                names[chat.chat_id, topic.thread_id] = topic.name
    return names


async def make_topics(bot: Bot, journal: Journal, wanted: Sequence[ChatTopics]) -> None:
    """Make the topics of private chats that are not there yet. One that Telegram refuses is told in
    the log and asked for again at the next start."""
    for chat in wanted:
        for topic in chat.topics:
            if topic.thread_id is None and (chat.chat_id, topic.name) not in journal.topics:
                await _make(bot, journal, chat.chat_id, topic)


async def _make(bot: Bot, journal: Journal, chat_id: int, topic: Topic) -> None:
    try:
        made = await bot.create_forum_topic(chat_id, topic.name, icon_color=topic.icon_color)
    except TelegramError as error:
        log.warning("the topic %r cannot be made: %s", topic.name, of_call(error))
        return
    journal.topic(chat_id, topic.name, made.message_thread_id)


def note_topic(message: Message, names: Names) -> None:
    """Remember a name that a message tells: a topic's first message, or one that answers it."""
    thread = message.message_thread_id
    if thread is None:
        return
    first = message if message.forum_topic_created else message.reply_to_message
    if first is not None and first.forum_topic_created:
        names.setdefault((message.chat.id, thread), first.forum_topic_created.name)
    if message.forum_topic_edited and message.forum_topic_edited.name:
        names[message.chat.id, thread] = message.forum_topic_edited.name
