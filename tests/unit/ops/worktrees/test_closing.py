"""What becomes of a worktree at the end, and of those that nobody closed."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from hermes.ops.worktrees import RECORD_NAME, WorktreeRecord

DAY = 24 * 3600.0


async def test_an_unused_worktree_goes_with_its_branch(opened, repo: Path, git) -> None:
    worktree = await opened()
    (worktree.folder / ".env").write_text("ignored files do not count\n")
    assert "removed the worktree" in await worktree.close()
    assert await worktree.close() == ""
    assert not (repo / ".worktrees").exists()
    assert git("branch", "--list", "hermes/*") == ""
    assert git("worktree", "list").count("\n") == 1


@pytest.mark.parametrize("change", ["new", "changed", "deleted", "staged"])
async def test_work_that_is_not_committed_is_kept(opened, git, change: str) -> None:
    worktree = await opened()
    path = worktree.folder / ("new.txt" if change == "new" else "a.txt")
    path.unlink() if change == "deleted" else path.write_text("work\n")
    if change == "staged":
        git("add", "a.txt", folder=worktree.folder)
    said = await worktree.close()
    assert worktree.folder.exists()
    assert said.startswith(f"kept the worktree {worktree.root} (branch hermes/fix-the-parser): 1 ")
    assert "git merge hermes/fix-the-parser" in said


async def test_what_is_told_works(opened, repo: Path, git) -> None:
    worktree = await opened()
    (worktree.folder / "new.txt").write_text("work\n")
    said = await worktree.close()
    commands = dict(line.strip().split(": ", 1) for line in said.splitlines()[1:])
    git("config", "user.name", "Kim")
    git("config", "user.email", "kim@example.com")
    for step in ("commit", "merge", "remove"):
        command = commands[step] + (" -m work" if step == "commit" else "")
        shell = await asyncio.create_subprocess_shell(command, cwd=repo)
        assert await shell.wait() == 0
    assert (repo / "new.txt").read_text() == "work\n"
    assert not worktree.root.exists()


async def test_commits_are_kept_until_something_else_has_them(opened, repo: Path, git) -> None:
    worktree = await opened()
    git("commit", "--quiet", "--allow-empty", "-m", "work", folder=worktree.folder)
    assert ": 1 commit\n" in await worktree.close()
    other = await opened("other")
    git("commit", "--quiet", "--allow-empty", "-m", "work", folder=other.folder)
    git("merge", "--quiet", "hermes/other")
    assert "removed" in await other.close()


async def test_commits_on_no_branch_are_kept(opened, git) -> None:
    worktree = await opened()
    git("checkout", "--quiet", "--detach", folder=worktree.folder)
    git("commit", "--quiet", "--allow-empty", "-m", "work", folder=worktree.folder)
    assert "1 commit" in await worktree.close()


async def test_commits_on_another_branch_stay_there(opened, git) -> None:
    worktree = await opened()
    git("switch", "--quiet", "-c", "feature", folder=worktree.folder)
    git("commit", "--quiet", "--allow-empty", "-m", "work", folder=worktree.folder)
    assert "removed" in await worktree.close()
    assert git("log", "-1", "--format=%s", "feature") == "work\n"


async def test_an_unfinished_merge_is_kept(opened, git) -> None:
    worktree = await opened()
    git("branch", "side")
    git("commit", "--quiet", "--allow-empty", "-m", "main goes on")
    git("merge", "--quiet", "--no-ff", "--no-commit", "main", folder=worktree.folder)
    assert "unfinished" in await worktree.close()


async def test_a_user_who_hides_new_files_keeps_them(opened, git) -> None:
    git("config", "status.showUntrackedFiles", "no")
    worktree = await opened()
    (worktree.folder / "new.txt").write_text("work\n")
    assert "kept" in await worktree.close()


async def test_a_folder_that_is_gone(opened, git) -> None:
    worktree = await opened("x")
    shutil.rmtree(worktree.root)
    assert "removed" in await worktree.close()
    assert git("branch", "--list", "hermes/*") == ""
    other = await opened("y")
    git("commit", "--quiet", "--allow-empty", "-m", "work", folder=other.folder)
    shutil.rmtree(other.root)
    said = await other.close()
    assert said.startswith("kept the branch hermes/y; its worktree is gone: 1 commit")
    assert "worktree remove" not in said


async def test_a_locked_worktree_is_kept_with_the_reason(opened, git) -> None:
    worktree = await opened()
    git("worktree", "lock", str(worktree.root))
    assert "locked" in await worktree.close()
    assert worktree.root.exists()


def age(repo: Path, name: str, **changes: object) -> None:
    """As if a process that is gone had made it two days ago."""
    path = repo / ".git/worktrees" / name / RECORD_NAME
    record = msgspec.json.decode(path.read_bytes(), type=WorktreeRecord)
    old = {"made": record.made - 2 * DAY, "process_began": 1.0, **changes}
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(record, **old)))


async def test_what_a_crash_left_is_removed_at_the_next_start(opened, repo, git, told) -> None:
    left = await opened("left")
    busy = await opened("busy")
    (busy.folder / "a.txt").write_text("work\n")
    committed = await opened("committed")
    git("commit", "--quiet", "--allow-empty", "-m", "work", folder=committed.folder)
    gone = await opened("gone")
    for name in ("left", "busy", "committed", "gone"):
        age(repo, name)
    shutil.rmtree(gone.root)
    await opened("next")
    assert [left.root.exists(), busy.root.exists(), committed.root.exists()] == [False, True, True]
    assert git("branch", "--list", "hermes/*").split() == [
        "+", "hermes/busy", "+", "hermes/committed", "+", "hermes/next",
    ]  # fmt: skip
    assert len([line for line in told if "of an earlier run" in line]) == 2


async def test_recent_ones_and_those_in_use_are_left_alone(opened, repo: Path) -> None:
    names = ("recent", "running", "elsewhere", "visited")
    trees = {name: await opened(name) for name in names}
    age(repo, "recent", made=time.time() - DAY / 2)
    age(repo, "running", process_began=psutil.Process().create_time(), pid=os.getpid())
    age(repo, "elsewhere", host="another-machine")
    age(repo, "visited")
    visitor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", cwd=trees["visited"].folder, stdin=subprocess.PIPE
    )
    await opened("next")
    await visitor.communicate(b"\n")
    assert all(tree.root.exists() for tree in trees.values())


async def test_a_changed_note_removes_nothing_else(opened, repo: Path, git, tmp_path) -> None:
    git("worktree", "add", "--quiet", "-b", "mine", str(tmp_path / "mine"))
    for name, changes in {"a": {"path": str(tmp_path / "mine")}, "b": {"branch": "mine"}}.items():
        await opened(name)
        age(repo, name, **changes)
    await opened("next")
    assert (tmp_path / "mine").exists()
    assert git("branch", "--list", "mine") != ""
    assert (repo / ".worktrees/b").exists()


async def test_worktrees_of_the_user_and_broken_notes_are_left_alone(opened, repo, git) -> None:
    git("worktree", "add", "--quiet", "-b", "mine", str(repo / ".worktrees/mine"))
    broken = await opened("broken")
    (repo / ".git/worktrees/broken" / RECORD_NAME).write_text("{")
    await (await opened("next")).close()
    assert (repo / ".worktrees/mine").exists()
    assert broken.root.exists()
