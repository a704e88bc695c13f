"""SIGKILL of the agent while commands of every kind run: all of them end."""

import signal
import subprocess
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from tests.cases import cases

CASES = cases(__file__)


NAMES = ("background", "stubborn", "pty", "apart", "deep", "deeper", "left", "foreground")


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def agent(tmp_path, scratch):
    process = subprocess.Popen(
        [sys.executable, "-c", CASES["agent"], str(tmp_path)],
        env={
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(scratch),
            "PYTHONPATH": ":".join(filter(None, sys.path)),
        },
        stdout=subprocess.DEVNULL,
    )
    yield process
    process.kill()
    process.wait()


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def working_in(folder: Path) -> list[psutil.Process]:
    found = psutil.process_iter(["cwd"])
    return [process for process in found if process.info["cwd"] == str(folder) and lives(process)]


async def test_nothing_outlives_a_killed_agent(agent, tmp_path, scratch):
    files = [tmp_path / name for name in NAMES]
    while not all(file.exists() and file.read_text().strip() for file in files):
        assert agent.poll() is None
        await anyio.sleep(0.02)
    started = [psutil.Process(int(file.read_text())) for file in files]
    assert all(map(lives, started))
    assert len(working_in(tmp_path)) > len(started)
    agent.send_signal(signal.SIGKILL)
    await anyio.to_thread.run_sync(agent.wait)
    while any(map(lives, started)) or working_in(tmp_path):
        await anyio.sleep(0.02)
    while list(scratch.iterdir()):  # and no private file is left
        await anyio.sleep(0.02)
