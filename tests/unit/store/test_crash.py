"""A writer that is killed, and a disk that is full: what was acknowledged is there."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from hermes.core.messages import User
from hermes.store.sqlite_log import SqliteLog

WRITER = """
import asyncio, sys
from pathlib import Path
from hermes.core.messages import User
from hermes.store.sqlite_log import SqliteLog

async def write(log, session):
    number = 0
    while True:
        ids = await asyncio.gather(*(
            log.append(session, User.say(f"{number + n} " + "x" * (997 * n))) for n in range(3)
        ))
        number += 3
        print(number, flush=True)

async def main(path, session):
    log = SqliteLog(Path(path))
    await log.create(session, source="cli", model="m", system_prompt="")
    await write(log, session)

asyncio.run(main(*sys.argv[1:]))
"""


def acknowledged_before_kill(path: Path, session: str, moment: float) -> int:
    """How many messages the writer was told are safe, by the time it was killed."""
    command = [sys.executable, "-c", WRITER, str(path), session]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        assert first == b"3\n"
        time.sleep(moment)
        writer.send_signal(signal.SIGKILL)
        *complete, _partial = (first + writer.stdout.read()).split(b"\n")
    assert writer.returncode == -signal.SIGKILL
    return int(complete[-1])


async def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path):
    path = tmp_path / "state.db"
    chance = random.Random(20261115)
    for run in range(20):
        session = f"run-{run}"
        acknowledged = acknowledged_before_kill(path, session, chance.uniform(0, 0.08))
        connection = apsw.Connection(str(path))
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        connection.close()
        log = SqliteLog(path)
        stored = [m.text.split()[0] for m in await log.messages(session) if isinstance(m, User)]
        log.close()
        assert stored == [str(n) for n in range(len(stored))]
        assert len(stored) >= acknowledged


FILLER = """
import asyncio, os, sys
from pathlib import Path
from hermes.core.errors import StoreFull
from hermes.core.messages import User
from hermes.store.sqlite_log import SqliteLog

async def main(folder):
    log = SqliteLog(folder / "state.db")
    await log.create("s", source="cli", model="m", system_prompt="")
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(600_000))
    kept = 0
    try:
        while True:
            await log.append("s", User.say(os.urandom(9000).hex()))
            kept += 1
    except StoreFull as error:
        print("full:", error.hint)
    assert kept == len(await log.messages("s")), "an unacknowledged message was kept"
    ballast.unlink()
    await log.append("s", User.say("room again"))
    log.close()
    again = SqliteLog(folder / "state.db")
    assert len(await again.messages("s")) == kept + 1
    again.close()
    print("kept", kept)

asyncio.run(main(Path(sys.argv[1])))
"""


def can_mount() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        return False
    command = [unshare, "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a small tmpfs")
def test_a_full_disk_is_a_clear_error_and_works_again_with_room(tmp_path):
    script = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$1" -c "$2" "$0"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(tmp_path), sys.executable, FILLER],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "full: Free some space" in done.stdout
    assert int(done.stdout.split()[-1]) > 0
