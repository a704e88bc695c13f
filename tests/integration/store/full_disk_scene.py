"""Two processes write until the disk is full, and go on when there is room. Run as a program.

    python -m tests.integration.store.full_disk_scene direct FOLDER     the director
    python -m tests.integration.store.full_disk_scene write FOLDER NAME a writer

FOLDER is a small file system of its own. A writer prints the result of each write on stdout, a JSON
object a line, and waits for a line on stdin before the next.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw

from hermes.core.errors import StoreFull
from hermes.core.messages import User
from hermes.store.session_store import SessionStore, open_store

WRITERS = ("one", "two")
BALLAST = 1_000_000
MORE = 5
"""Messages each writer adds once there is room again."""


class Writer:
    def __init__(self, store: SessionStore, name: str) -> None:
        self._store = store
        self._name = name
        self._number = 0
        self.kept: list[int] = []

    async def append(self, size: int) -> None:
        """Sizes shrink, so that the last page of the disk is fought for too."""
        text = f"{self._number} {os.urandom(size).hex()}"
        await self._store.append(self._name, User.say(text))
        self.kept.append(self._number)
        self._number += 1

    async def fill(self) -> dict[str, str]:
        """Until nothing fits any more; what the user would read."""
        error = StoreFull("never raised")
        for size in (9000, 2000, 300, 10):
            try:
                while True:
                    await self.append(size)
            except StoreFull as full:
                error = full
        return {"error": str(error), "hint": error.hint}


async def write(folder: Path, name: str) -> None:
    store = open_store("", folder / "state.db")
    await store.create(name, source="cli", model="m", system_prompt="")
    writer = Writer(store, name)
    tell({"ready": name})
    await asyncio.to_thread(sys.stdin.readline)
    tell({**await writer.fill(), "kept": writer.kept})
    await asyncio.to_thread(sys.stdin.readline)
    for _ in range(MORE):
        await writer.append(500)
    tell({"kept": writer.kept})
    store.close()


def tell(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Actor:
    """A writer, seen by the director."""

    def __init__(self, folder: Path, name: str) -> None:
        command = [sys.executable, "-m", __spec__.name, "write", str(folder), name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def cue(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))

    def leave(self) -> int:
        with contextlib.ExitStack() as pipes:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipes.enter_context(pipe)
            return self._process.wait()


def direct(folder: Path) -> None:
    """Plays the scene; one JSON object with what was seen."""
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(BALLAST))
    actors = [Actor(folder, name) for name in WRITERS]
    for actor in actors:
        actor.hear()
    seen: dict[str, Any] = {"full": play(actors), "integrity_when_full": integrity(folder)}
    ballast.unlink()
    seen["after"] = play(actors)
    seen["exit_codes"] = [actor.leave() for actor in actors]
    seen["integrity"] = integrity(folder)
    seen["stored"] = asyncio.run(stored(folder))
    tell(seen)


def play(actors: list[Actor]) -> list[dict[str, Any]]:
    for actor in actors:
        actor.cue()
    return [actor.hear() for actor in actors]


def integrity(folder: Path) -> str:
    connection = apsw.Connection(str(folder / "state.db"))
    try:
        return str(connection.execute("PRAGMA integrity_check").get)
    finally:
        connection.close()


async def stored(folder: Path) -> list[list[int]]:
    store = open_store("", folder / "state.db")
    logs = [await store.log(name) for name in WRITERS]
    store.close()
    texts = [[e.message.text for e in log if isinstance(e.message, User)] for log in logs]
    return [[int(text.split()[0]) for text in some] for some in texts]


def main(part: str, folder: str, *name: str) -> None:
    if part == "direct":
        direct(Path(folder))
    else:
        asyncio.run(write(Path(folder), *name))


if __name__ == "__main__":
    main(*sys.argv[1:])
