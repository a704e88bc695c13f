"""Offer a message until the gateway keeps it, for platforms that do not deliver twice."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hermes.core.errors import ConfigError
from hermes.gateway.platforms.kit.contract import MessageEvent, Receive
from hermes.util import atomic

logger = logging.getLogger(__name__)


async def deliver_once(receive: Receive, event: MessageEvent) -> bool:
    """`receive`, with a fault of the gateway told in the log and taken for "not kept"."""
    try:
        return await receive(event)
    except Exception:  # the wire must live on, whatever the gateway does
        logger.exception("a message of %s could not be taken", event.source.platform)
        return False


async def deliver_until_accepted(
    receive: Receive,
    event: MessageEvent,
    sleep: Callable[[float], Awaitable[None]],
    *,
    first: float = 0.2,
    longest: float = 30.0,
) -> None:
    """Returns once the message is kept; until then it is offered again, less and less often. Offer
    the messages of one chat one after the other, and their order is kept."""
    pause = first
    while not await deliver_once(receive, event):
        await sleep(pause)
        pause = min(pause * 2, longest)


# Which messages of groups are for us. Pure rules; the adapter only says what it sees.


class GroupRules(msgspec.Struct, frozen=True):
    """How a platform's groups are answered. Channels are named by chat id or by thread id."""

    require_mention: bool = False
    """Only what is addressed to us is answered."""
    mention_patterns: tuple[str, ...] = ()
    """Regular expressions; text that has one of them is addressed to us."""
    free_response: frozenset[str] = frozenset()
    """Channels where everything is answered."""
    ignored: frozenset[str] = frozenset()
    """Channels where nothing is."""
    allowed: frozenset[str] = frozenset()
    """The only channels where anything is; empty is all."""


def group_rules(settings: Any) -> GroupRules:
    """The rules that a platform's section of config.yaml has, under whichever names it has them."""
    names: Mapping[str, Sequence[str]] = {
        "free_response": ("free_response_channels", "free_response_rooms"),
        "ignored": ("ignored_channels", "ignored_threads"),
        "allowed": ("allowed_channels",),
    }
    lists = {
        field: frozenset(str(value) for key in keys for value in getattr(settings, key, ()))
        for field, keys in names.items()
    }
    return GroupRules(
        require_mention=bool(getattr(settings, "require_mention", False)),
        mention_patterns=tuple(getattr(settings, "mention_patterns", ())),
        **lists,
    )


def compile_patterns(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """Raises `ConfigError` for one that is no regular expression."""
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern, re.IGNORECASE))
        except re.error as error:
            raise ConfigError(
                f"mention_patterns: {pattern!r} is no regular expression: {error}",
                hint="correct it with `hermes config edit`",
            ) from error
    return tuple(compiled)


def is_addressed(event: MessageEvent, rules: GroupRules) -> bool:
    """Mentioned, answered, in private, by a button, or by one of the patterns."""
    if event.addressed or event.button or event.source.chat_type == "dm":
        return True
    return any(pattern.search(event.text) for pattern in compile_patterns(rules.mention_patterns))


def is_for_us(event: MessageEvent, rules: GroupRules) -> bool:
    """Whether a message is to be answered at all."""
    source = event.source
    if source.chat_type == "dm":
        return True
    places = {source.chat_id, source.chat_now, source.thread_id} - {""}
    if places & rules.ignored or (rules.allowed and not places & rules.allowed):
        return False
    if not rules.require_mention or places & rules.free_response:
        return True
    return is_addressed(event, rules)


def mentions(text: str, names: Sequence[str]) -> bool:
    """Whether `@name` of one of the names is in the text, as a word of its own."""
    return any(_mention_pattern(name).search(text) for name in names if name)


def strip_mention(text: str, names: Sequence[str]) -> str:
    """The text without `@name` at its beginning or end, where it is only an address."""
    for name in filter(None, names):
        text = strip_address(text, _mention_pattern(name).pattern)
    return text


def strip_address(text: str, pattern: str) -> str:
    """The text without what matches `pattern` at its beginning or end."""
    text = re.sub(rf"\A\s*{pattern}[,:]?\s*", "", text, flags=re.IGNORECASE)
    # No pattern that begins with blanks: it takes minutes for a message of blanks.
    last = re.search(rf"{pattern}\Z", text.rstrip(), flags=re.IGNORECASE)
    return text[: last.start()].rstrip() if last else text


def _mention_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@])@{re.escape(name.removeprefix('@'))}(?!\w)", re.IGNORECASE)


# Small things an adapter keeps: a file written whole, and what was used last.

K = TypeVar("K")
V = TypeVar("V")


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Put it last; of more than `most` those used longest ago are forgotten."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]


async def write_in_thread(path: Path, data: bytes) -> None:
    """Beside other work. When it is cancelled it is finished first: nothing that is written later
    is overtaken by it. Raises OSError."""
    writing = asyncio.ensure_future(asyncio.to_thread(write_private, path, data))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.gather(writing, return_exceptions=True)
        raise


