"""Measure the agent loop and, for comparison, that of the published hermes-agent package.

    python -m bench.loop [--peer VENV] [--iterations 200] [--runs 3] [--json FILE]

The agent runs in a separate process (`bench.loop_worker`). The model runs in this one, answers
immediately, and requests one cheap tool call after the other. Figures are CPU milliseconds of the
agent's process with all its threads. The result is the minimum over several turns, because other
load on the machine can only increase a figure.

The exit code is 1 if a target is missed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.contenders import ROOT, Contender, ours, peer
from bench.rows import one_shot
from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, StepLike

EARLY, MIDDLE = 5, 46
AROUND = 4
"""A figure is the median over this many iterations before and after the named one."""
IMPORT_RUNS = 5
DONE = "All done."

Figures = dict[str, float]


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process, including threads that have ended (Linux only).

    It is read from the CPU clock of the process, see `clock_getcpuclockid(3)`.
    """
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e6


class Turn:
    """The scripted model of a turn; records the agent's CPU time when each call arrives."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self.pid = 0
        self.marks: list[float] = []

    def answer(self, request: RecordedRequest) -> StepLike:
        if not request.body.get("tools"):
            return "A title"
        self.marks.append(cpu_ms(self.pid))
        number = len(self.marks)
        if number > self._calls:
            return DONE
        # The text differs each time, so that no contender detects a loop.
        item = {"id": "1", "content": f"step {number}", "status": "in_progress"}
        return ToolCall(f"call_{number}", "todo", json.dumps({"todos": [item]}))

    def steps(self) -> list[float]:
        """Return the CPU time of each iteration, from one model request to the next."""
        return [after - before for before, after in pairwise(self.marks)]


def worker(contender: Contender, python: str, *arguments: str) -> list[str]:
    # -P: the peer has modules with the same names as ours.
    return [python, "-P", str(ROOT / "bench" / "loop_worker.py"), contender.name, *arguments]


def one_turn(contender: Contender, python: str, iterations: int) -> Figures:
    """Return the median CPU time around the 5th, the 46th and the last iteration."""
    calls = max(iterations, MIDDLE) + AROUND
    turn = Turn(calls)
    with tempfile.TemporaryDirectory() as name, ModelServer(turn.answer) as server:
        folder = Path(name)
        contender.point_at(server.url, folder)
        process = subprocess.Popen(
            worker(contender, python, server.url, str(calls)),
            cwd=folder,
            env=contender.environment(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        turn.pid = process.pid
        output, _ = process.communicate()
    if process.returncode or DONE not in output or len(turn.marks) != calls + 1:
        raise SystemExit(f"{contender.name} made {len(turn.marks)} calls:\n{output[-2000:]}")
    steps = turn.steps()
    around = {
        f"at {number}": statistics.median(steps[max(number - AROUND - 1, 0) : number + AROUND])
        for number in (EARLY, MIDDLE, iterations)
    }
    return {"to 1st request": turn.marks[0], **around}


def import_ms(contender: Contender, python: str) -> float:
    """Return the CPU time of importing the class when its files are cached."""
    command, costs = worker(contender, python, "import"), []
    with tempfile.TemporaryDirectory() as folder:
        env = contender.environment(Path(folder))
        for _ in range(IMPORT_RUNS + 1):
            spent = subprocess.check_output(command, cwd=folder, env=env)
            costs.append(float(spent))
    return statistics.median(costs[1:])


def measure(contender: Contender, python: str, iterations: int, runs: int) -> Figures:
    turns = [one_turn(contender, python, iterations) for _ in range(runs)]
    figures = {name: min(turn[name] for turn in turns) for name in turns[0]}
    figures["last / 5th"] = figures[f"at {iterations}"] / figures[f"at {EARLY}"]
    figures["chat -q"] = one_shot(contender)["cpu_ms"]
    figures["import"] = import_ms(contender, python)
    return figures


def targets(iterations: int) -> Figures:
    """Return the upper limits of our figures."""
    each = {f"at {number}": 3.0 for number in (EARLY, MIDDLE, iterations)}
    return {**each, "last / 5th": 1.3, "chat -q": 450.0, "import": 250.0}


def show(table: dict[str, Figures], most: Figures) -> list[str]:
    """Print the table and return the targets that were missed."""
    others = [name for name in table if name != "hermes"]
    head = "".join(f"{name:>14}" for name in others)
    print(f"{'CPU ms':<16} {'hermes':>10} {head} {'target':>8}")
    missed = []
    for figure, value in table["hermes"].items():
        theirs = "".join(f"{table[name][figure]:>14.2f}" for name in others)
        target = f"{most[figure]:>8.1f}" if figure in most else f"{'-':>8}"
        print(f"{figure:<16} {value:>10.2f} {theirs} {target}")
        if value > most.get(figure, value):
            missed.append(figure)
    for figure in missed:
        print(f"missed: {figure}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(
        description="measure the agent loop and, with --peer, that of hermes-agent"
    )
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--iterations", type=int, default=200, help="model calls of the turn")
    parser.add_argument(
        "--runs", type=int, default=5, help="turns; the minimum of each figure counts"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    contenders = [(ours(), sys.executable)]
    if args.peer:
        contenders.append((peer(args.peer), str(args.peer / "bin" / "python")))
    table = {
        contender.name: measure(contender, python, args.iterations, args.runs)
        for contender, python in contenders
    }
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")
    sys.exit(1 if show(table, targets(args.iterations)) else 0)


if __name__ == "__main__":
    main()
