"""An import that is killed, or fails, at any step: the old home or the new one, never a mixture."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.config.home import Home
from hermes.ops.backup import copy_home
from hermes.store.session_store import open_store

HARNESS = Path(__file__).with_name("cut_short.py")


def home(root: Path, word: str) -> Path:
    (root / "skills").mkdir(parents=True)
    for name in ("config.yaml", "skills/a.md", "SOUL.md", f"skills/{word}.md"):
        (root / name).write_text(word)

    async def talk() -> None:
        store = open_store("", root / "state.db")
        try:
            message = {"role": "user", "content": word}
            facts = {"id": f"20260101_000000_{word}", "source": "cli", "model": "m", "title": word}
            await store.restore({**facts, "messages": [message]})
        finally:
            store.close()

    asyncio.run(talk())
    return root


@pytest.fixture
def tries(tmp_path: Path):
    new, old = home(tmp_path / "new", "new"), home(tmp_path / "old", "old")
    archive = tmp_path / "new.zip"
    asyncio.run(copy_home(Home(new), archive, datetime.now(UTC)))

    def run(mode: str) -> list[str]:
        (tmp_path / mode).mkdir()
        command = [sys.executable, str(HARNESS), mode, archive, old, tmp_path / mode]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    return run


OLD, NEW = "old,old,old,only old,old", "new,new,new,only new,new"


def test_a_kill_at_any_step_leaves_the_old_or_the_new_home(tries) -> None:
    *killed, last = tries("kill")
    assert last == f"0 {NEW}"
    assert len(killed) > 10
    assert {line.split(" ", 1)[0] for line in killed} == {"-9"}
    assert {line.split(" ", 1)[1] for line in killed} == {OLD, NEW}
    first_new = next(at for at, line in enumerate(killed) if line.endswith(NEW))
    assert all(line.endswith(NEW) for line in killed[first_new:])


def test_a_step_that_fails_brings_everything_back(tries) -> None:
    *failed, last = tries("fail")
    assert last == f"0 {NEW}"
    assert set(failed) == {f"1 {OLD}", f"3 {NEW}"}
