"""Nothing a command started outlives us."""

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

AGENT = """
import asyncio, sys
from pathlib import Path
from hermes.core.cancel import CancelToken
from hermes.terminal.local.shell import LocalShell

async def main(folder):
    shell = LocalShell({"PATH": "/usr/bin:/bin"}, Path(folder))
    options = {"timeout": 600, "on_output": print, "cancel": CancelToken()}
    await shell.run("sleep 600 & echo $! > background", **options)
    await shell.run("trap '' TERM; sleep 600 & echo $! > child; echo $$ > shell; wait", **options)

asyncio.run(main(sys.argv[1]))
"""


def start_agent(folder: Path, scratch: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", AGENT, str(folder)],
        env={"TMPDIR": str(scratch), "PYTHONPATH": ":".join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_killing_us_leaves_no_orphan_and_no_file(
    number: signal.Signals, tmp_path: Path, gone: Callable[[int], Awaitable[None]]
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    agent = start_agent(tmp_path, scratch)
    names = ("background", "child", "shell")
    while not all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in names):
        assert agent.poll() is None
        await anyio.sleep(0.02)
    agent.send_signal(number)
    await anyio.to_thread.run_sync(agent.wait)
    for name in names:
        await gone(int((tmp_path / name).read_text()))
    while list(scratch.iterdir()):
        await anyio.sleep(0.02)
