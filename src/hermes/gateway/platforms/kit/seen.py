"""How far we have read, over a restart, for platforms that do not deliver again what was written
while we were away: we must know from where to ask.

Names of messages tell when they were written. So one number says how far we are: everything older
was taken or was not for us.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hermes.gateway.platforms.kit.keeping import remember, write, write_whole

logger = logging.getLogger(__name__)

Name = TypeVar("Name", int, str)
"""A message, as the platform names it."""

RECENT = 512
"""Messages remembered one by one, since those of two channels may come in the wrong order."""
OVERLAP = 60.0
"""Seconds that are asked for again."""
LONGEST_AWAY = 24 * 3600.0
"""What is older is not answered any more."""
MOST_CHATS = 200
"""Private chats that are remembered: those used last."""
MOST_THREADS = 500
MOST_JOINED = 50
PAUSE = 1.0
"""Seconds between two writes."""
NOT_KEPT = "how far %s was read cannot be kept: %s"


class Scale(msgspec.Struct, frozen=True):
    """How a platform's names of messages grow with time."""

    place: Callable[[Any], int]
    """Of a message."""
    at: Callable[[float], int]
    """The first place of that time (seconds since 1970)."""
    time: Callable[[int], float]
    """Of a place."""


class State(msgspec.Struct):
    floor: int = 0
    """The place up to which everything is done; 0 before the first connection."""
    recent: list[Any] = []
    private: dict[str, str] = {}
    """Private chats and whom they are with, where the platform has no list of them."""
    threads: list[str] = []
    """Threads that we talk in, those used last at the end."""
    joined: list[list[Any]] = []
    """Messages that were given to the gateway as one, under the name of the first."""


class Seen(Generic[Name]):
    def __init__(self, path: Path, platform: str, scale: Scale) -> None:
        self._path, self._platform, self._scale = path, platform, scale
        self._state = _read(path, platform)
        self._recent: dict[Name, None] = dict.fromkeys(self._state.recent)
        self._threads = dict.fromkeys(self._state.threads)
        self._waiting: dict[Name, int] = {}
        self._newest = self._state.floor
        self._frozen = False
        self._changed = asyncio.Event()
        self._writing = asyncio.Lock()

    # how far

    def begin(self, now: float) -> bool:
        """A connection is there: whether something may have been missed. If so, nothing later
        counts as done for good until `nothing_missed`. The first time there is nothing to make up
        for."""
        if self._state.floor:
            self._frozen = True
            return True
        self._state.floor = self._newest = self._scale.at(now)
        self._changed.set()
        return False

    def missed_since(self, now: float) -> int:
        """The place after which messages may have been missed."""
        floor = self._scale.time(self._state.floor)
        return self._scale.at(max(floor - OVERLAP, now - LONGEST_AWAY))

    def nothing_missed(self) -> None:
        """All that was written is known: from now on what is done is done for good."""
        self._frozen = False
        self._rise()

    def is_done(self, message: Name) -> bool:
        return message in self._recent

    def is_known(self, message: Name) -> bool:
        """Done, or being worked on."""
        return message in self._recent or message in self._waiting

    def wait_for(self, message: Name) -> None:
        """It is not done: after a crash it must come again."""
        self._waiting[message] = self._scale.place(message)

    def done(self, message: Name) -> None:
        """Taken, or not for us."""
        self._waiting.pop(message, None)
        remember(self._recent, message, None, RECENT)
        self._newest = max(self._newest, self._scale.place(message))
        self._rise()

    # what else must be known after a restart

    @property
    def private(self) -> dict[str, str]:
        return self._state.private

    def add_private(self, chat_id: str, name: str) -> None:
        remember(self._state.private, chat_id, name, MOST_CHATS)
        self._changed.set()

    @property
    def threads(self) -> tuple[str, ...]:
        return tuple(self._threads)

    def talks_in(self, thread: str) -> bool:
        return thread in self._threads

    def add_thread(self, thread: str) -> None:
        remember(self._threads, thread, None, MOST_THREADS)
        self._changed.set()

    async def join(self, messages: Iterable[Name]) -> None:
        """These are about to be given to the gateway as one. Written down at once: after a crash
        they must be one again, neither more nor fewer. Raises OSError."""
        self._state.joined = [*self._state.joined, list(messages)][-MOST_JOINED:]
        await self._save()

    def joined_with(self, message: Name) -> tuple[Name, ...]:
        """The messages that this one was given as one with, the first first; () for none."""
        return next((tuple(each) for each in self._state.joined if message in each), ())

    # on disk

    async def keep(self) -> None:
        """Write what changes, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._save()
            except OSError as error:
                logger.error(NOT_KEPT, self._platform, error)
            await asyncio.sleep(PAUSE)

    def write(self) -> None:
        """At the end, when nobody else writes."""
        try:
            write(self._path, self._encoded())
        except OSError as error:
            logger.error(NOT_KEPT, self._platform, error)

    async def _save(self) -> None:
        """One after the other: what is older must not be written over what is newer."""
        async with self._writing:
            await write_whole(self._path, self._encoded())

    def _rise(self) -> None:
        if not self._frozen:
            oldest = min(self._waiting.values(), default=self._newest + 1)
            self._state.floor = min(self._newest, oldest - 1)
        self._changed.set()

    def _encoded(self) -> bytes:
        self._state.recent, self._state.threads = list(self._recent), list(self._threads)
        return msgspec.json.encode(self._state)


def _read(path: Path, platform: str) -> State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except (OSError, msgspec.MsgspecError) as error:
        logger.error("how far %s was read is not known any more: %s", platform, error)
        return State()
