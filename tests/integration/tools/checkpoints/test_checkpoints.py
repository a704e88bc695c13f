"""Taking checkpoints: when, what, how many, and what may go wrong."""

import asyncio
import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from hermes.core.errors import UsageError
from hermes.tools.checkpoints import (
    CheckpointOptions,
    Checkpoints,
    SnapshotLimits,
    TurnCheckpoints,
    find_workspace,
    format_checkpoints,
    rollback,
    store_folder,
)


def fingerprint(folder: Path) -> str:
    """Names and contents of everything below a folder."""
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        state.update(os.fsencode(path) + (path.read_bytes() if path.is_file() else b""))
    return state.hexdigest()


def git(folder: Path, command: list[str], environment: dict[str, str] | None = None) -> str:
    return subprocess.run(
        ["git", *command], cwd=folder, env=environment, check=True, capture_output=True, text=True
    ).stdout


async def test_one_checkpoint_a_turn_and_none_without_changes(checkpoints, work, call):
    turns = TurnCheckpoints(lambda: checkpoints)
    work.write("a.txt", "1\n")
    turns.turn_started("session", "make it better\nplease")
    for content in ("2\n", "3\n"):
        await turns.before_change(call)
        work.write("a.txt", content)
    await asyncio.gather(*(turns.before_change(call) for _ in range(3)))
    await turns.turn_ended()
    turns.turn_started("session", "just look")
    await turns.before_change(call)
    await turns.turn_ended()
    await turns.turn_ended()
    (only,) = await checkpoints.list()
    assert (only.number, only.reason, only.changed, only.ended) == (1, "make it better", 1, True)
    assert only.session == "session"
    assert await checkpoints.diff(1) == (
        "diff --git a/a.txt b/a.txt\nindex d00491f..00750ed 100644\n--- a/a.txt\n+++ b/a.txt\n"
        "@@ -1 +1 @@\n-1\n+3\n"
    )


async def test_rollback_command_output(checkpoints, work, turn):
    assert await rollback(checkpoints, "") == "there are no checkpoints here yet"
    work.write("a.txt", "1\n")
    async with turn("first " + "x" * 100):
        work.write("a.txt", "2\n")
    async with turn(""):
        work.write("b.txt", "2\n")
        work.write("c.txt", "2\n")
    found = await checkpoints.list()
    lines = format_checkpoints(found, now=found[0].time + 3_700).splitlines()
    assert lines[0] == "  1    1h 1m ago    2 files  changes by the agent"
    assert lines[1].startswith("  2    1h 1m ago     1 file  first xxx")
    assert lines[1].endswith("x…")
    assert lines[-1] == "Files as they were before each. `/rollback N` goes back."
    assert "-1\n+2" in await rollback(checkpoints, " diff 2 ")
    assert await rollback(checkpoints, "diff 1 a.txt") == "nothing has changed since checkpoint 1"
    assert (await rollback(checkpoints, "2")).startswith("restored: a.txt\nremoved: b.txt, c.txt")
    for wrong in ("x", "diff", "-1", "1.5"):
        with pytest.raises(UsageError, match="not understood"):
            await rollback(checkpoints, wrong)
    with pytest.raises(UsageError, match="no checkpoint 9"):
        await rollback(checkpoints, "9")


