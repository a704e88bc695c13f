"""Inbound messages: delivery to the gateway, rules for groups, and the position read so far."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hermes.core.errors import ConfigError
from hermes.sdk.platforms.contract import MessageEvent, Receive
from hermes.util import files

logger = logging.getLogger(__name__)
K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")
M = TypeVar("M")
Id = TypeVar("Id", int, str)  #: A message id of the platform.
MAX_RECENT = 512
"""Messages remembered individually, because those of two channels may arrive out of order."""
OVERLAP = 60.0  #: Seconds before the position that are read again.
MAX_AWAY_SECONDS = 24 * 3600.0  #: Older messages are not answered any more.
MAX_CHATS = 200  #: Private chats remembered, the most recently used.
MAX_THREADS = 500
MAX_BATCHES = 50
MAX_FETCH_PAUSE = 30.0  #: Longest pause in seconds between attempts to fetch missed messages.
WRITE_INTERVAL = 1.0  #: Seconds between two writes.
_WRITE_FAILED = "the read position of %s cannot be written: %s"


async def deliver_once(receive: Receive, event: MessageEvent) -> bool:
    """Pass an event to the gateway. An exception is logged and returned as False (not stored)."""
    try:
        return await receive(event)
    except Exception:  # the connection must survive every failure of the gateway
        logger.exception("a message of %s could not be stored", event.source.platform)
        return False


async def deliver_until_accepted(
    receive: Receive,
    event: MessageEvent,
    sleep: Callable[[float], Awaitable[None]],
    *,
    first: float = 0.2,
    longest: float = 30.0,
) -> None:
    """Return once the gateway has stored the message, retrying after growing pauses. Deliver the
    messages of one chat one after the other to keep their order."""
    pause = first
    while not await deliver_once(receive, event):
        await sleep(pause)
        pause = min(pause * 2, longest)


class GroupRules(msgspec.Struct, frozen=True):
    """Which messages of groups are answered. Channels are given by chat id or thread id."""

    require_mention: bool = False  #: Answer only messages addressed to us.
    mention_patterns: tuple[str, ...] = ()
    """Regular expressions; matching text counts as addressed to us."""
    free_response: frozenset[str] = frozenset()  #: Channels where every message is answered.
    ignored: frozenset[str] = frozenset()  #: Channels where no message is answered.
    allowed: frozenset[str] = frozenset()  #: If set, the only channels where messages are answered.


def group_rules(settings: Any) -> GroupRules:
    """Return the rules in a platform's section of config.yaml, under any of their names."""
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
    """Raises `ConfigError` for an invalid regular expression."""
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re.compile(pattern, re.IGNORECASE))
        except re.error as error:
            raise ConfigError(
                f"mention_patterns: {pattern!r} is not a regular expression: {error}",
                hint="fix it with `hermes config edit`",
            ) from error
    return tuple(compiled)


def is_addressed(event: MessageEvent, rules: GroupRules) -> bool:
    """True for mentions, replies, private messages, buttons and matches of `mention_patterns`."""
    if event.addressed or event.button or event.source.chat_type == "dm":
        return True
    return any(pattern.search(event.text) for pattern in compile_patterns(rules.mention_patterns))


def is_for_us(event: MessageEvent, rules: GroupRules) -> bool:
    """True if the message is to be answered."""
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
    """True if the text contains `@name` of one of the names as a separate word."""
    return any(_mention_pattern(name).search(text) for name in names if name)


def strip_mention(text: str, names: Sequence[str]) -> str:
    """Return the text without `@name` at its beginning or end, where it is only an address."""
    for name in filter(None, names):
        text = strip_address(text, _mention_pattern(name).pattern)
    return text


def strip_address(text: str, pattern: str) -> str:
    """Return the text without a match of `pattern` at its beginning or end."""
    text = re.sub(rf"\A\s*{pattern}[,:]?\s*", "", text, flags=re.IGNORECASE)
    # The pattern must not begin with blanks: on a text of blanks it would take minutes.
    last = re.search(rf"{pattern}\Z", text.rstrip(), flags=re.IGNORECASE)
    return text[: last.start()].rstrip() if last else text


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Insert an entry as the most recent one; drop the oldest entries beyond `most`."""
    known.pop(key, None)
    known[key] = value
    while len(known) > most:
        del known[next(iter(known))]


async def write_in_thread(path: Path, data: bytes) -> None:
    """Write the file in a thread. A cancelled write is finished first, so it cannot overtake a
    later one. Raises OSError."""
    writing = asyncio.ensure_future(asyncio.to_thread(write_private, path, data))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.gather(writing, return_exceptions=True)
        raise


def load_state(path: Path, kind: type[T], default: T, what: str) -> T:
    """Return the content of a JSON file; `default` when it is missing or cannot be read, which is
    logged with `what` it is."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return default
    except (OSError, msgspec.MsgspecError) as error:
        logger.error("%s is lost: %s", what, error)
        return default


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only we may read. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.write_bytes(path, data)


class IdScale(msgspec.Struct, frozen=True):
    """How a platform's message ids grow with time."""

    position: Callable[[Any], int]  #: Position of a message id.
    position_at: Callable[[float], int]  #: First position of a time (seconds since 1970).
    time_of: Callable[[int], float]  #: Time of a position.


