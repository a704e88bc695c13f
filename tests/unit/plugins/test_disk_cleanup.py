"""The bundled plugin disk-cleanup, loaded as any other."""

import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.core.ports import HookName
from hermes.plugins.discovery import PluginPlaces, bundled_plugins
from tests.unit.plugins.stage import Stage


class Session:
    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage, self.folder = stage, folder

    async def call(self, args: dict[str, Any], *makes: Path) -> None:
        """A call of a tool that makes these files."""
        details = {"tool_name": "terminal", "args": args, "task_id": "s1"}
        assert await self._stage.hooks.fire(HookName.PRE_TOOL_CALL, **details) == []
        for path in makes:
            path.write_text("12345")
        await self._stage.hooks.fire(HookName.POST_TOOL_CALL, **details, result="ok")

    async def say(self, text: str = "") -> str:
        answer: str = await self._stage.host.commands["disk-cleanup"](text)
        return answer


@pytest.fixture
def session(stage: Stage, tmp_path: Path) -> Session:
    folder = tmp_path / "temporary"
    folder.mkdir()
    outcomes = stage.load("disk-cleanup", places=PluginPlaces(stage.folder, bundled_plugins()))
    assert [outcome.problem for outcome in outcomes] == [""]
    return Session(stage, folder)


async def test_files_the_agent_makes_are_listed_and_removed(session: Session) -> None:
    made, other = session.folder / "a.txt", session.folder / "b.txt"
    await session.call({"command": f"echo 12345 > {made}; sort {other}"}, made)
    await session.call({"path": str(other), "content": "12345"}, other)
    listing = await session.say()
    assert listing.splitlines()[:2] == [f"  1           5 B  {made}", f"  2           5 B  {other}"]
    assert await session.say("remove 2") == f"removed {other}"
    assert await session.say("remove") == f"removed {made}"
    assert not made.exists()
    assert await session.say() == "the agent made no temporary files that are still there"


async def test_existing_file_is_never_removed(session: Session) -> None:
    mine = session.folder / "mine.txt"
    await session.call({"command": f"cat {mine}"})  # it names it, but it is not there
    mine.write_text("by the user")
    await session.call({"command": f"cat {mine}"}, mine)
    assert "no temporary files" in await session.say()
    await session.say("remove")
    assert mine.exists()


async def test_a_file_that_was_replaced_is_not_removed(session: Session) -> None:
    made = session.folder / "a.txt"
    await session.call({"command": f"touch {made}"}, made)
    replacement = session.folder / "new"
    replacement.write_text("by somebody else")
    replacement.rename(made)
    assert "no temporary files" in await session.say("remove")
    assert made.exists()


async def test_files_elsewhere_links_and_full_folders_are_left_alone(session, user_home):
    # The homes of tests are temporary files too, so only one folder is passed as temporary.
    (module,) = [
        module for name, module in sys.modules.items()
        if name.startswith("_hermes_brought_") and name.endswith(".tracker")
    ]  # fmt: skip
    tracker = module.Tracker([session.folder])
    precious, link = user_home / "precious.txt", session.folder / "link"
    full, empty = session.folder / "full", session.folder / "empty"
    inner = full / "inner"
    args = {"command": f"x {precious} {link} {session.folder}/../../x {full}", "and": [str(empty)]}
    tracker.before(args)
    precious.write_text("keep")
    link.symlink_to(precious)
    full.mkdir()
    empty.mkdir()
    inner.write_text("by somebody else")
    tracker.after(args)
    assert [path for path, _ in tracker.made()] == [empty, full]
    tracker.remove(empty)
    for path in (full, precious, link):
        with pytest.raises(OSError, match=r"."):
            tracker.remove(path)
    assert precious.exists()
    assert link.is_symlink()
    assert inner.exists()


async def test_invalid_argument_shows_the_usage(session: Session) -> None:
    assert "usage" in await session.say("delete everything")
    assert "there is no number 7" in await session.say("remove 7")
