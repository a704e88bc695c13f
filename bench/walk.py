"""Count the files and functions of Hermes that run for one task, and the hops between files.

    python -m bench.walk [--only chat] [--files] [--json FILE]

`chat` is `hermes chat -q` with one terminal command that needs approval, `gateway` the same as a
message to the platform `local`, `cron` one run of a scheduled job. A profile hook in the process
counts what is executed, in every thread; a hop is a function that calls one of another file,
counted once for each pair of functions. Compare the figures of two commits: fewer files and
functions are easier to follow.
"""

import argparse
import fcntl
import json
import os
import pty
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bench.contenders import ROOT, ours
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike

# Runs in the measured process: `main` with a profile hook that notes each code object of `src`.
TRACER = """
import atexit, json, sys, threading
source, report = sys.argv[1:3]
calls = set()
def hook(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # a function, not the body of a class
        calls.add((frame.f_back and frame.f_back.f_code, frame.f_code))
def write():
    sys.setprofile(None)
    seen = {
        (code.co_filename, code.co_qualname)
        for _, code in calls
        if code.co_filename.startswith(source) and "<" not in code.co_qualname.split(".")[-1]
    }
    hops = {
        (caller, code)
        for caller, code in calls
        if caller and caller.co_filename != code.co_filename
        if caller.co_filename.startswith(source) and code.co_filename.startswith(source)
    }
    modules = sum(name.split(".")[0] in ("hermes", "hermes_plugins") for name in sys.modules)
    files = {}
    for file, _ in seen:
        files[file] = files.get(file, 0) + 1
    with open(report, "w") as out:
        figures = {"modules": modules, "files": files, "functions": len(seen), "hops": len(hops)}
        json.dump(figures, out)
atexit.register(write)
sys.argv = ["hermes", *sys.argv[3:]]
threading.setprofile(hook)
sys.setprofile(hook)
from hermes.cli.main import run
sys.exit(run())
"""


class Walk(NamedTuple):
    """Commands of `hermes`, and what a user types into the last one."""

    commands: tuple[list[str], ...]
    typed: tuple[tuple[str, str], ...] = ()
    """(text on the screen, input after it)."""
    settings: str = ""  #: Added to config.yaml.
    variables: Mapping[str, str] = MappingProxyType({})


WALKS = {
    "chat": Walk((["chat", "-q", "clean up the build folder"],), (("rm -rf build", "o\n"),)),
    "gateway": Walk(
        (["gateway", "run"],),
        (
            ("Local is connected", "clean up the build folder\n"),
            ("rm -rf build", "/approve\n"),
            ("Done.", "\x03"),
        ),
        "gateway:\n  terminal: local\n",
        {"LOCAL_SOCKET": "-", "LOCAL_ALLOWED_USERS": "terminal"},
    ),
    "cron": Walk(
        (
            ["cron", "create", "every 1h", "say hello", "--name", "walk"],
            ["cron", "run", "walk"],
            ["cron", "tick"],
        )
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="count the code that runs for one task")
    parser.add_argument(
        "--only", choices=WALKS, action="append", help="only this walk (repeatable)"
    )
    parser.add_argument("--files", action="store_true", help="list the files with their functions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    table = {name: walk(WALKS[name]) for name in args.only or WALKS}
    print(f"{'walk':<8} {'modules':>8} {'files':>8} {'functions':>10} {'hops':>6}")
    for name, figures in table.items():
        files = figures["files"]
        print(
            f"{name:<8} {figures['modules']:>8} {len(files):>8}"
            f" {figures['functions']:>10} {figures['hops']:>6}"
        )
        if args.files:
            for file, count in sorted(files.items()):
                print(f"  {count:>4}  {Path(file).relative_to(ROOT / 'src')}")
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")


def walk(task: Walk) -> dict[str, Any]:
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
        settings = home / ".hermes" / "config.yaml"
        settings.write_text(settings.read_text() + task.settings)
        report = home / "report.json"
        environment = contender.environment(home) | {"TERM": "xterm", **task.variables}
        for command in task.commands:
            traced = [sys.executable, "-c", TRACER, str(ROOT / "src"), str(report), *command]
            _run_in_terminal(traced, environment, home, task.typed)
        figures: dict[str, Any] = json.loads(report.read_text())
        return figures


def _run_in_terminal(
    command: list[str],
    environment: dict[str, str],
    folder: Path,
    typed: tuple[tuple[str, str], ...],
) -> None:
    """Run `command` in a pseudo-terminal and type each input when its text has appeared."""
    ours_, theirs = pty.openpty()
    process: subprocess.Popen[Any] = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    )
    os.close(theirs)
    steps = list(typed)
    output, seen = "", 0
    while True:
        try:
            data = os.read(ours_, 65536)
        except OSError:  # the terminal is closed: the process has ended
            break
        if not data:
            break
        output += data.decode(errors="replace")
        if steps and (found := output.find(steps[0][0], seen)) >= 0:
            seen = found + len(steps[0][0])
            os.write(ours_, steps.pop(0)[1].encode())
    os.close(ours_)
    if process.wait() not in (0, 130):
        raise SystemExit(f"{command[5:]} failed:\n{output[-2000:]}")


if __name__ == "__main__":
    main()
