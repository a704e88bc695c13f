"""Two processes and a full disk: a clear error, no acknowledged write lost, writing resumes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.store.full_disk_scene import MORE

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
MOUNTED = 'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"'


def on_a_small_disk(folder: Path, size: str, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that sees a tmpfs at `folder`, which other processes do not see."""
    script = ["sh", "-c", MOUNTED.format(size=size), str(folder), *command]
    return subprocess.run(
        [*NAMESPACE, *script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disk")
    try:
        tried = on_a_small_disk(folder, "1m", "true")
    except FileNotFoundError:
        pytest.skip("needs unshare")
    if tried.returncode != 0:
        pytest.skip(f"no right to mount a tmpfs here: {tried.stderr.strip()}")
    return folder


def test_two_processes_survive_a_full_disk(disk):
    scene = "tests.integration.store.full_disk_scene"
    done = on_a_small_disk(disk, "3m", sys.executable, "-m", scene, "direct", str(disk))
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)

    for writer in seen["full"]:
        assert "no space left" in writer["error"]
        assert "Free some space" in writer["hint"]
    assert sum(len(writer["kept"]) for writer in seen["full"]) > 10
    assert seen["integrity_when_full"] == "ok"

    for full, after in zip(seen["full"], seen["after"], strict=True):
        assert len(after["kept"]) == len(full["kept"]) + MORE
    assert seen["exit_codes"] == [0, 0]
    assert seen["integrity"] == "ok"
    assert seen["stored"] == [writer["kept"] for writer in seen["after"]]
    assert "Traceback" not in done.stderr