class _StoredPosition(msgspec.Struct):
    floor: int = 0  #: Every message up to this position is done; 0 before the first connection.
    recent: list[Any] = []
    private: dict[str, str] = {}
    """Private chats with their users' names, where the platform has no list of them."""
    threads: list[str] = []  #: Threads we take part in, most recently used last.
    joined: list[list[Any]] = []
    """Messages delivered to the gateway as one, under the id of the first."""


class ReadPosition(Generic[Id]):
    """How far messages were read, across restarts, for platforms that do not deliver missed ones.

    Ids of messages grow with time, so one number is enough: every older message was accepted or
    was not for us.
    """

    def __init__(self, path: Path, platform: str, scale: IdScale) -> None:
        self._path, self._platform, self._scale = path, platform, scale
        what = f"the read position of {platform}"
        self._state = load_state(path, _StoredPosition, _StoredPosition(), what)
        self._recent: dict[Id, None] = dict.fromkeys(self._state.recent)
        self._threads = dict.fromkeys(self._state.threads)
        self._waiting: dict[Id, int] = {}
        self._newest = self._state.floor
        self._frozen = False
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()

    def start(self, now: float) -> bool:
        """Begin a connection; return True if messages may have been missed.

        In that case later messages do not advance the position until `caught_up` is called. On the
        first connection there is nothing to catch up with.
        """
        if self._state.floor:
            self._frozen = True
            return True
        self._state.floor = self._newest = self._scale.position_at(now)
        self._changed.set()
        return False

    def missed_since(self, now: float) -> int:
        """Return the position after which messages may have been missed."""
        floor = self._scale.time_of(self._state.floor)
        return self._scale.position_at(max(floor - OVERLAP, now - MAX_AWAY_SECONDS))

    def caught_up(self) -> None:
        """Let finished messages advance the position again: every missed message is known."""
        self._frozen = False
        self._advance()

    def is_done(self, message: Id) -> bool:
        return message in self._recent

    def is_known(self, message: Id) -> bool:
        """True if the message is finished or in progress."""
        return message in self._recent or message in self._waiting

    def mark_pending(self, message: Id) -> None:
        """Record that the message is in progress: after a crash it must be read again."""
        self._waiting[message] = self._scale.position(message)

    def mark_done(self, message: Id) -> None:
        """Record that the message was accepted or is not for us."""
        self._waiting.pop(message, None)
        remember(self._recent, message, None, MAX_RECENT)
        self._newest = max(self._newest, self._scale.position(message))
        self._advance()

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
        """Record messages that are about to be delivered as one. Written at once, because after a
        crash the same messages must be joined again. Raises OSError."""
        self._state.joined = [*self._state.joined, list(messages)][-MAX_BATCHES:]
        await self._write()

    def batch_of(self, message: Id) -> tuple[Id, ...]:
        """Return the messages this one was delivered with, in order; () for none."""
        return next((tuple(each) for each in self._state.joined if message in each), ())

    async def write_changes(self) -> None:
        """Write every change, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._write()
            except OSError as error:
                logger.error(_WRITE_FAILED, self._platform, error)
            await asyncio.sleep(WRITE_INTERVAL)

    def flush(self) -> None:
        """Write the final state, when `write_changes` has ended."""
        try:
            write_private(self._path, self._encode())
        except OSError as error:
            logger.error(_WRITE_FAILED, self._platform, error)

    async def _write(self) -> None:
        """Writes happen one at a time, so an older state never replaces a newer one."""
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


class CatchUpQueue(Generic[M]):
    """Holds live messages back while missed ones are fetched, and releases them in order."""

    def __init__(
        self,
        position: ReadPosition[Any],
        fetch: Callable[[], Awaitable[Sequence[M]]],
        release: Callable[[Sequence[M], Sequence[M]], None],
        errors: tuple[type[Exception], ...],
        *,
        longest: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`fetch` returns the missed messages and may raise any of `errors`, after which it is
        repeated; `release` takes the missed messages and those held back. None are held for more
        than `longest` seconds, or after a failed attempt."""
        self._position, self._fetch, self._release_to = position, fetch, release
        self._errors, self._longest, self._sleep = errors, longest, sleep
        self._held: list[M] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Hold messages back from now on, and fetch the missed ones."""
        self._held = self._held or []
        self._cancel()
        if self._longest is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._longest, self._release, ())
        self._task = asyncio.create_task(self._run())

    def hold(self, message: M) -> bool:
        """Hold a live message back; return False if none are held now."""
        if self._held is None:
            return False
        self._held.append(message)
        return True

    async def close(self) -> None:
        self._cancel()
        if self._task:
            await asyncio.wait([self._task])

    def _cancel(self) -> None:
        for running in (self._timer, self._task):
            if running:
                running.cancel()

    async def _run(self) -> None:
        pause = 1.0
        while True:
            try:
                self._release(await self._fetch())
            except self._errors as error:
                logger.warning("missed messages cannot be fetched yet: %s", error)
                self._release(())  # new messages need not wait for the missed ones
                await self._sleep(pause)
                pause = min(pause * 2, MAX_FETCH_PAUSE)
            else:
                self._position.caught_up()
                return

    def _release(self, missed: Sequence[M]) -> None:
        held, self._held = self._held or [], None
        self._release_to(missed, held)


def _mention_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w@])@{re.escape(name.removeprefix('@'))}(?!\w)", re.IGNORECASE)
