"""Runs scripts in processes of their own without starting Python for each of them.

One process has loaded what scripts import; it forks for each run, and the fork gets arguments, a
folder, an environment and standard streams of its own. A fresh Python takes ten times as long. That
each script also starts by itself is tested in `test_all.py` and by the steps of its skill.
"""

import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.bundled_skills.imports import imported
from tests.bundled_skills.pages import REPOSITORY

SECONDS = 60
"""A script that runs longer is ended."""


class Forking:
    """The process that forks; `run` is like `subprocess.run` for one script."""

    def __init__(self, scripts: list[Path]) -> None:
        names = {name for script in scripts for name in imported(script)}
        modules = sorted(n for n in names if n.partition(".")[0] in sys.stdlib_module_names)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.bundled_skills.forking", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            cwd=REPOSITORY,
        )

    def close(self) -> None:
        self._server.communicate()

    def run(
        self, script: Path, *arguments: str, cwd: Path, stdin: str
    ) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            streams = [Path(folder, name) for name in ("in", "out", "err")]
            streams[0].write_text(stdin, encoding="utf-8")
            order = {
                "argv": [str(script), *arguments],
                "cwd": str(cwd),
                "environment": dict(os.environ),
                "streams": [str(stream) for stream in streams],
            }
            assert self._server.stdin
            assert self._server.stdout
            self._server.stdin.write(json.dumps(order) + "\n")
            self._server.stdin.flush()
            code = int(self._server.stdout.readline())
            out, err = (stream.read_text(encoding="utf-8") for stream in streams[1:])
        return subprocess.CompletedProcess(order["argv"], code, out, err)


def serve(modules: list[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(_script(json.loads(line)))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _script(order: dict[str, Any]) -> int:
    """The exit code of a script that runs in this process."""
    signal.alarm(SECONDS)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, path in enumerate(order["streams"]):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT
        os.dup2(os.open(path, flags), number)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    sys.argv = order["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    code: object = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - as Python itself reports it
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(sys.argv[1:])
