"""The send journal, which survives a crash: messages about to be sent, messages delivered, and the
newest message number of each chat.

Each entry is appended with one write, so a killed process loses none. After a power cut the last
entries may be missing. Numbers are then lower than they could be, which costs more requests but
never gives a wrong result.
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
    TelegramOptions,
    TopicConfig,
    map_error,
    number_sequence,
)
from hermes.util import atomic

logger = logging.getLogger(__name__)
MAX_LINES = 20_000
"""After this many new lines the file is rewritten with the entries still needed."""
MAX_SENDS = 1_000
MAX_ALBUM_PARTS = 200
TopicNames = dict[tuple[int, int], str]
"""Topic names by chat and thread."""


class SeenEntry(msgspec.Struct, frozen=True, tag="seen"):
    """The newest message number of a sequence."""

    row: str
    number: int


class BegunEntry(msgspec.Struct, frozen=True, tag="begun"):
    """A message is about to be sent."""

    key: str
    chat_id: int
    after: int
    """The newest number known before; 0 for none."""
    at: float
    parts: int = 1
    markup: str = ""
    """Signature of its buttons."""


class ArrivedEntry(msgspec.Struct, frozen=True, tag="arrived"):
    """A part of a message was delivered."""

    key: str
    number: int


class AbsentEntry(msgspec.Struct, frozen=True, tag="absent"):
    """The part in progress was certainly not delivered."""

    key: str


class MovedEntry(msgspec.Struct, frozen=True, tag="moved"):
    """A group became a supergroup."""

    chat_id: int
    to: int


class MergedEntry(msgspec.Struct, frozen=True, tag="merged"):
    """Updates of an album that were delivered as one message."""

    updates: tuple[int, ...]


class TopicEntry(msgspec.Struct, frozen=True, tag="topic"):
    chat_id: int
    name: str
    thread_id: int


JournalEntry = (
    SeenEntry | BegunEntry | ArrivedEntry | AbsentEntry | MovedEntry | MergedEntry | TopicEntry
)
_decoder: msgspec.json.Decoder[JournalEntry] = msgspec.json.Decoder(JournalEntry)


class JournaledSend(msgspec.Struct):
    begun: BegunEntry
    numbers: list[int] = []
    """Numbers of the delivered parts."""
    open: bool = True
    """It is uncertain whether the current part was delivered."""

    @property
    def is_complete(self) -> bool:
        return len(self.numbers) >= self.begun.parts


class TelegramJournal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._lines = 0
        self.newest: dict[str, int] = {}
        self.sends: dict[str, JournaledSend] = {}
        """By key, the latest last."""
        self.moved: dict[int, int] = {}
        """Supergroup of each moved group."""
        self.origins: dict[int, int] = {}
        """Original group of each supergroup."""
        self.merged: deque[int] = deque(maxlen=MAX_ALBUM_PARTS)
        self.topics: dict[tuple[int, str], int] = {}

    def open(self) -> None:
        """Read the file. Unreadable lines are skipped."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                try:
                    self._apply(_decoder.decode(line))
                except msgspec.MsgspecError:
                    logger.warning("skipped an unreadable line of %s", self._path.name)
        self._rewrite()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def note_number(self, chat_id: int, number: int) -> None:
        row = number_sequence(chat_id)
        if number > self.newest.get(row, 0):
            self._append_or_log(SeenEntry(row, number))

    def newest_number(self, chat_id: int) -> int:
        """Return the newest number known in the chat's sequence; 0 for none."""
        return self.newest.get(number_sequence(self.current_chat(chat_id)), 0)

    def current_chat(self, chat_id: int) -> int:
        """Return the current id of a chat."""
        return self.moved.get(chat_id, chat_id)

    def record_start(self, entry: BegunEntry) -> JournaledSend:
        """Record that a part is sent now; earlier parts of the same message are kept. Raises
        `SendLater` when the file cannot be written: nothing is sent without a record."""
        try:
            self._append(entry)
        except OSError as error:
            raise SendLater(f"the Telegram journal cannot be written: {error.strerror}") from error
        return self.sends[entry.key]

    def record_delivered(self, key: str, number: int) -> None:
        self._append_or_log(ArrivedEntry(key, number))
        self.note_number(self.sends[key].begun.chat_id, number)

    def record_absent(self, key: str) -> None:
        if key in self.sends:
            self._append_or_log(AbsentEntry(key))

    def record_move(self, chat_id: int, to: int) -> None:
        if self.moved.get(chat_id) != to:
            logger.info(
                "the Telegram group %d became the supergroup %d; its conversation continues",
                chat_id,
                to,
            )
            self._append_or_log(MovedEntry(chat_id, to))

    def record_album(self, updates: tuple[int, ...]) -> None:
        self._append_or_log(MergedEntry(updates))

    def record_topic(self, chat_id: int, name: str, thread_id: int) -> None:
        self._append_or_log(TopicEntry(chat_id, name, thread_id))

    def own_numbers(self, chat_id: int) -> set[int]:
        """Return the numbers of our recorded messages in a chat."""
        sends = (each for each in self.sends.values() if each.begun.chat_id == chat_id)
        return {number for each in sends for number in each.numbers}

    def uncertain(self, chat_id: int) -> list[JournaledSend]:
        """Return the uncertain messages of a chat, oldest first."""
        return [s for s in self.sends.values() if s.open and s.begun.chat_id == chat_id]

    def _append_or_log(self, entry: JournalEntry) -> None:
        """Append an entry about something that already happened: a full disk must not stop us."""
        try:
            self._append(entry)
        except OSError as error:
            logger.error("the Telegram journal cannot be written: %s", error.strerror)

    def _append(self, entry: JournalEntry) -> None:
        self._apply(entry)
        if self._file is None:
            return
        os.write(self._file, msgspec.json.encode(entry) + b"\n")
        self._lines += 1
        if self._lines > MAX_LINES:
            self._rewrite()

    def _apply(self, entry: JournalEntry) -> None:
        match entry:
            case SeenEntry(row, number):
                self.newest[row] = max(number, self.newest.get(row, 0))
            case BegunEntry():
                known = self.sends.pop(entry.key, None)
                kept = known.numbers if known is not None and not known.is_complete else []
                self.sends[entry.key] = JournaledSend(entry, list(kept))
            case ArrivedEntry(key, number):
                if sending := self.sends.get(key):
                    sending.numbers.append(number)
                    sending.open = False
            case AbsentEntry(key):
                if sending := self.sends.get(key):
                    sending.open = False
            case MovedEntry(chat_id, to):
                self.moved[chat_id], self.origins[to] = to, chat_id
            case MergedEntry(updates):
                self.merged.extend(updates)
            case TopicEntry(chat_id, name, thread_id):
                self.topics[chat_id, name] = thread_id

    def _rewrite(self) -> None:
        self.sends = dict(list(self.sends.items())[-MAX_SENDS:])
        lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in self._entries())
        self.close()
        atomic.write_bytes(self._path, lines, mode=0o600)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._lines = 0

    def _entries(self) -> list[JournalEntry]:
        """Return the shortest list of entries with the same state."""
        entries: list[JournalEntry] = [
            SeenEntry(row, number) for row, number in self.newest.items()
        ]
        entries += [MovedEntry(chat_id, to) for chat_id, to in self.moved.items()]
        entries += [TopicEntry(c, name, thread) for (c, name), thread in self.topics.items()]
        if self.merged:
            entries.append(MergedEntry(tuple(self.merged)))
        for key, sending in self.sends.items():
            entries.append(sending.begun)
            entries += [ArrivedEntry(key, number) for number in sending.numbers]
            if not sending.open and not sending.numbers:
                entries.append(AbsentEntry(key))
            if sending.open and sending.numbers:
                # The last part is uncertain: repeat the start entry, which keeps the delivered
                # parts.
                entries.append(sending.begun)
        return entries


