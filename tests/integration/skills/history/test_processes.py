"""Several processes, and processes that are killed: nothing that was written is lost."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes.skills.history import BY_HAND, Author, FileUpdate, PendingChange, SkillChange

HERE = Path(__file__).parent
CHILD = (HERE / "child.py.txt").read_text("utf-8")


@contextmanager
def child(skills, body: str, *arguments: str):
    program = [sys.executable, "-c", CHILD + body, str(skills.folder), *arguments]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


STOPS_BEFORE_THE_COMMIT = (HERE / "stops_before_the_commit.py.txt").read_text("utf-8")


async def test_killed_between_writing_and_recording(skills):
    await skills.change("b/SKILL.md", "1", "one")
    with child(skills, STOPS_BEFORE_THE_COMMIT) as process:
        assert process.stdout.readline() == "written\n"
    skills.put("b/SKILL.md", "by hand")
    await skills.change("b/SKILL.md", "2", "two")
    assert await skills.reasons() == ["two", BY_HAND, "from the child", "one"]
    (found,) = await skills.history.log("a")
    assert (found.session, found.who) == ("child", "agent")
    await skills.history.undo(found.id)
    assert not (skills.folder / "a").exists()


WRITES_ON = (HERE / "writes_on.py.txt").read_text("utf-8")


@pytest.mark.parametrize("wait_for", [1, 2, 3])
async def test_killed_at_any_time_what_was_acknowledged_is_in_the_history(skills, wait_for):
    said: list[str] = []
    for run in range(3):
        with child(skills, WRITES_ON, f"run{run}") as process:
            said += [process.stdout.readline().strip() for _ in range(wait_for)]
        # Killed while the next one was on its way.
    await skills.change("b/SKILL.md", "1", "last")
    reasons = await skills.reasons("a")
    lines = skills.read("a/SKILL.md").split()
    assert set(said) <= set(lines)
    assert reasons == lines[::-1]
    assert not skills.notices


async def test_two_processes_at_once_lose_nothing(skills):
    body = WRITES_ON.replace("1000", "8")
    with child(skills, body, "x") as one, child(skills, body, "y") as other:
        assert (one.wait(60), other.wait(60)) == (0, 0)
    lines = skills.read("a/SKILL.md").split()
    assert sorted(lines) == sorted(f"{name}-{n}" for name in "xy" for n in range(8))
    assert await skills.reasons("a") == lines[::-1]


UNDOES_ON = (HERE / "undoes_on.py.txt").read_text("utf-8")


def states(folder: Path) -> set[str]:
    return {each.read_text() for each in folder.glob("a/references/*")}


@pytest.mark.parametrize("wait_for", [0, 1, 2])
async def test_an_undo_that_was_killed_is_finished_or_not_begun(skills, wait_for):
    def write(text: str) -> None:
        for number in range(60):
            skills.put(f"a/references/{number}.md", text)

    await skills.do(lambda: write("old"), "a")
    new = await skills.do(lambda: write("new"), "a")
    with child(skills, UNDOES_ON, new.id) as process:
        for _ in range(wait_for):
            process.stdout.readline()
        while not (skills.folder / ".history/intent.json").exists():
            assert process.poll() is None
    await skills.change("b/SKILL.md", "1", "last")
    assert len(states(skills.folder)) == 1
    assert BY_HAND not in await skills.reasons()


async def test_half_an_undo_is_finished_and_a_file_changed_since_is_kept(skills):
    names = [f"a/references/{number}.md" for number in range(3)]
    await skills.do(lambda: [skills.put(name, "old") for name in names], "a")
    new = await skills.do(lambda: [skills.put(name, "new") for name in names], "a")
    changes = await skills.history._require_history().changes("", new.id)
    change = SkillChange("undo", ("a",), "undo it", Author.USER, paths=tuple(names), undoes=new.id)
    updates = tuple(FileUpdate(each.path, each.before) for each in changes)
    skills.history._write_journal(PendingChange(change, updates))
    assert '"puts": [' in (skills.folder / ".history/intent.json").read_text()  # file format
    skills.put(names[0], "old")
    skills.put(names[1], "by hand")
    await skills.change("b/SKILL.md", "1", "last")
    assert [skills.read(name) for name in names] == ["old", "by hand", "old"]
    assert (await skills.reasons())[:2] == ["last", "undo it"]


async def test_a_file_that_was_not_yet_in_its_place_is_cleared_away(skills):
    await skills.change("a/SKILL.md", "1", "one")
    left = skills.put("a/.SKILL.md.ab12_xyz.tmp", "half")
    mine = skills.put("a/.notes.tmp", "mine")
    elsewhere = skills.put("b/.SKILL.md.ab12_xyz.tmp", "another's")
    change = SkillChange("edit", ("a",), "two", Author.AGENT, paths=("a",))
    skills.history._write_journal(PendingChange(change))
    await skills.change("c/SKILL.md", "1", "last")
    assert [each.exists() for each in (left, mine, elsewhere)] == [False, True, True]
