"""Writers that are killed at any instant. Run as a program: see `main`.

The program imports everything, opens nothing and has no threads, so it can fork a ready writer in
a few milliseconds.
"""

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import apsw

from hermes.core.messages import User
from hermes.store.session_store import SessionStore, open_store


class Order(NamedTuple):
    """One life of a writer."""

    path: str
    run: int
    seed: int


def text_of(session: str, number: int, size: int) -> str:
    """A text that says what it is and can be checked: number, size, checksum, filling."""
    size = max(size, 2 * len(session) + 20)
    filling = (f"{session} wrote {number} " * (size // 8 + 1))[:size]
    return f"{number} {size} {zlib.crc32(filling.encode())} {filling}"


class Life:
    """What a writer does until it is killed; every acknowledged message is reported at once."""

    def __init__(self, store: SessionStore, order: Order, report: int) -> None:
        self._store = store
        self._path = order.path
        self._report = report
        self._prefix = f"run-{order.run}"
        self._chance = random.Random(order.seed)
        self._sessions = 0
        self._session = ""
        self._number = 0
        self._steps = (
            self._one,
            self._one,
            self._group,
            self._large,
            self._start,
            self._checkpoint,
        )

    async def live(self) -> None:
        await self._start()
        while True:
            await self._chance.choice(self._steps)()

    async def _start(self) -> None:
        session, self._sessions = f"{self._prefix}-{self._sessions}", self._sessions + 1
        await self._store.create(session, source="cli", model="m", system_prompt="")
        self._session, self._number = session, 0
        self._say(f"session {session}")

    async def _one(self) -> None:
        await self._append(self._chance.randrange(300))

    async def _group(self) -> None:
        count = self._chance.randint(2, 80)
        await asyncio.gather(*(self._append(self._chance.randrange(200)) for _ in range(count)))

    async def _large(self) -> None:
        await self._append(self._chance.randrange(20_000, 300_000))

    async def _checkpoint(self) -> None:
        mode = self._chance.choice(
            (
                apsw.SQLITE_CHECKPOINT_PASSIVE,
                apsw.SQLITE_CHECKPOINT_RESTART,
                apsw.SQLITE_CHECKPOINT_TRUNCATE,
            )
        )
        connection = apsw.Connection(self._path)
        connection.set_busy_timeout(1000)
        connection.wal_checkpoint(mode=mode)
        connection.close()

    async def _append(self, size: int) -> None:
        session, number = self._session, self._number
        self._number += 1
        row = await self._store.append(session, User.say(text_of(session, number, size)))
        self._say(f"message {session} {number} {row}")

    def _say(self, line: str) -> None:
        os.write(self._report, f"{line}\n".encode())


def be_a_writer(order: Order, report: int) -> None:
    store = open_store("", Path(order.path))
    asyncio.run(Life(store, order, report).live())


def kill_one(order: Order) -> list[str]:
    """Fork a writer, kill it at a random instant; what it reported until then."""
    chance = random.Random(order.seed)
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            be_a_writer(order, outlet)
        finally:
            os._exit(70)
    os.close(outlet)
    # Most die while they write, some while they open the file.
    if chance.random() < 0.9:
        select.select([inlet], [], [], 30)
    time.sleep(chance.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    with os.fdopen(inlet, "rb") as pipe:
        *lines, _incomplete = pipe.read().decode().split("\n")
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise SystemExit(f"{order}: the writer ended by itself")
    return lines


def main() -> None:
    """An order a line on stdin, the report of that writer a line on stdout."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(kill_one(Order(*json.loads(line)))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
