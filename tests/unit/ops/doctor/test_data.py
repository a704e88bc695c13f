"""The session store, the log files, caches and what crashed runs left."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta

import apsw
import psutil
import pytest

from hermes.core.messages import User
from hermes.ops.doctor.machine_checks import SERVER
from hermes.store.session_store import open_store
from tests.unit.ops.doctor.run_checks import found, only, texts


@pytest.fixture
async def stored(home):
    """A store with a few messages, closed."""
    store = open_store("", home.state_db)
    await store.create("s", source="cli", model="m", system_prompt="")
    for number in range(20):
        await store.append("s", User.say(f"word{number} hello"))
    store.close()
    return home


async def test_missing_store_is_ok_and_is_not_created(home):
    assert "no sessions yet" in texts(await only(home, "sessions"))
    assert not home.state_db.exists()


async def test_a_store_with_messages_is_sound(stored):
    outcome = await only(stored, "sessions")
    assert outcome.level == "ok"
    assert "is intact" in texts(outcome)


async def test_a_damaged_store_is_a_problem_and_fix_leaves_it_to_the_user(stored):
    damaged = b"not a database at all" * 1000
    for side in ("-wal", "-shm"):
        stored.root.joinpath(f"state.db{side}").unlink(missing_ok=True)
    stored.state_db.write_bytes(damaged)
    assert "hermes sessions repair" in await found(stored, "sessions", "problem", fix=True)
    assert stored.state_db.read_bytes() == damaged


async def test_a_file_that_is_cut_short_is_a_problem(home):
    home.state_db.write_bytes(b"SQLite format 3\0")
    assert "truncated" in texts(await only(home, "sessions"))


async def test_a_store_of_a_later_version_is_a_problem(stored):
    with apsw.Connection(str(stored.state_db)) as database:
        database.execute("UPDATE schema_version SET version = 99")
    database.close()
    assert "version 99" in await found(stored, "sessions", "problem")


async def test_fix_rebuilds_a_search_index_that_does_not_match(stored):
    database = apsw.Connection(str(stored.state_db))
    # Behind the back of the triggers, as another program might.
    database.execute("DROP TRIGGER messages_fts_update")
    database.execute("UPDATE messages SET content = 'other' WHERE id = 3")
    database.close()
    assert "does not match" in texts(await only(stored, "sessions"))
    outcome = await only(stored, "sessions", fix=True)
    assert outcome.level == "ok"
    assert "rebuilt" in outcome.fixed[0]
    store = open_store("", stored.state_db)
    assert len(await store.messages("s")) == 20
    store.close()


async def test_errors_of_the_last_day_are_counted(home):
    home.logs.mkdir()
    now = datetime.now(UTC)
    lines = [
        f"{(now - timedelta(hours=hours)).isoformat(sep=' ', timespec='milliseconds')}"
        f" {level} [-] hermes.agent: it broke {hours}"
        for hours, level in ((30, "ERROR"), (5, "ERROR"), (3, "WARNING"), (1, "CRITICAL"))
    ]
    (home.logs / "errors.log").write_text("\n".join(lines) + "\n")
    outcome = await only(home, "logs")
    assert "2 errors in the last 24 hours, the last: it broke 1" in texts(outcome)


async def test_a_damaged_cache_is_put_aside_not_deleted(home):
    folder = home.cache / "models"
    folder.mkdir(parents=True)
    (folder / "good.json").write_text("{}")
    (folder / "bad.json").write_text("{oops")
    outcome = await only(home, "caches", fix=True)
    assert outcome.level == "ok"
    (kept,) = folder.glob("bad.json.damaged-*")
    assert kept.read_text() == "{oops"
    assert (folder / "good.json").exists()


def aged(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


async def test_only_old_unused_temporary_files_are_removed(home, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stale = home.root / ".config.yaml.abcd1234.tmp"
    fresh = home.root / ".auth.json.abcd1234.tmp"
    precious = home.root / "notes.tmp"
    for path in (stale, fresh, precious):
        path.write_text("x")
    left, used, young, editor = (
        tmp_path / f"hermes-{name}"
        for name in ("shell-left", "shell-used", "shell-young", "memory-old")
    )
    for folder in (left, used, young, editor):
        folder.mkdir()
        (folder / "command").write_text("x")
    for path in (stale, precious, *left.iterdir(), left, *used.iterdir(), used, editor):
        aged(path, 3 * 86400)
    monkeypatch.chdir(used)  # a process works in it: we
    before = await only(home, "temporary files")
    assert "2 temporary files" in texts(before)
    after = await only(home, "temporary files", fix=True)
    assert after.level == "ok"
    assert not stale.exists()
    assert not left.exists()
    for kept in (fresh, precious, used, young, editor):
        assert kept.exists()


def orphan() -> int:
    """The number of a process that looks like the embedded model and has lost its parent."""
    sleeper = f"{sys.executable} -c 'import time; time.sleep(60)' {SERVER}"
    script = f"{sleeper} >/dev/null 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True, text=True)
    return int(started.stdout)


async def test_a_model_process_that_outlived_its_program_is_named(home):
    pid = orphan()
    try:
        while SERVER not in psutil.Process(pid).cmdline():  # it is being started
            await asyncio.sleep(0.01)
        outcome = await only(home, "processes")
    finally:
        os.kill(pid, signal.SIGKILL)
    assert f"kill {pid}" in texts(outcome)


async def test_an_unfinished_download_is_named_after_a_day(home):
    home.models.mkdir()
    part = home.models / "m.gguf.part"
    part.write_bytes(b"GGUF")
    assert (await only(home, "downloads")).level == "ok"
    aged(part, 3 * 86400)
    assert (await only(home, "downloads")).level == "warning"