def write_private(path: Path, data: bytes) -> None:
    """For us alone. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic.write_bytes(path, data)


# How far we have read, over a restart, for platforms that do not deliver again what was written
# while we were away: we must know from where to ask.
#
# Names of messages tell when they were written. So one number says how far we are: everything
# older
# was taken or was not for us.

Id = TypeVar("Id", int, str)
"""A message, as the platform names it."""

MAX_RECENT = 512
"""Messages remembered one by one, since those of two channels may come in the wrong order."""
OVERLAP = 60.0
"""Seconds that are asked for again."""
MAX_AWAY_SECONDS = 24 * 3600.0
"""What is older is not answered any more."""
MAX_CHATS = 200
"""Private chats that are remembered: those used last."""
MAX_THREADS = 500
MAX_BATCHES = 50
WRITE_INTERVAL = 1.0
"""Seconds between two writes."""
_WRITE_FAILED = "how far %s was read cannot be kept: %s"


class IdScale(msgspec.Struct, frozen=True):
    """How a platform's names of messages grow with time."""

    position: Callable[[Any], int]
    """Of a message."""
    position_at: Callable[[float], int]
    """The first place of that time (seconds since 1970)."""
    time_of: Callable[[int], float]
    """Of a place."""


class _StoredPosition(msgspec.Struct):
    floor: int = 0
    """The place up to which everything is done; 0 before the first connection."""
    recent: list[Any] = []
    private: dict[str, str] = {}
    """Private chats and whom they are with, where the platform has no list of them."""
    threads: list[str] = []
    """Threads that we talk in, those used last at the end."""
    joined: list[list[Any]] = []
    """Messages that were given to the gateway as one, under the name of the first."""


class ReadPosition(Generic[Id]):
    def __init__(self, path: Path, platform: str, scale: IdScale) -> None:
        self._path, self._platform, self._scale = path, platform, scale
        self._state = _load(path, platform)
        self._recent: dict[Id, None] = dict.fromkeys(self._state.recent)
        self._threads = dict.fromkeys(self._state.threads)
        self._waiting: dict[Id, int] = {}
        self._newest = self._state.floor
        self._frozen = False
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()

    # how far

    def start(self, now: float) -> bool:
        """A connection is there: whether something may have been missed. If so, nothing later
        counts as done for good until `caught_up`. The first time there is nothing to make up
        for."""
        if self._state.floor:
            self._frozen = True
            return True
        self._state.floor = self._newest = self._scale.position_at(now)
        self._changed.set()
        return False

    def missed_since(self, now: float) -> int:
        """The place after which messages may have been missed."""
        floor = self._scale.time_of(self._state.floor)
        return self._scale.position_at(max(floor - OVERLAP, now - MAX_AWAY_SECONDS))

    def caught_up(self) -> None:
        """All that was written is known: from now on what is done is done for good."""
        self._frozen = False
        self._advance()

    def is_done(self, message: Id) -> bool:
        return message in self._recent

    def is_known(self, message: Id) -> bool:
        """Done, or being worked on."""
        return message in self._recent or message in self._waiting

    def mark_pending(self, message: Id) -> None:
        """It is not done: after a crash it must come again."""
        self._waiting[message] = self._scale.position(message)

    def mark_done(self, message: Id) -> None:
        """Taken, or not for us."""
        self._waiting.pop(message, None)
        remember(self._recent, message, None, MAX_RECENT)
        self._newest = max(self._newest, self._scale.position(message))
        self._advance()

    # what else must be known after a restart

    @property
    def private(self) -> dict[str, str]:
        return self._state.private

    def add_private(self, chat_id: str, name: str) -> None:
        remember(self._state.private, chat_id, name, MAX_CHATS)
        self._changed.set()

    @property
    def threads(self) -> tuple[str, ...]:
        return tuple(self._threads)

    def has_thread(self, thread: str) -> bool:
        return thread in self._threads

    def add_thread(self, thread: str) -> None:
        remember(self._threads, thread, None, MAX_THREADS)
        self._changed.set()

    async def record_batch(self, messages: Iterable[Id]) -> None:
        """These are about to be given to the gateway as one. Written down at once: after a crash
        they must be one again, neither more nor fewer. Raises OSError."""
        self._state.joined = [*self._state.joined, list(messages)][-MAX_BATCHES:]
        await self._write()

    def batch_of(self, message: Id) -> tuple[Id, ...]:
        """The messages that this one was given as one with, the first first; () for none."""
        return next((tuple(each) for each in self._state.joined if message in each), ())

    # on disk

    async def write_changes(self) -> None:
        """Write what changes, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._write()
            except OSError as error:
                logger.error(_WRITE_FAILED, self._platform, error)
            await asyncio.sleep(WRITE_INTERVAL)

    def flush(self) -> None:
        """At the end, when nobody else writes."""
        try:
            write_private(self._path, self._encode())
        except OSError as error:
            logger.error(_WRITE_FAILED, self._platform, error)

    async def _write(self) -> None:
        """One after the other: what is older must not be written over what is newer."""
        async with self._writing:
            await write_in_thread(self._path, self._encode())

    def _advance(self) -> None:
        if not self._frozen:
            oldest = min(self._waiting.values(), default=self._newest + 1)
            self._state.floor = min(self._newest, oldest - 1)
        self._changed.set()

    def _encode(self) -> bytes:
        self._state.recent, self._state.threads = list(self._recent), list(self._threads)
        return msgspec.json.encode(self._state)


def _load(path: Path, platform: str) -> _StoredPosition:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_StoredPosition)
    except FileNotFoundError:
        return _StoredPosition()
    except (OSError, msgspec.MsgspecError) as error:
        logger.error("how far %s was read is not known any more: %s", platform, error)
        return _StoredPosition()
