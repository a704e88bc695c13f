"""Measure `hermes acp`: the start for an editor, and idle sessions.

    python -m bench.acp [--runs 5] [--sessions 50] [--json FILE]

*initialize* is the CPU time from starting the command until it has answered `initialize`, the
minimum over the runs. *session* is the memory that each further open session takes while it is
idle after one prompt: the growth of the resident memory over many sessions, after the first ten.
The exit code is 1 if a target is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.contenders import ours
from bench.measure import cpu_ms_so_far
from hermes.core.testing import ModelServer, echo

TARGETS = {"initialize, CPU ms": 400.0, "session, MB": 1.0}
WARM_UP = 10  #: Sessions that are opened before memory is measured.
Figures = dict[str, float]


class Editor:
    """An editor that started the agent."""

    def __init__(self, home: Path) -> None:
        contender = ours()
        self._process = subprocess.Popen(
            [contender.command, "acp"],
            cwd=home,
            env=contender.environment(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0

    def request(self, method: str, **params: Any) -> Any:
        """Return the result; updates before it are skipped."""
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit("the agent has no pipes")
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number and "method" not in answer:
                if "result" not in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
        raise SystemExit("the agent ended")

    def initialize(self) -> None:
        self.request("initialize", protocolVersion=1, clientCapabilities={})

    @property
    def cpu_ms(self) -> float:
        return cpu_ms_so_far(self._process.pid)

    @property
    def memory_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(resident.split()[1]) / 1024

    def close(self) -> None:
        self._process.communicate()


def measure_start(home: Path, runs: int) -> float:
    costs = []
    for _ in range(runs + 1):  # the first run compiles the modules
        editor = Editor(home)
        editor.initialize()
        costs.append(editor.cpu_ms)
        editor.close()
    return min(costs[1:])


def measure_sessions(home: Path, count: int) -> float:
    editor = Editor(home)
    editor.initialize()

    def open_session() -> None:
        made = editor.request("session/new", cwd=str(home), mcpServers=[])
        prompt = [{"type": "text", "text": "hello"}]
        editor.request("session/prompt", sessionId=made["sessionId"], prompt=prompt)

    for _ in range(WARM_UP):
        open_session()
    before = editor.memory_mb
    for _ in range(count):
        open_session()
    grown = editor.memory_mb - before
    editor.close()
    return grown / count


def main() -> None:
    parser = argparse.ArgumentParser(description="measure hermes acp")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-acp-") as folder,
        ModelServer(echo) as server,
    ):
        home = Path(folder)
        ours().point_at(server.url, home)
        figures: Figures = {
            "initialize, CPU ms": measure_start(home, args.runs),
            "session, MB": measure_sessions(home, args.sessions),
        }
    for name, value in figures.items():
        print(f"{name:<20} {value:>8.2f}   target {TARGETS[name]:g}")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(int(any(value > TARGETS[name] for name, value in figures.items())))


if __name__ == "__main__":
    main()
