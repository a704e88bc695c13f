"""How far we have read, over a restart. Discord does not deliver again what was written while we
were away, so we must know from where to ask.

Ids of Discord grow with time, over all channels. So one id says how far we are: everything older
was taken or was not for us.
"""

import asyncio
import logging
import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hermes.util import atomic

logger = logging.getLogger(__name__)

EPOCH = 1_420_070_400.0
"""The second (since 1970) that Discord's ids count from."""
RECENT = 512
"""Ids remembered one by one, since messages of two channels may come in the wrong order."""
OVERLAP = 60.0
"""Seconds that are asked for again."""
LONGEST_AWAY = 24 * 3600.0
"""What is older is not answered any more."""
MOST_CHATS = 200
"""Private chats, and threads, that are remembered: those used last."""
PAUSE = 1.0
"""Seconds between two writes."""


def id_at(seconds: float) -> int:
    """The least id of that time."""
    return max(int((seconds - EPOCH) * 1000), 0) << 22


def time_of(number: int) -> float:
    return (number >> 22) / 1000 + EPOCH


class State(msgspec.Struct):
    floor: int = 0
    """Everything up to this id is done; 0 before the first connection."""
    recent: list[int] = []
    private: dict[str, str] = {}
    """Private chats and whom they are with; Discord has no list of them."""
    threads: list[str] = []
    """Threads that we talk in."""


class Seen:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = _read(path)
        self._recent = dict.fromkeys(self._state.recent)
        self._waiting: set[int] = set()
        self._newest = self._state.floor
        self._frozen = False
        self._changed = asyncio.Event()
        self._saving, self._number, self._saved = threading.Lock(), 0, 0

    def start(self, now: float) -> None:
        """The first time there is nothing to make up for."""
        if not self._state.floor:
            self._state.floor = self._newest = id_at(now)
            self._changed.set()

    def missed_since(self, now: float) -> int:
        """The id after which messages may have been missed."""
        return id_at(max(time_of(self._state.floor) - OVERLAP, now - LONGEST_AWAY))

    def is_new(self, number: int) -> bool:
        return number not in self._recent and number not in self._waiting

    def wait_for(self, numbers: Iterable[int]) -> None:
        """These are not done: after a crash they must come again."""
        self._waiting.update(numbers)

    def done(self, number: int) -> None:
        """Taken, or not for us."""
        self._waiting.discard(number)
        self._recent[number] = None
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        self._newest = max(self._newest, number)
        self._rise()

    def freeze(self) -> None:
        """Something may be missing: nothing later counts as done for good until `thaw`."""
        self._frozen = True

    def thaw(self) -> None:
        self._frozen = False
        self._rise()

    @property
    def private(self) -> dict[str, str]:
        return self._state.private

    def add_private(self, chat_id: str, name: str) -> None:
        self._state.private.pop(chat_id, None)
        self._state.private[chat_id] = name
        while len(self._state.private) > MOST_CHATS:
            del self._state.private[next(iter(self._state.private))]
        self._changed.set()

    def talks_in(self, thread_id: str) -> bool:
        return thread_id in self._state.threads

    def add_thread(self, thread_id: str) -> None:
        if not self.talks_in(thread_id):
            self._state.threads = [*self._state.threads, thread_id][-MOST_CHATS:]
            self._changed.set()

    async def keep(self) -> None:
        """Write what changes, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await asyncio.to_thread(self._save, *self._snapshot())
            except OSError as error:
                logger.error("how far Discord was read cannot be kept: %s", error)
            await asyncio.sleep(PAUSE)

    def write(self) -> None:
        """Raises OSError."""
        self._save(*self._snapshot())

    def _rise(self) -> None:
        if not self._frozen:
            oldest = min(self._waiting, default=self._newest + 1)
            self._state.floor = min(self._newest, oldest - 1)
        self._changed.set()

    def _snapshot(self) -> tuple[int, bytes]:
        self._number += 1
        self._state.recent = list(self._recent)
        return self._number, msgspec.json.encode(self._state)

    def _save(self, number: int, data: bytes) -> None:
        """A thread that was slow must not write over what is newer."""
        with self._saving:
            if number > self._saved:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                atomic.write_bytes(self._path, data)
                self._saved = number


def _read(path: Path) -> State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except (OSError, msgspec.DecodeError) as error:
        logger.error("how far Discord was read is not known any more: %s", error)
        return State()
