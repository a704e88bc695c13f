"""Runs a homeserver for as long as a test run lasts, also one that ends badly.

    keeper.py PID CONFIG LOG

PID is the process of the test run. Returns at once; what stays behind ends by itself."""

import os
import subprocess
import sys
import time
from pathlib import Path

from psutil import pid_exists


def main(pid: int, config: str, log: str) -> None:
    if os.fork():
        return
    os.setsid()
    with Path(log).open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        command = [sys.executable, "-m", "synapse.app.homeserver", "-c", config]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as server:
            while server.poll() is None and pid_exists(pid):
                time.sleep(0.2)
            server.kill()


main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
