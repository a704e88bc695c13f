"""`hermes checkpoints` in a folder the agent has worked in."""

import asyncio
import json
from pathlib import Path

import pytest

from hermes.cli.main import find_entry
from hermes.config.home import Home
from hermes.core.errors import UsageError
from hermes.tools.checkpoints import Checkpoints
from tests.unit.cli.terminal import call


@pytest.fixture
def work(user_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = user_home / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def hermes_checkpoints(home: Path, *arguments: str) -> tuple[int, str, str]:
    return call("checkpoints", Home(home), *arguments)


async def agent_works(home: Path, work: Path) -> None:
    checkpoints = Checkpoints(home / "checkpoints", work, home.parent)
    record = await checkpoints.take("rewrite it", "s1")
    assert record is not None
    (work / "a.txt").write_text("2\n")
    (work / "src/b.txt").write_text("2\n")
    await checkpoints.finish(record)


@pytest.fixture
def worked(hermes_home: Path, work: Path) -> Path:
    (work / "src").mkdir()
    (work / "a.txt").write_text("1\n")
    (work / "src/b.txt").write_text("1\n")
    asyncio.run(agent_works(hermes_home, work))
    return work


def test_checkpoints_is_a_command() -> None:
    assert find_entry("checkpoints") is not None


def test_a_folder_without_any(hermes_home: Path, work: Path) -> None:
    assert hermes_checkpoints(hermes_home, "list") == (0, "there are no checkpoints here yet\n", "")
    assert hermes_checkpoints(hermes_home, "list", "--json") == (0, "[]\n", "")
    assert hermes_checkpoints(hermes_home, "prune") == (0, "dropped 0 checkpoints\n", "")
    with pytest.raises(UsageError, match="there is no checkpoint 1"):
        hermes_checkpoints(hermes_home, "restore", "1")


def test_the_list(hermes_home: Path, worked: Path) -> None:
    _, out, _ = hermes_checkpoints(hermes_home, "list")
    assert out.splitlines()[0].endswith("2 files  rewrite it")
    assert out.splitlines()[-1].endswith("`hermes checkpoints restore N` goes back.")
    _, out, _ = hermes_checkpoints(hermes_home, "list", "--json")
    (only,) = json.loads(out)
    assert (only["number"], only["reason"], only["session"], only["changed"]) == (
        1, "rewrite it", "s1", 2,
    )  # fmt: skip


def test_going_back_from_a_folder_below(hermes_home, worked, monkeypatch):
    monkeypatch.chdir(worked / "src")
    code, out, _ = hermes_checkpoints(hermes_home, "diff", "1", "b.txt")
    assert (code, out.count("diff --git")) == (0, 1)
    assert "-1\n+2\n" in out
    code, out, _ = hermes_checkpoints(hermes_home, "restore", "1", "b.txt")
    assert out == "restored: src/b.txt\n`hermes checkpoints restore 1` undoes this.\n"
    assert [(worked / name).read_text() for name in ("a.txt", "src/b.txt")] == ["2\n", "1\n"]
    with pytest.raises(UsageError, match="is not in"):
        hermes_checkpoints(hermes_home, "restore", "1", "../../x")


def test_lines_changed_by_the_user_are_left_unless_forced(hermes_home: Path, worked: Path) -> None:
    (worked / "a.txt").write_text("mine\n")
    out = hermes_checkpoints(hermes_home, "restore", "1").expect(1).out
    assert "a.txt: you changed the same lines since" in out
    assert (worked / "a.txt").read_text() == "mine\n"
    code, out, _ = hermes_checkpoints(hermes_home, "restore", "2", "--force")
    assert (code, (worked / "a.txt").read_text()) == (0, "1\n")


def test_forgetting_needs_a_yes(hermes_home: Path, worked: Path) -> None:
    with pytest.raises(UsageError, match="this needs --yes without a terminal"):
        hermes_checkpoints(hermes_home, "clear")
    code, out, _ = hermes_checkpoints(hermes_home, "clear", "--yes")
    assert (code, out) == (0, f"no checkpoints are left of {worked}\n")
    assert hermes_checkpoints(hermes_home, "list")[1] == "there are no checkpoints here yet\n"
