"""SIGKILL at every step: there is the old skill or the new one, and the lock agrees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.skills_hub import kill_scene
from tests.integration.skills_hub.wire import Files, skill


def folder(path: Path, files: Files) -> Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def deaths(tmp_path: Path, action: str) -> list[dict[str, object]]:
    old = folder(tmp_path / "old", skill("pdf", "Old.", {"a.md": b"a\n"}))
    new = folder(tmp_path / "new", skill("pdf", "New.", {"b.md": b"b\n"}))
    done = subprocess.run(
        [
            sys.executable,
            kill_scene.__file__,
            str(tmp_path / "home/.hub"),
            str(old),
            str(new),
            action,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("action", "first", "last"),
    [("install", "", "new"), ("update", "old", "new"), ("remove", "old", "")],
)
def test_killed_process_leaves_the_old_or_the_new_skill(tmp_path, action, first, last):
    *killed, finished = deaths(tmp_path, action)
    assert len(killed) > 5
    assert finished["code"] == 0
    for one in (*killed, finished):
        assert one["clean"], one
        assert one["version"] in (first, last), one
        assert one["in_lock"] == (["pdf"] if one["version"] else []), one
        assert not one["pending"], one
    versions = [one["version"] for one in (*killed, finished)]
    assert versions == sorted(versions, key=lambda version: version == last)
    assert {first, last} == set(versions)
    if action == "update":
        gaps = [one for one in killed if one["seen_before"] == 0]
        assert len(gaps) == 1, "between two renames, and no longer"
