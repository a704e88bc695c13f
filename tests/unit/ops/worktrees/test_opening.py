"""Opening a worktree: where it is, what is in it, and where there can be none."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from hermes.app.git import GitFailed
from hermes.core.errors import UsageError
from hermes.ops.worktrees import open_worktree, slug
from tests.unit.ops.worktrees.conftest import make_repository


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


async def test_a_branch_named_hermes_is_in_nobodys_way(opened, git) -> None:
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


async def test_submodules_are_told_of(opened, repo: Path, git, told, tmp_path: Path) -> None:
    make_repository(tmp_path / "lib")
    git("submodule", "--quiet", "add", str(tmp_path / "lib"), "lib")
    git("commit", "--quiet", "-m", "lib")
    await opened()
    assert "git submodule update --init" in told[-1]
    with pytest.raises(UsageError, match="is a submodule of") as refusal:
        await opened("x", repo / "lib")
    assert str(repo) in refusal.value.hint


async def refusal_at(folder: Path) -> str:
    with pytest.raises(UsageError) as refusal:
        await open_worktree(folder, "x", print)
    assert refusal.value.hint
    return str(refusal.value)


async def test_where_there_can_be_none(opened, repo: Path, git, tmp_path: Path) -> None:
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


async def test_a_place_that_is_no_folder_is_not_used(opened, repo: Path, tmp_path: Path) -> None:
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
    git("config", "filter.broken.smudge", "false")
    git("config", "filter.broken.required", "true")
    with pytest.raises(GitFailed):
        await opened("x")
    assert git("branch", "--list", "hermes/*") == ""
    assert git("worktree", "list").count("\n") == 1
    assert not (repo / ".worktrees").exists()


async def test_stopping_half_way_leaves_nothing_behind(opened, repo: Path, git) -> None:
    (repo / ".gitattributes").write_text("*.txt filter=slow\n")
    git("add", ".gitattributes")
    git("commit", "--quiet", "-m", "attributes")
    git("config", "filter.slow.smudge", f"touch {repo}/begun; sleep 600; cat")
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
