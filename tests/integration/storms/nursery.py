"""Processes of `hermes` that are killed at any instant. Run as a program: see `main`.

The program imports what a chat needs, opens nothing and has no threads, so it can fork a process
that is ready to go in a few milliseconds. What the child runs is the command line itself.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.cli.context import ProgressLine
from hermes.cli.main import main as hermes
from hermes.cli.session import run_turn
from hermes.cli.terminal import JsonRenderer
from hermes.config.home import Home
from hermes.config.loader import load

ROOT = Path(__file__).resolve().parents[3]
RESUME = "resume"


class Order(NamedTuple):
    """One life of a process."""

    home: str
    folder: str
    arguments: list[str]  #: Arguments of `hermes`, or `resume` to continue the interrupted turn.
    event: int = 0  #: It is killed after it has printed so many events; 0 counts from its start.
    seconds: float | None = None  #: It is killed so long after that; None lets it come to its end.


class Life(NamedTuple):
    lines: list[str]  #: What it printed, whole lines only.
    exit_code: int  #: -9 when it was killed.
    errors: str


def live(order: Order) -> int:
    os.environ["HERMES_HOME"] = order.home
    os.chdir(order.folder)
    if order.arguments == [RESUME]:
        return asyncio.run(resume(order))
    return hermes(order.arguments)


async def resume(order: Order) -> int:
    """Go on without a word; there may be nothing to go on with."""
    home = Home(Path(order.home))
    async with App(home, load(home), ProgressLine(StringIO()), lambda _: None) as app:
        agent = await app.agent(SessionRequest(Path(order.folder), latest=True))
        return await run_turn(agent, None, JsonRenderer(sys.stdout)) if agent.abandoned else 0


def be_a_process(order: Order, outlet: int, errors: int, modules: int) -> int:
    """In the child; the exit code."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(outlet, 1)
    os.dup2(errors, 2)
    try:
        return live(order)
    except BaseException:  # noqa: BLE001 - the child must not go on with the parent's code
        traceback.print_exc()
        return 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(modules, "\n".join(sorted(sys.modules)).encode())


def run_one(order: Order) -> Life:
    """Fork a process, and kill it when the order says so."""
    inlet, outlet = os.pipe()
    errors, modules = os.memfd_create("errors"), os.memfd_create("modules")
    child = os.fork()
    if child == 0:
        os._exit(be_a_process(order, outlet, errors, modules))
    os.close(outlet)
    with os.fdopen(inlet, "rb", buffering=0) as pipe:
        printed = b""
        if order.seconds is not None:
            while printed.count(b"\n") < order.event and (more := pipe.read(65_536)):
                printed += more
            time.sleep(order.seconds)
            os.kill(child, signal.SIGKILL)
        printed += pipe.read()
    _, status = os.waitpid(child, 0)
    text = _text(errors)
    load_everything(_text(modules).split())
    *lines, _incomplete = printed.decode().split("\n")
    return Life(lines, os.waitstatus_to_exitcode(status), text)


def _text(memory: int) -> str:
    with os.fdopen(memory, "rb") as file:
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def load_everything(names: list[str]) -> None:
    """What a life that came to its end had to load, the next ones find loaded."""
    for name in names:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)


def main() -> None:
    """An order a line on stdin, the life of that process a line on stdout."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(run_one(Order(*json.loads(line)))) + "\n")
        sys.stdout.flush()


class Nursery:
    """The program, seen from a test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, order: Order) -> Life:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the nursery died; see its stderr"
        return Life(*json.loads(answer))


@contextmanager
def nursery() -> Iterator[Nursery]:
    command = [sys.executable, "-m", __spec__.name]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Nursery(process)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