async def test_users_repository_is_untouched(checkpoints, work, turn, user_home, monkeypatch):
    """Nor do settings, hooks, filters, templates or variables of the user reach the store."""
    trap = user_home / "trapped"
    (user_home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {user_home}/hooks\n\tautocrlf = true\n\tfsmonitor = touch {trap};\n"
        '\texcludesFile = ~/ignore\n[commit]\n\tgpgsign = true\n[filter "x"]\n'
        f"\tclean = touch {trap}; cat\n\tsmudge = touch {trap}; cat\n"
    )
    (user_home / "ignore").write_text("*\n")
    (user_home / ".config/git").mkdir(parents=True)
    (user_home / ".config/git/ignore").write_text("*\n")
    monkeypatch.setenv("GIT_DIR", str(work.folder / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(work.folder / ".git/index"))
    work.write("a.txt", "1\r\n")
    work.write(".gitattributes", "*.txt filter=x\n")
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_GLOBAL": "/dev/null"}
    for command in (
        ["init", "-q"],
        ["add", "a.txt"],
        ["-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "mine"],
    ):
        git(work.folder, command, environment)
    before = fingerprint(work.folder / ".git")
    async with turn("change"):
        work.write("a.txt", "2\r\n")
    await checkpoints.restore(1)
    await checkpoints.prune()
    assert (work.folder / "a.txt").read_bytes() == b"1\r\n"
    assert fingerprint(work.folder / ".git") == before
    assert not trap.exists()


async def test_settings_planted_in_the_store_are_lost(checkpoints, work, turn, store, tmp_path):
    work.write("a.txt", "1\n")
    async with turn("one"):
        work.write("a.txt", "2\n")
    git = store_folder(store, work.folder) / "git"
    (git / "config").write_text(f"[core]\n\tfsmonitor = touch {tmp_path}/trapped;\n")
    (git / "info/attributes").write_text("* filter=x\n")
    (git / "index.lock").touch()
    async with turn("two"):
        work.write("a.txt", "3\n")
    assert not (tmp_path / "trapped").exists()
    assert len(await checkpoints.list()) == 2


async def test_old_and_excess_checkpoints_are_pruned(store, work, user_home):
    now = 1_000_000.0
    options = CheckpointOptions(max_snapshots=3, max_age_days=1)
    checkpoints = Checkpoints(store, work.folder, user_home, options, now=lambda: now)

    async def change(content):
        record = await checkpoints.take(content)
        assert record is not None
        work.write("a.txt", content)
        await checkpoints.finish(record)

    for number in range(5):
        now += 60
        await change(f"{number}\n" * 100)
    assert [each.reason[:1] for each in await checkpoints.list()] == ["4", "3", "2"]
    assert await checkpoints.prune() == 0
    place = store_folder(store, work.folder) / "git"
    refs = git(work.folder, ["--git-dir", str(place), "for-each-ref"]).splitlines()
    assert len(refs) == 6
    now += 100_000
    await change("new\n")
    assert [each.reason for each in await checkpoints.list()] == ["new\n"]
    await checkpoints.clear()
    assert await checkpoints.list() == []


async def test_store_is_not_opened_before_the_first_change(checkpoints, call):
    asked = []

    def find():
        asked.append("once")
        return checkpoints

    turns = TurnCheckpoints(find)
    turns.turn_started("session", "just talk")
    assert await turns.turn_ended() == []
    assert not asked
    for _ in range(2):
        turns.turn_started("session", "work")
        await turns.before_change(call)
        await turns.turn_ended()
    assert asked == ["once"]


@pytest.mark.parametrize("where", [".", "..", "/"])
async def test_no_checkpoints_of_a_home_folder(store, user_home, call, told, where):
    checkpoints = Checkpoints(store, user_home / where, user_home)
    turns = TurnCheckpoints(lambda: checkpoints)
    for _ in range(2):
        await turns.before_change(call)
        await turns.turn_ended()
    (notice,) = told
    assert "contains your home folder" in notice
    assert not store.exists()
    with pytest.raises(UsageError, match="your home folder"):
        await checkpoints.restore(1)


async def test_unsuitable_workspaces(store, hermes_home, user_home, work, call, told):
    hermes_home.mkdir()
    assert "home folder of Hermes" in Checkpoints(store, hermes_home, user_home).problem
    assert "does not exist" in Checkpoints(store, work.folder / "x", user_home).problem
    without = Checkpoints(store, work.folder, user_home, git="")
    assert without.problem == "no checkpoints: git is not installed"
    assert await without.take("x") is None
    assert await rollback(without, "") == without.problem
    few = CheckpointOptions(limits=SnapshotLimits(files=3))
    full = Checkpoints(store, work.folder, user_home, few)
    for number in range(4):
        work.write(f"{number}.txt", "x")
    await TurnCheckpoints(lambda: full).before_change(call)
    assert told == [f"no checkpoints: {work.folder} has more than 3 files"]


async def test_hermes_home_inside_the_workspace_is_excluded(work, user_home, turn):
    store = work.folder / ".her[mes]" / "checkpoints"
    checkpoints = Checkpoints(store, work.folder, user_home)
    work.write(".her[mes]/.env", "SECRET=1\n")
    work.write("a.txt", "1\n")
    record = await checkpoints.take("x")
    assert record is not None
    work.write("a.txt", "2\n")
    work.write(".her[mes]/.env", "SECRET=2\n")
    await checkpoints.finish(record)
    assert (await checkpoints.list())[0].changed == 1


async def test_unreadable_special_and_vanishing_files_are_skipped(checkpoints, work, told, turn):
    os.mkfifo(work.folder / "pipe")
    work.write("a", "file\n")
    (work.folder / "broken").symlink_to("nowhere")
    async with turn("file becomes folder"):
        work.remove("a")
        work.write("a/b", "below\n")
    async with turn("folder becomes pipe"):
        work.remove("a/b")
        os.mkfifo(work.folder / "a/b")
    assert told == []
    (work.folder / "a/b").unlink()
    await checkpoints.restore(2)
    assert work.read("a") == "file\n"


async def test_concurrent_operations_wait_for_each_other(store, work, user_home):
    several = [Checkpoints(store, work.folder, user_home) for _ in range(5)]
    work.write("a.txt", "1\n")
    records = await asyncio.gather(*(each.take(f"{n}") for n, each in enumerate(several)))
    work.write("a.txt", "2\n")
    await asyncio.gather(
        *(each.finish(record) for each, record in zip(several, records, strict=True) if record)
    )
    assert len(await several[0].list()) == 5
    await several[0].restore(5)
    assert work.read("a.txt") == "1\n", "work that several claim is undone once"
    assert [notice for each in several for notice in each.notices()] == []


@pytest.mark.parametrize("damage", ["index", "objects", "HEAD", "all"])
async def test_damaged_store_is_repaired_or_replaced(checkpoints, work, turn, store, told, damage):
    work.write("a.txt", "1\n")
    async with turn("one"):
        work.write("a.txt", "2\n")
    git = store_folder(store, work.folder) / "git"
    if damage == "index":
        (git / "index").write_bytes(b"garbage")
    elif damage == "HEAD":
        (git / "HEAD").write_bytes(b"\0\0")
    else:
        for path in (git / "objects").rglob("*"):
            if path.is_file():
                path.chmod(0o600)
                path.write_bytes(b"garbage")
        if damage == "all":
            (git / "index").write_bytes(b"garbage")
    async with turn("two"):
        work.write("a.txt", "3\n")
    await checkpoints.restore(1)
    assert work.read("a.txt") == "2\n"
    aside = list(store.glob("*.broken-*"))
    assert bool(aside) == bool(told)
    if damage in ("index", "HEAD"):
        assert len(await checkpoints.list()) == 3, "nothing was lost"
    else:
        assert aside
        assert str(aside[0]) in told[0]


async def test_cancelled_checkpoint_leaves_nothing_behind(checkpoints, work, store, turn):
    work.write("a.txt", "1\n")
    for steps in range(0, 40, 3):
        taking = asyncio.ensure_future(checkpoints.take("stopped"))
        for _ in range(steps):
            await asyncio.sleep(0.001)
        taking.cancel()
        await asyncio.wait([taking])
    for each in await checkpoints.list():
        assert each.reason == "stopped"
    async with turn("after"):
        work.write("a.txt", "2\n")
    await checkpoints.restore(1)
    assert work.read("a.txt") == "1\n"


def test_nearest_folder_with_checkpoints_is_found(store, work):
    below = work.folder / "src/deep"
    below.mkdir(parents=True)
    assert find_workspace(store, below) == below
    store_folder(store, work.folder).mkdir(parents=True)
    assert find_workspace(store, below) == work.folder
