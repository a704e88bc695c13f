"""Processes that share one store. Run as a program: `python -m … PART STORE ARGUMENTS`.

`append STORE SESSION COUNT` logs numbered messages, single and in groups.
`hold STORE` holds the write lock until a line comes in.
`serve STORE` does what the lines on stdin say: `append SESSION TEXT` or `texts SESSION`.
`compete STORE URL NAME STEP` takes, when a line comes in, whatever it can get before its rival,
from the first to the last or, with the step -1, from the last to the first.
`answer STORE URL NAME` receives and answers messages until it is killed.
Each answers on stdout, one JSON value a line.
"""

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw

from hermes.core.errors import StoreConflict, StoreError
from hermes.core.messages import User
from hermes.store.records import InboxItem, OutboxItem
from hermes.store.session_store import SessionStore, open_store

ROOT = Path(__file__).resolve().parents[3]
GROUP = 10
NOW = 1000.0
WANTED = 60


class Actor:
    """One such process, seen from a test."""

    def __init__(self, part: str, store: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.integration.store.actors", part, str(store)]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, line: str) -> Any:
        self.say(line)
        return self.hear()

    def end(self) -> int:
        """Wait for the end of the process; its exit code."""
        self.process.communicate()
        return self.process.returncode


@contextmanager
def acting(part: str, store: Path, *arguments: str) -> Iterator[Actor]:
    """An actor that is gone at the end, whatever happened."""
    with ExitStack() as stack:
        actor = Actor(part, store, *arguments)
        stack.enter_context(actor.process)
        stack.callback(actor.process.kill)
        yield actor


async def append(path: Path, session: str, count: str) -> None:
    """Rounds of a single message and a group; the ids in the end, or the error."""
    store = open_store("", path)
    await store.create(session, source="cli", model="m", system_prompt="")
    numbers = iter(range(int(count)))
    ids: list[int] = []
    for number in numbers:
        ids.append(await log_number(store, session, number))
        group = [next(numbers, None) for _ in range(GROUP)]
        ids += await asyncio.gather(
            *(log_number(store, session, one) for one in group if one is not None)
        )
    store.close()
    answer(ids)


async def log_number(store: SessionStore, session: str, number: int) -> int:
    return await store.append(session, User.say(f"{number} of {session}"))


async def hold(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    answer("held")
    await asyncio.to_thread(sys.stdin.readline)
    connection.execute("ROLLBACK")
    connection.close()
    answer("released")


async def serve(path: Path) -> None:
    store = open_store("", path)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command, session, *text = line.split(maxsplit=2)
        try:
            if command == "append":
                answer(await store.append(session, User.say(text[0].strip())))
            else:
                answer([message.text for message in await store.messages(session)])
        except StoreError as error:
            answer({"error": str(error)})
    store.close()


async def compete(path: Path, url: str, name: str, step: str) -> None:
    """What it got of each kind, by number."""
    store = open_store(url, path)
    await store.queue_counts()
    answer("ready")
    await asyncio.to_thread(sys.stdin.readline)
    got: dict[str, list[int]] = {"messages": [], "rows": [], "chats": [], "runs": [], "jobs": []}
    for number in range(WANTED)[:: int(step)]:
        same = str(number)
        (row,) = await store.outbox.enqueue((draft_of(same),), NOW)
        won = {
            "messages": await store.inbox.receive(InboxItem("fake", "", same, same, b"{}"), NOW),
            "rows": await store.outbox.mark_sending(row),
            "chats": await store.chats.claim(same, name, NOW, NOW + 60),
            "runs": await store.runs.claim("job", float(number), name, NOW, NOW + 60),
            "jobs": await is_saved(store, same),
        }
        for kind in got:
            got[kind] += [number] if won[kind] else []
    store.close()
    answer(got)


async def is_saved(store: SessionStore, job: str) -> bool:
    try:
        await store.runs.save_job(job, b"{}", None)
    except StoreConflict:
        return False
    return True


async def answer_messages(path: Path, url: str, name: str) -> None:
    """A line for each message that was answered, with three rows."""
    store = open_store(url, path)
    for number in itertools.count():
        key = f"{name}-{number}"
        row = await store.inbox.receive(InboxItem("fake", "", key, key, b"{}"), NOW)
        right = await store.chats.claim(key, name, NOW, NOW + 60)
        assert row is not None and right is not None
        await store.inbox.start((row,), "s", right)
        drafts = tuple(draft_of(f"{key}-{part}", inbox_id=row) for part in range(3))
        await store.inbox.answer((row,), drafts, right, NOW)
        answer(key)


def draft_of(key: str, **given: Any) -> OutboxItem:
    return OutboxItem(key, "fake", "", b"{}", key, b"{}", **given)


def answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


PARTS: dict[str, Callable[..., Any]] = {
    "append": append,
    "hold": hold,
    "serve": serve,
    "compete": compete,
    "answer": answer_messages,
}


def main(part: str, store: str, *arguments: str) -> None:
    asyncio.run(PARTS[part](Path(store), *arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
