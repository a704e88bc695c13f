"""Measure the CPU time and memory of a command and its child processes."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    cpu_ms: float
    rss_mb: float
    exit_code: int
    output: str


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    started: Callable[[int], None] = lambda _pid: None,
) -> Cost:
    """Run `argv` until it ends. `started` is called with the process id."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        started(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return Cost(
            cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000,
            rss_mb=usage.ru_maxrss / 1024,
            exit_code=process.returncode,
            output=output.read(),
        )


def cpu_ms_so_far(pid: int) -> float:
    """Return the CPU time of all running threads of a process (Linux only)."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e6