class TelegramChats:
    """Resolves targets to chat ids: a number, or the public name of a channel or group."""

    def __init__(self, bot: Bot, journal: TelegramJournal) -> None:
        self._bot, self._journal = bot, journal
        self._ids_by_name: dict[str, int] = {}
        self.found: dict[str, ChatInfo] = {}
        """Chats that were resolved by name."""

    def lookup(self, target: ChatTarget) -> int | None:
        """Return the current chat id; None for a name not yet resolved or an invalid target."""
        number = _parse_number(target.chat_id) or self._ids_by_name.get(target.chat_id.lower())
        return self._journal.current_chat(number) if number else None

    async def resolve(self, target: ChatTarget) -> int:
        """Return the current chat id. Raises `SendRefused` for an invalid target, and `SendLater`
        when Telegram cannot be reached."""
        if (known := self.lookup(target)) is not None:
            return known
        name = target.chat_id.lower()
        if not name.startswith("@"):
            raise SendRefused(f"{target.chat_id!r} is not a Telegram chat")
        try:
            chat = await self._bot.get_chat(name)
        except TelegramError as error:
            failure = map_error(error)
            if isinstance(failure, SendUnsure):  # a lookup can be repeated
                raise SendLater(str(failure)) from None
            raise failure from None
        self._ids_by_name[name] = chat.id
        kind = CHAT_TYPES.get(chat.type, "group")
        self.found[name] = ChatInfo(str(chat.id), name, kind)
        return self._journal.current_chat(chat.id)


def known_topics(options: TelegramOptions, journal: TelegramJournal) -> TopicNames:
    """Return the topics of config.yaml and those we created."""
    names = {(chat_id, thread): name for (chat_id, name), thread in journal.topics.items()}
    for chat in (*options.group_topics, *options.dm_topics):
        for topic in chat.topics:
            if topic.thread_id is not None:
                names[chat.chat_id, topic.thread_id] = topic.name
    return names


async def create_topics(bot: Bot, journal: TelegramJournal, wanted: Sequence[ChatTopics]) -> None:
    """Create missing topics of private chats. A topic that Telegram rejects is logged and tried
    again at the next start."""
    for chat in wanted:
        for topic in chat.topics:
            if topic.thread_id is None and (chat.chat_id, topic.name) not in journal.topics:
                await _create_topic(bot, journal, chat.chat_id, topic)


def learn_topic_name(message: Message, names: TopicNames) -> None:
    """Learn a topic name from the topic's first message or a reply to it."""
    thread = message.message_thread_id
    if thread is None:
        return
    first = message if message.forum_topic_created else message.reply_to_message
    if first is not None and first.forum_topic_created:
        names.setdefault((message.chat.id, thread), first.forum_topic_created.name)
    if message.forum_topic_edited and message.forum_topic_edited.name:
        names[message.chat.id, thread] = message.forum_topic_edited.name


def _parse_number(chat_id: str) -> int | None:
    try:
        return int(chat_id)
    except ValueError:
        return None


async def _create_topic(
    bot: Bot, journal: TelegramJournal, chat_id: int, topic: TopicConfig
) -> None:
    try:
        made = await bot.create_forum_topic(chat_id, topic.name, icon_color=topic.icon_color)
    except TelegramError as error:
        logger.warning("the topic %r cannot be created: %s", topic.name, map_error(error))
        return
    journal.record_topic(chat_id, topic.name, made.message_thread_id)
