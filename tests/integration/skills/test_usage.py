import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.skills.skill import SkillUsage, UsageRecord


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "skills" / ".usage.json"


def test_uses_are_counted_and_the_last_one_kept(file: Path):
    usage = SkillUsage(file)
    assert usage.all() == {}
    usage.record("arxiv", 100.0)
    usage.record("arxiv", 90.0)
    usage.record("other", 50.0)
    assert usage.get("arxiv") == UsageRecord(count=2, last=100.0)
    assert SkillUsage(file).get("other") == UsageRecord(count=1, last=50.0)
    assert usage.get("never") == UsageRecord()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_author_is_stored_with_the_counts(file: Path):
    usage = SkillUsage(file)
    usage.record_author("mine", "agent", 10.0)
    usage.record("mine", 20.0)
    assert usage.get("mine") == UsageRecord(1, 20.0, "agent", 10.0)
    usage.remove("mine")
    assert usage.all() == {}


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"a": 5}', "\x00"])
def test_a_damaged_file_counts_as_empty(file: Path, damage: str):
    file.parent.mkdir()
    file.write_text(damage)
    usage = SkillUsage(file)
    assert usage.all() == {}
    assert file.read_text() == damage
    usage.record("x", 1.0)
    assert json.loads(file.read_text()) == {"x": {"count": 1, "last": 1.0}}
    assert file.with_name(".usage.json.damaged").read_text() == damage


def test_unwritable_usage_folder_is_ignored(tmp_path: Path, caplog):
    (tmp_path / "skills").write_text("a file is in the way")
    SkillUsage(tmp_path / "skills" / ".usage.json").record("x", 1.0)
    assert "a use of the skill x was not counted" in caplog.text


def test_no_use_is_lost_when_many_processes_count(file: Path):
    code = (
        "import sys; from pathlib import Path; from hermes.skills.skill import SkillUsage as Uses\n"
        "for _ in range(20): Uses(Path(sys.argv[1]), 60).record('x', 1.0)"
    )
    command = [sys.executable, "-c", code, str(file)]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert SkillUsage(file).get("x").count == 60
