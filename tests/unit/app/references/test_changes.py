"""Attaching what git knows."""

import stat
from pathlib import Path

import pytest

from hermes.app import git as user_git
from hermes.app.git import GitFailed, UserGit
from hermes.app.reference_expansion import without_secrets


def commit(git, workspace: Path, name: str, text: str, message: str) -> None:
    (workspace / name).parent.mkdir(exist_ok=True, parents=True)
    (workspace / name).write_text(text)
    git("add", "--", name)
    git("commit", "--quiet", "-m", message)


async def test_changes_staged_and_not(attach, workspace: Path, git) -> None:
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / "a.txt").write_text("two\n")
    git("add", "a.txt")
    (workspace / "a.txt").write_text("three\n")
    assert "-two\n+three\n" in (await attach("review @diff")).text
    assert "-one\n+two\n" in (await attach("review @staged.")).text


async def test_the_latest_commits_with_their_patches(attach, workspace: Path, git) -> None:
    for number in range(4):
        commit(git, workspace, "a.txt", f"{number}\n", f"change {number}")
    git("commit", "--quiet", "--allow-empty", "-m", "empty one")
    text = (await attach("@git:3")).text
    assert [f"change {n}" in text for n in range(4)] == [False, False, True, True]
    assert "empty one" in text
    assert "-2\n+3\n" in text


async def test_the_whole_repository_is_meant_from_a_folder_of_it(attach, workspace, git) -> None:
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / "sub").mkdir()
    (workspace / "a.txt").write_text("two\n")
    git("config", "diff.relative", "true")
    assert "+two" in (await attach("@diff", folder=workspace / "sub")).text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@git:0", "from 1 to 10"),
        ("@git:11", "from 1 to 10"),
        ("@git:main", "from 1 to 10"),
        ("@diff", "there are no changes that are not staged"),
        ("@staged", "nothing is staged"),
        ("@git:1", "there are no commits"),
    ],
)
async def test_what_is_not_there_is_told(attach, workspace, git, text: str, words: str) -> None:
    (warning,) = (await attach(text)).warnings
    assert words in warning


async def test_without_a_repository(attach, workspace: Path) -> None:
    for text in ("@diff", "@staged", "@git:2"):
        assert (await attach(text)).warnings == (f"{text}: this folder is not in a git repository",)


async def test_nothing_of_the_repository_is_run(attach, workspace: Path, git) -> None:
    trap = workspace / "trap"
    trap.write_text(f'#!/bin/sh\ntouch {workspace}/sprung\ncat "$@" 2>/dev/null\n')
    trap.chmod(trap.stat().st_mode | stat.S_IXUSR)
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / ".gitattributes").write_text("*.txt diff=trap\n")
    for key in (
        "diff.external", "diff.trap.command", "diff.trap.textconv", "core.pager", "pager.diff",
        "pager.log", "core.fsmonitor", "gpg.program",
    ):  # fmt: skip
        git("config", key, str(trap))
    git("config", "log.showSignature", "true")
    git("config", "core.hooksPath", str(workspace))
    for hook in ("post-index-change", "fsmonitor-watchman"):
        (workspace / hook).symlink_to(trap)
    (workspace / "a.txt").write_text("two\n")
    assert "+two" in (await attach("@diff")).text
    assert "+one" in (await attach("@git:1")).text
    assert not (workspace / "sprung").exists()


async def test_the_repository_is_that_of_the_folder(
    attach, workspace: Path, git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inside a hook of git the environment points at another one."""
    commit(git, workspace, "a.txt", "one\n", "first")
    git("init", "--quiet", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert "first" in (await attach("@git:1")).text


async def test_token_files_are_left_out_of_patches(attach, workspace: Path, git) -> None:
    commit(git, workspace, ".npmrc", "hush\n", "add settings")
    commit(git, workspace, "web/.ssh/config", "hush\n", "more settings")
    commit(git, workspace, "a.txt", "fine\n", "a file")
    (workspace / ".npmrc").write_text("hush hush\n")
    (workspace / "a.txt").write_text("very fine\n")
    text = (await attach("@git:3 @diff")).text
    assert "hush" not in text
    for words in ("add settings", "more settings", "a file", "+fine", "+very fine", "left out"):
        assert words in text


def test_a_patch_without_secrets_is_unchanged() -> None:
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-diff --git a/.npmrc\n+.ssh/x\n"
    assert without_secrets(patch) == patch


async def test_secrets_in_a_patch_are_taken_out(attach, workspace: Path, git) -> None:
    key = "sk-" + "proj-" + "Abc123" * 8
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / "a.txt").write_text(f"{key}\n")
    text = (await attach("@diff")).text
    assert key not in text
    assert "-one" in text


async def test_a_huge_patch_is_refused(attach, workspace: Path, git) -> None:
    commit(git, workspace, "a.txt", "line\n" * 100_000, "first")
    with pytest.raises(user_git.HermesError, match="more than"):
        await attach("@git:1")


async def test_git_that_hangs_is_ended(workspace: Path, git, gone) -> None:
    commit(git, workspace, "a.txt", "one\n", "first")
    (workspace / ".gitattributes").write_text("*.txt filter=slow\n")
    git("config", "filter.slow.clean", f"sh -c 'echo $$ > {workspace}/pid; exec sleep 600'")
    (workspace / "a.txt").write_text("two\n")
    with pytest.raises(GitFailed, match="longer than 1 seconds"):
        await UserGit(workspace).run("diff", seconds=1.0)
    await gone(int((workspace / "pid").read_text()))


async def test_a_missing_git_is_told(
    attach, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (await attach("@diff")).warnings == ("@diff: git is not installed",)
