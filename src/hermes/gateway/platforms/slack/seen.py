"""How far we have read, over a restart, and the threads we talk in. Slack delivers again what we do
not acknowledge, but not what is written while nobody is connected.

The name of a message is its time, so one time says how far we are: everything older was taken or
was not for us.
"""

import asyncio
import logging
from pathlib import Path

import msgspec

from hermes.gateway.platforms.slack.ids import message_id, micros, ts_at, ts_of
from hermes.util import atomic

logger = logging.getLogger(__name__)

RECENT = 512
"""Messages remembered one by one, since those of two channels may come in the wrong order."""
OVERLAP = 60.0
"""Seconds that are asked for again."""
LONGEST_AWAY = 24 * 3600.0
"""What is older is not answered any more."""
MOST_THREADS = 500
PAUSE = 1.0
"""Seconds between two writes."""


class State(msgspec.Struct):
    floor: int = 0
    """Microseconds since 1970 up to which everything is done; 0 before the first connection."""
    recent: list[str] = []
    threads: list[str] = []
    """Threads that we talk in, those used last at the end."""


class Seen:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._state = _read(path)
        self._recent = dict.fromkeys(self._state.recent)
        self._threads = dict.fromkeys(self._state.threads)
        self._waiting: dict[str, int] = {}
        self._newest = self._state.floor
        self._frozen = False
        self._changed = asyncio.Event()

    def begin(self, now: float) -> bool:
        """A connection is there: whether something may have been missed. The first time there is
        nothing to make up for."""
        if self._state.floor:
            self._frozen = True
            return True
        self._state.floor = self._newest = micros(ts_at(now))
        self._changed.set()
        return False

    def missed_since(self, now: float) -> str:
        """The time after which messages may have been missed."""
        return ts_at(max(self._state.floor / 1e6 - OVERLAP, now - LONGEST_AWAY))

    def nothing_missed(self) -> None:
        """All that was written is known: from now on what is done is done for good."""
        self._frozen = False
        self._rise()

    def is_done(self, message: str) -> bool:
        return message in self._recent

    def is_known(self, message: str) -> bool:
        """Done, or being worked on."""
        return message in self._recent or message in self._waiting

    def wait_for(self, message: str) -> None:
        """It is not done: after a crash it must come again."""
        self._waiting[message] = micros(ts_of(message))

    def done(self, message: str) -> None:
        """Taken, or not for us."""
        self._waiting.pop(message, None)
        self._recent[message] = None
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        self._newest = max(self._newest, micros(ts_of(message)))
        self._rise()

    def talks_in(self, chat_id: str, thread: str) -> bool:
        return message_id(chat_id, thread) in self._threads

    def add_thread(self, chat_id: str, thread: str) -> None:
        name = message_id(chat_id, thread)
        self._threads.pop(name, None)
        self._threads[name] = None
        while len(self._threads) > MOST_THREADS:
            del self._threads[next(iter(self._threads))]
        self._changed.set()

    def threads_of(self, chat_id: str, most: int) -> list[str]:
        """Those of a chat that were used last."""
        names = [name for name in self._threads if name.rpartition(":")[0] == chat_id]
        return [ts_of(name) for name in names[-most:]]

    async def keep(self) -> None:
        """Write what changes, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            data = self._encoded()
            try:
                await write_whole(self._path, data)
            except OSError as error:
                logger.error("how far Slack was read cannot be kept: %s", error)
            await asyncio.sleep(PAUSE)

    def write(self) -> None:
        try:
            write(self._path, self._encoded())
        except OSError as error:
            logger.error("how far Slack was read cannot be kept: %s", error)

    def _rise(self) -> None:
        if not self._frozen:
            oldest = min(self._waiting.values(), default=self._newest + 1)
            self._state.floor = min(self._newest, oldest - 1)
        self._changed.set()

    def _encoded(self) -> bytes:
        self._state.recent, self._state.threads = list(self._recent), list(self._threads)
        return msgspec.json.encode(self._state)


def _read(path: Path) -> State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except (OSError, msgspec.MsgspecError) as error:
        logger.error("how far Slack was read is not known any more: %s", error)
        return State()


async def write_whole(path: Path, data: bytes) -> None:
    """Beside other work. When it is cancelled it is finished first: nothing that is written later
    is overtaken by it. Raises OSError."""
    writing = asyncio.ensure_future(asyncio.to_thread(write, path, data))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.gather(writing, return_exceptions=True)
        raise


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    atomic.write_bytes(path, data)
