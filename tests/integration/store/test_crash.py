"""A writer that is killed at a random instant: what was acknowledged is there, in a sound file."""

import json
import logging
import random
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from hermes.store.records import SearchRequest
from hermes.store.session_store import open_store
from tests.integration.store.nursery import Order

ROOT = Path(__file__).resolve().parents[3]
KILLS_PER_FILE = 20
FILES = 12

log = logging.getLogger(__name__)


class Reported(NamedTuple):
    """The writes to one file that were confirmed."""

    sessions: set[str]
    messages: dict[int, tuple[str, int]]
    """By row id: session and number."""

    def add(self, lines: list[str]) -> None:
        for line in lines:
            kind, session, *numbers = line.split()
            self.sessions.add(session)
            if kind == "message":
                number, row = map(int, numbers)
                assert row not in self.messages, "two messages were given one id"
                self.messages[row] = session, number


@pytest.fixture(scope="module")
def nursery() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.integration.store.nursery"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.communicate()
    assert process.returncode == 0


def kill_a_writer(nursery: "subprocess.Popen[str]", order: Order) -> list[str]:
    assert nursery.stdin is not None and nursery.stdout is not None
    nursery.stdin.write(json.dumps(order) + "\n")
    nursery.stdin.flush()
    answer = nursery.stdout.readline()
    assert answer, "the nursery died; see its stderr"
    return list(json.loads(answer))


@pytest.mark.parametrize("file", range(FILES))
async def test_nothing_acknowledged_is_lost_when_writers_are_killed(nursery, tmp_path, file):
    path, copy = tmp_path / "state.db", tmp_path / "copy.db"
    reported = Reported(set(), {})
    for run in range(KILLS_PER_FILE):
        order = Order(str(path), run, random.randrange(2**32))
        log.warning("%s", order)
        reported.add(kill_a_writer(nursery, order))
        # The copy is looked at, so that the next writer finds what the killed one left behind.
        copy_file(path, copy)
        check_file(copy, reported)
    assert reported.messages, "no writer lived long enough to confirm a write"
    await check_through_the_store(path, reported)


def copy_file(path: Path, copy: Path) -> None:
    for suffix in ("", "-wal"):
        source, target = Path(f"{path}{suffix}"), Path(f"{copy}{suffix}")
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, target)


def check_file(path: Path, reported: Reported) -> None:
    """Sound, and every acknowledged message is there once, whole and in order."""
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        if not connection.execute("SELECT count(*) FROM sqlite_master WHERE name='messages'").get:
            assert not reported.sessions
            return
        sessions = {row[0] for row in connection.execute("SELECT id FROM sessions")}
        assert sessions >= reported.sessions
        numbers: dict[str, list[int]] = {session: [] for session in sessions}
        rows: dict[int, tuple[str, int]] = {}
        for row, session, content in connection.execute(
            "SELECT id, session_id, content FROM messages ORDER BY id"
        ):
            number, size, checksum, filling = content.split(" ", 3)
            assert (len(filling), zlib.crc32(filling.encode())) == (int(size), int(checksum))
            numbers[session].append(int(number))
            rows[row] = session, int(number)
        assert rows.items() >= reported.messages.items()
        for session, present in numbers.items():
            assert present == list(range(len(present))), f"{session} has a gap or a repetition"
        counts = dict(connection.execute("SELECT id, message_count FROM sessions"))
        assert counts == {session: len(present) for session, present in numbers.items()}
    finally:
        connection.close()


async def check_through_the_store(path: Path, reported: Reported) -> None:
    """The store opens the file without a word, loads every session and finds it by search."""
    store = open_store("", path)
    found: dict[str, int] = {}
    for session in reported.sessions:
        log = await store.log(session)
        expected = {row for row, (of, _) in reported.messages.items() if of == session}
        assert expected <= {entry.id for entry in log}
        found[session] = len(log)
        if log:
            hits = await store.search(SearchRequest(f'"{session} wrote 0"'))
            assert [hit.session_id for hit in hits].count(session) == 1
    stats = await store.stats()
    assert stats.messages >= sum(found.values())
    store.close()
