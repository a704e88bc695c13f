"""Count the files and functions of Hermes that run for one task.

    python -m bench.walk [--only chat] [--json FILE]

`chat` is `hermes chat -q` with one terminal command that needs approval; `cron` is one run of a
scheduled job. A profile hook in the process counts what is executed, in every thread. Compare the
figures of two commits: fewer files and functions are easier to follow.
"""

import argparse
import json
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.contenders import ROOT, ours
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike

# Runs in the measured process: `main` with a profile hook that notes each code object of `src`.
TRACER = """
import atexit, json, sys, threading
source, report = sys.argv[1:3]
codes = set()
def hook(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # a function, not the body of a class
        codes.add(frame.f_code)
def write():
    sys.setprofile(None)
    seen = {
        (code.co_filename, code.co_qualname)
        for code in codes
        if code.co_filename.startswith(source) and "<" not in code.co_qualname.split(".")[-1]
    }
    modules = sum(name.split(".")[0] in ("hermes", "hermes_plugins") for name in sys.modules)
    files = {file for file, _ in seen}
    with open(report, "w") as out:
        json.dump({"modules": modules, "files": len(files), "functions": len(seen)}, out)
atexit.register(write)
sys.argv = ["hermes", *sys.argv[3:]]
threading.setprofile(hook)
sys.setprofile(hook)
from hermes.cli.main import run
sys.exit(run())
"""
WALKS = {
    "chat": (["chat", "-q", "clean up the build folder"],),
    "cron": (
        ["cron", "create", "every 1h", "say hello", "--name", "walk"],
        ["cron", "run", "walk"],
        ["cron", "tick"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="count the code that runs for one task")
    parser.add_argument(
        "--only", choices=WALKS, action="append", help="only this walk (repeatable)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    table = {name: walk(WALKS[name]) for name in args.only or WALKS}
    print(f"{'walk':<8} {'modules':>8} {'files':>8} {'functions':>10}")
    for name, figures in table.items():
        print(f"{name:<8} {figures['modules']:>8} {figures['files']:>8} {figures['functions']:>10}")
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")


def walk(commands: tuple[list[str], ...]) -> dict[str, int]:
    """Run the commands in a new home; return the figures of the last."""
    answered = False

    def answer(request: RecordedRequest) -> StepLike:
        nonlocal answered
        if answered or not request.body.get("tools"):
            return "Done."
        answered = True
        return ToolCall("call_1", "terminal", '{"command":"rm -rf build"}')

    with tempfile.TemporaryDirectory() as folder, ModelServer(answer) as server:
        home = Path(folder)
        (home / "build").mkdir()
        contender = ours()
        contender.point_at(server.url, home)
        report = home / "report.json"
        environment = contender.environment(home) | {"TERM": "xterm"}
        for command in commands:
            traced = [sys.executable, "-c", TRACER, str(ROOT / "src"), str(report), *command]
            _run_in_terminal(traced, environment, home)
        figures: dict[str, int] = json.loads(report.read_text())
        return figures


def _run_in_terminal(command: list[str], environment: dict[str, str], folder: Path) -> None:
    """Run `command` in a pseudo-terminal and answer its first question with yes."""
    ours_, theirs = pty.openpty()
    process: subprocess.Popen[Any] = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    )
    os.close(theirs)
    output, asked = b"", False
    while True:
        try:
            data = os.read(ours_, 65536)
        except OSError:  # the terminal is closed: the process has ended
            break
        if not data:
            break
        output += data
        if not asked and b"rm -rf build" in output and b"?" in output:
            asked = True
            os.write(ours_, b"o\n")
    os.close(ours_)
    if process.wait() != 0:
        raise SystemExit(f"{command[5:]} failed:\n{output.decode(errors='replace')[-2000:]}")


if __name__ == "__main__":
    main()
