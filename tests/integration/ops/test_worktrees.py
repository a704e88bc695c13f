"""Worktrees of sessions: opening, included files, closing, leftovers."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from hermes.core.errors import UsageError
from hermes.ops.worktrees import RECORD_NAME, Worktree, WorktreeRecord, open_worktree, slug
from hermes.store import GitCommandFailed
from tests.workspace import run_git

Git = Callable[..., str]


@pytest.fixture
def repo(workspace: Path) -> Path:
    make_repository(workspace)
    return workspace


def make_repository(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    run_git("init", "--quiet", "--initial-branch=main", folder=folder)
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitignore").write_text(".env\nbuild/\nnode_modules/\n*.secret\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("b\n")
    run_git("add", "-A", folder=folder)
    run_git("commit", "--quiet", "-m", "first", folder=folder)


@pytest.fixture
def git(repo: Path) -> Git:
    def run(*arguments: str, folder: Path = repo) -> str:
        return run_git(*arguments, folder=folder)

    return run


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def opened(repo: Path, notices: list[str]):
    async def opened(name: str = "fix the parser", folder: Path = repo) -> Worktree:
        return await open_worktree(folder, name, notices.append)

    return opened


async def test_the_session_has_a_tree_and_a_branch_of_its_own(opened, repo: Path, git) -> None:
    (repo / "a.txt").write_text("not committed\n")
    worktree = await opened("fix the parser")
    assert worktree.folder == repo / ".worktrees/fix-the-parser"
    assert git("branch", "--show-current", folder=worktree.folder) == "hermes/fix-the-parser\n"
    assert (worktree.folder / "a.txt").read_text() == "one\n"
    assert (repo / "a.txt").read_text() == "not committed\n"
    assert git("branch", "--show-current") == "main\n"


async def test_git_status_does_not_show_worktrees(opened, repo: Path, git) -> None:
    exclude = repo / ".git/info/exclude"
    exclude.write_text("mine")
    await opened()
    await opened()
    assert git("status", "--porcelain") == ""
    assert exclude.read_text() == "mine\n/.worktrees/\n"


async def test_an_ignored_folder_is_not_excluded_again(opened, repo: Path, git) -> None:
    (repo / ".git/info/exclude").unlink()
    (repo / ".git/info").rmdir()
    with (repo / ".gitignore").open("a") as file:
        file.write(".worktrees\n")
    await opened()
    assert not (repo / ".git/info").exists()


async def test_the_session_is_where_the_user_was(opened, repo: Path) -> None:
    (repo / "new").mkdir()
    assert (await opened("x", repo / "sub")).folder == repo / ".worktrees/x/sub"
    assert (await opened("y", repo / "new")).folder == repo / ".worktrees/y"


async def test_the_same_name_again_and_at_once(opened, git) -> None:
    trees = await asyncio.gather(*(opened("x") for _ in range(4)))
    assert sorted(tree.branch for tree in trees) == [
        "hermes/x", "hermes/x-2", "hermes/x-3", "hermes/x-4",
    ]  # fmt: skip
    git("branch", "hermes/y")
    assert (await opened("y")).branch == "hermes/y-2"


async def test_branch_named_hermes_changes_the_branch_prefix(opened, git) -> None:
    git("branch", "hermes")
    assert (await opened("x")).branch == "hermes-x"


async def test_without_a_name_it_is_named_after_the_time(opened) -> None:
    worktree = await opened("日本語")
    assert worktree.branch.startswith("hermes/20")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Fix: the *parser*!", "Fix-the-parser"),
        ("../../etc/passwd", "etc-passwd"),
        ("-rf", "rf"),
        ("a.lock", "a-lock"),
        ("20261115_101500_ab12cd34", "20261115_101500_ab12cd34"),
        ("x" * 200, "x" * 60),
        ("..", ""),
    ],
)
def test_names_are_made_safe(name: str, expected: str) -> None:
    assert slug(name) == expected


async def test_no_hook_of_the_repository_is_run(opened, repo: Path) -> None:
    hook = repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {repo}/sprung\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    await opened()
    assert not (repo / "sprung").exists()


async def test_submodules_are_reported(opened, repo: Path, git, notices, tmp_path: Path) -> None:
    make_repository(tmp_path / "lib")
    git("submodule", "--quiet", "add", str(tmp_path / "lib"), "lib")
    git("commit", "--quiet", "-m", "lib")
    await opened()
    assert "git submodule update --init" in notices[-1]
    with pytest.raises(UsageError, match="is a submodule of") as refusal:
        await opened("x", repo / "lib")
    assert str(repo) in refusal.value.hint


async def refusal_at(folder: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        await open_worktree(folder, "x", print)
    assert refusal.value.hint
    return str(refusal.value)


async def test_worktree_is_refused_outside_a_usable_repository(
    opened, repo: Path, git, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    assert "not in a git repository" in await refusal_at(tmp_path / "plain")
    git("init", "--quiet", "--bare", str(tmp_path / "bare"))
    assert "bare repository" in await refusal_at(tmp_path / "bare")
    git("init", "--quiet", str(tmp_path / "new"))
    assert "has no commits yet" in await refusal_at(tmp_path / "new")
    assert "inside the .git folder" in await refusal_at(repo / ".git")
    worktree = await opened()
    assert "is itself a worktree" in await refusal_at(worktree.folder)
    assert "is itself a worktree" in await refusal_at(worktree.folder / "sub")


async def test_worktrees_path_that_is_not_a_folder_is_refused(
    opened, repo: Path, tmp_path: Path
) -> None:
    (repo / ".worktrees").symlink_to(tmp_path)
    assert "is not a folder" in await refusal_at(repo)
    (repo / ".worktrees").unlink()
    (repo / ".worktrees").write_text("")
    assert "is not a folder" in await refusal_at(repo)
    assert list(tmp_path.iterdir()) == []


async def test_without_git(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in await refusal_at(repo)


async def test_a_failure_leaves_nothing_behind(opened, repo: Path, git) -> None:
    (repo / ".gitattributes").write_text("*.txt filter=broken\n")
    git("add", ".gitattributes")
    git("commit", "--quiet", "-m", "attributes")
    git("config", "--global", "filter.broken.smudge", "false")
    git("config", "--global", "filter.broken.required", "true")
    with pytest.raises(GitCommandFailed):
        await opened("x")
    assert git("branch", "--list", "hermes/*") == ""
    assert git("worktree", "list").count("\n") == 1
    assert not (repo / ".worktrees").exists()


async def test_stopping_half_way_leaves_nothing_behind(opened, repo: Path, git) -> None:
    (repo / ".gitattributes").write_text("*.txt filter=slow\n")
    git("add", ".gitattributes")
    git("commit", "--quiet", "-m", "attributes")
    git("config", "--global", "filter.slow.smudge", f"touch {repo}/begun; sleep 600; cat")
    opening = asyncio.ensure_future(opened("x"))
    while not (repo / "begun").exists():
        await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert git("branch", "--list", "hermes/*") == ""
    assert not (repo / ".worktrees").exists()


async def test_a_home_of_git_settings_elsewhere(opened, repo: Path, git, tmp_path: Path) -> None:
    """`git init --separate-git-dir`, and a repository reached through a link."""
    git("init", "--quiet", "--separate-git-dir", str(tmp_path / "git"))
    (tmp_path / "link").symlink_to(repo)
    worktree = await opened("x", tmp_path / "link" / "sub")
    assert worktree.folder.name == "sub"
    assert os.path.realpath(worktree.folder) == str(repo / ".worktrees/x/sub")
    assert "/.worktrees/" in (tmp_path / "git/info/exclude").read_text()


def put(path: Path, text: str = "x\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_listed_files_and_folders_are_copied(opened, repo: Path, notices: list[str]) -> None:
    put(repo / ".worktreeinclude", "# what tests need\n.env\nnode_modules/\n*.secret\n!no.secret\n")
    put(repo / ".env", "KEY=1\n")
    (repo / ".env").chmod(0o600)
    for name in ("node_modules/p/i.js", "sub/.env", "a.secret", ":(top)b.secret", "no.secret"):
        put(repo / name)
    put(repo / "build/out")
    (repo / "node_modules/link").symlink_to("p/i.js")
    worktree = await opened()
    folder = worktree.folder
    assert (folder / ".env").read_text() == "KEY=1\n"
    assert (folder / ".env").stat().st_mode & 0o777 == 0o600
    for name in ("node_modules/p/i.js", "node_modules/link", "sub/.env", ":(top)b.secret"):
        assert (folder / name).exists(), name
    for name in ("no.secret", "build", ".worktrees"):
        assert not (folder / name).exists(), name
    assert notices == [".worktreeinclude: copied 6 files, 20 B"]
    (folder / ".env").write_text("changed\n")
    assert (repo / ".env").read_text() == "KEY=1\n"
    assert "removed" in await worktree.close()
    assert (repo / "node_modules/p/i.js").exists()


async def test_paths_that_leave_the_repository_bring_nothing(
    opened, repo, notices, tmp_path
) -> None:
    put(tmp_path / "outside.secret", "hush\n")
    (repo / "out.secret").symlink_to(tmp_path / "outside.secret")
    (repo / "build").symlink_to(tmp_path)
    put(repo / "in.secret")
    lines = ["../*", "/etc/passwd", str(tmp_path), "../outside.secret", "*.secret", "build/", "~/*"]
    put(repo / ".worktreeinclude", "\n".join(lines))
    worktree = await opened()
    names = sorted(path.name for path in worktree.folder.iterdir() if path.name != ".git")
    assert names == [".gitignore", "a.txt", "in.secret", "sub"]
    assert ".worktreeinclude: out.secret was not copied: it leads out of the repository" in notices


async def test_a_folder_that_is_a_link_in_the_worktree_is_not_written_through(
    opened, repo: Path, git, notices, tmp_path: Path
) -> None:
    (repo / "data").symlink_to(tmp_path)
    git("add", "data")
    git("commit", "--quiet", "-m", "a link")
    (repo / "data").unlink()
    put(repo / "data/x.secret")
    put(repo / ".worktreeinclude", "*.secret\n")
    await opened()
    assert list(tmp_path.iterdir()) == []
    assert notices == [
        ".worktreeinclude: data/x.secret was not copied: its folder is a link in the worktree"
    ]


async def test_only_what_git_ignores_is_copied(opened, repo: Path, notices) -> None:
    put(repo / "notes.md", "mine\n")
    put(repo / ".worktreeinclude", "*.md\na.txt\n")
    worktree = await opened()
    assert not (worktree.folder / "notes.md").exists()
    assert notices == [".worktreeinclude: notes.md was not copied: git does not ignore it"]
    assert "removed" in await worktree.close()


async def test_pipes_and_repositories_inside_are_left_out(opened, repo, git, notices) -> None:
    put(repo / ".worktreeinclude", "build/\n*.secret\n")
    os.mkfifo(repo / "p.secret")
    git("init", "--quiet", str(repo / "build/inner"))
    put(repo / "build/inner/f")
    put(repo / "build/ok")
    worktree = await opened()
    assert (worktree.folder / "build/ok").exists()
    assert not (worktree.folder / "build/inner/f").exists()
    assert not os.path.lexists(worktree.folder / "p.secret")


async def test_a_list_that_is_a_link_is_not_read(opened, repo: Path, notices, tmp_path) -> None:
    put(repo / ".env")
    put(tmp_path / "list", ".env\n")
    (repo / ".worktreeinclude").symlink_to(tmp_path / "list")
    assert not ((await opened()).folder / ".env").exists()


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


async def test_suggested_commands_work(opened, repo: Path, git) -> None:
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


COMMIT = "commit --quiet --allow-empty -m work"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        pytest.param(["checkout --quiet --detach", COMMIT], "1 commit", id="commit on no branch"),
        pytest.param(["switch --quiet -c feature", COMMIT], "removed", id="on another branch"),
        pytest.param(["merge --quiet --no-ff --no-commit main"], "unfinished", id="merge"),
    ],
)
async def test_what_only_the_worktree_has_is_kept(opened, git, steps, said) -> None:
    worktree = await opened()
    git("commit", "--quiet", "--allow-empty", "-m", "main goes on")
    for step in steps:
        git(*step.split(), folder=worktree.folder)
    assert said in await worktree.close()
    if said == "removed":
        assert git("log", "-1", "--format=%s", "feature") == "work\n"


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


async def test_unused_worktree_of_a_crash_is_removed_at_the_next_start(
    opened, repo, git, notices
) -> None:
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
    assert len([line for line in notices if "of an earlier run" in line]) == 2


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
