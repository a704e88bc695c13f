"""Two writers at once, and one that is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.skills.writing.conftest import text

CHILD = Path(__file__).with_name("child.py.txt").read_text("utf-8")


def child(place, who: str, times: int) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", CHILD, place.home, place.bundled, who, str(times)]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def both(place):
    place.put(place.bundled, "shared", text("shared", body="Steps\nLAST\n"))
    place.put(place.bundled, "mine", text("other", body="x"))
    place.put(place.home, "mine", text("mine", body="Steps\nLAST\n"))
    for each in ("a.md", "b.md", "c.md"):
        file = place.bundled / "shared/references" / each
        file.parent.mkdir(exist_ok=True)
        file.write_text(each * 10_000)
    return place


def lines(place, name: str) -> list[str]:
    return place.read(f"{name}/SKILL.md").partition("Steps\n")[2].split()[:-1]


async def test_no_change_of_two_processes_is_lost(both):
    children = [child(both, who, 5) for who in "ab"]
    assert [each.communicate(timeout=60) and each.returncode for each in children] == [0, 0]
    for name in ("shared", "mine"):
        assert sorted(lines(both, name)) == sorted(f"{who}{n}" for who in "ab" for n in range(5))
        logged = [each.reason for each in await both.history.log(name) if each.who == "agent"]
        assert logged[::-1] == lines(both, name)


@pytest.mark.parametrize("wait_for", [0, 1, 2, 3])
async def test_killed_while_it_writes_the_skill_is_whole_and_recorded(both, wait_for):
    process = child(both, "a", 1000)
    for _ in range(wait_for):
        process.stdout.readline()
    while not (both.home / ".history/intent.json").exists():
        assert process.poll() is None
    process.kill()
    process.communicate()
    both.put(both.home, "z", text("z"))
    await both.do("write_file", "z", file_path="assets/x", file_content="x")
    if (both.home / "shared").exists():
        there = {each.name for each in (both.home / "shared").rglob("*") if each.is_file()}
        assert there == {"SKILL.md", ".overlay.json", "a.md", "b.md", "c.md"}
    for name in ("shared", "mine"):
        logged = [each.reason for each in await both.history.log(name) if each.who == "agent"]
        written = lines(both, name) if (both.home / name).exists() else []
        assert logged[::-1] == written
        assert len(written) >= wait_for
    assert list(both.home.glob(".stage-*")) == []
