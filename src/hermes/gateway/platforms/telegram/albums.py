"""Albums: several updates that are one message.

Telegram wants each update acknowledged before it sends the next, so the first ones cannot wait
unacknowledged for the last. They are kept here on disk until the album is whole, and are there
after a crash.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.ports import Clock
from hermes.gateway.platforms.kit.tasks import Tasks
from hermes.gateway.platforms.telegram.journal import Journal
from hermes.util import atomic

log = logging.getLogger(__name__)

Update = dict[str, Any]
Deliver = Callable[[Sequence[Update]], Awaitable[bool]]
"""Gives an album to the gateway; whether it was kept."""
RETRY = 1.0


class Album(msgspec.Struct, eq=False):
    chat_id: int
    due: float
    updates: dict[int, Update] = {}


class Albums:
    def __init__(self, folder: Path, journal: Journal, clock: Clock, wait: float) -> None:
        """`wait` is how many seconds after the last part an album is taken for whole."""
        self._folder, self._journal, self._clock, self._wait = folder, journal, clock, wait
        self._albums: dict[str, Album] = {}
        self._tasks = Tasks()
        self._turn = asyncio.Lock()

    def start(self, deliver: Deliver) -> None:
        """Go on with what an earlier process held."""
        self._deliver = deliver
        for path in sorted(self._folder.glob("*.json")):
            try:
                update = msgspec.json.decode(path.read_bytes(), type=Update)
                if update["update_id"] in self._journal.merged:
                    path.unlink()  # taken just before a crash
                else:
                    self._add(update)
            except (msgspec.MsgspecError, KeyError, OSError):
                log.warning("a held part of an album cannot be read: %s", path.name)

    async def stop(self) -> None:
        """What is held stays on disk."""
        await self._tasks.close()
        self._albums.clear()

    async def hold(self, update: Update) -> bool:
        """Keep a part; True once it is on disk."""
        number = update["update_id"]
        if number in self._journal.merged:
            return True  # delivered again after it was taken
        try:
            await asyncio.to_thread(self._write, number, msgspec.json.encode(update))
        except OSError as error:
            log.error("a part of an album cannot be kept: %s", error.strerror)
            return False
        self._add(update)
        return True

    async def flush(self, chat_id: int) -> bool:
        """Give albums of a chat to the gateway before something else of it; whether they were
        kept."""
        groups = [name for name, album in self._albums.items() if album.chat_id == chat_id]
        return all([await self._give(group) for group in groups])

    def _write(self, number: int, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic.write_bytes(self._folder / f"{number}.json", data)

    def _add(self, update: Update) -> None:
        message = update.get("message") or update["channel_post"]
        group = message["media_group_id"]
        due = self._clock.monotonic() + self._wait
        if group not in self._albums:
            self._albums[group] = Album(message["chat"]["id"], due)
            self._tasks.start(self._later(group))
        self._albums[group].updates[update["update_id"]] = update
        self._albums[group].due = due

    async def _later(self, group: str) -> None:
        while album := self._albums.get(group):
            left = album.due - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
            elif not await self._give(group):
                await self._clock.sleep(RETRY)

    async def _give(self, group: str) -> bool:
        async with self._turn:
            album = self._albums.get(group)
            if album is None:
                return True
            updates = dict(album.updates)
            if not await self._deliver([updates[number] for number in sorted(updates)]):
                return False
            self._journal.merge(tuple(updates))
            for number in updates:
                album.updates.pop(number)
                with contextlib.suppress(OSError):  # it would be offered again and known
                    (self._folder / f"{number}.json").unlink()
            if not album.updates:
                self._albums.pop(group)
            return True
