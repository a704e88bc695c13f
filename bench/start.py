"""Measure how fast Hermes starts and how fast its terminal responds.

    python -m bench.start [--peer VENV] [--runs 7] [--json FILE]

`--version` and `--help` are CPU milliseconds of the command. *Prompt* is the time from starting
`hermes` in a pseudo-terminal until a typed letter is shown. *First word* is the time from the model
server sending it until its bytes reach the terminal. *Key* is the time from typing a letter until
its bytes arrive, while words stream in at 200 per second. The result is the minimum over several
runs, because other load on the machine can only increase a figure.

For hermes-agent (`--peer`) only the two commands are measured. The exit code is 1 if a target is
missed.
"""

import argparse
import json
import os
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import ptyprocess

from bench.contenders import Contender, ours, peer
from bench.measure import run
from bench.streaming_server import WordServer

WORDS, PACE = 600, 200.0
KEYS = 40
PATIENCE = 60.0
TARGETS = {
    "--version": 60.0,
    "--help": 80.0,
    "prompt": 350.0,
    "first word": 5.0,
    "key, median": 16.0,
    "key, 95 %": 16.0,
}
Figures = dict[str, float]


class Terminal:
    """`hermes chat` in a pseudo-terminal."""

    def __init__(self, contender: Contender, home: Path, argv: Sequence[str] = ()) -> None:
        environment = {**contender.environment(home), "TERM": "xterm-256color"}
        self.began = time.perf_counter()
        self._process = ptyprocess.PtyProcess.spawn(
            list(argv) or [contender.command, "chat"],
            cwd=str(home),
            env=environment,
            dimensions=(30, 100),
        )
        self._data = bytearray()

    def read(self, seconds: float) -> float:
        """Read output for up to `seconds`; return when it arrived, or 0 if none did."""
        if not select.select([self._process.fd], [], [], seconds)[0]:
            return 0.0
        data = os.read(self._process.fd, 65536)
        now = time.perf_counter()
        self._data += data
        return now

    def until(self, text: bytes, after: int = 0) -> float:
        """Wait for `text` after the first `after` bytes of output; return when it arrived."""
        end = time.perf_counter() + PATIENCE
        now = time.perf_counter()
        while self._data.find(text, after) < 0:
            now = self.read(0.1) or now
            if time.perf_counter() > end:
                raise SystemExit(f"{text!r} did not appear:\n{self._data[-500:]!r}")
        return now

    @property
    def pid(self) -> int:
        pid: int = self._process.pid
        return pid

    @property
    def size(self) -> int:
        return len(self._data)

    def type(self, text: str) -> float:
        now = time.perf_counter()
        os.write(self._process.fd, text.encode())
        return now

    def close(self) -> None:
        self._process.close(force=True)


def command_ms(contender: Contender, flag: str, runs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        env = contender.environment(home)
        costs = [run([contender.command, flag], env=env, cwd=home) for _ in range(runs + 1)]
    if costs[-1].exit_code:
        raise SystemExit(costs[-1].output)
    return min(cost.cpu_ms for cost in costs[1:])


def terminal_ms(contender: Contender) -> Figures:
    """Measure one conversation: the prompt, the first word of an answer, keys while it streams."""
    server = WordServer(WORDS, PACE)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        contender.point_at(server.url, home)
        with (home / ".hermes" / "config.yaml").open("a") as file:
            file.write("sessions:\n  auto_title: false\n")
        terminal = Terminal(contender, home)
        try:
            terminal.until("❯".encode())
            terminal.type("Z")
            prompt = terminal.until(b"Z") - terminal.began
            terminal.type("\x7fgo\r")
            first = terminal.until(b"w0000") - server.sent["w0000"]
            keys = [_key_ms(terminal, letter) for letter in "ABCDEFGHIJKLMNOPQRSTUVXYZ" * 2][:KEYS]
        finally:
            terminal.close()
            server.close()
    keys.sort()
    return {
        "prompt": prompt * 1000,
        "first word": first * 1000,
        "key, median": statistics.median(keys),
        "key, 95 %": keys[int(len(keys) * 0.95)],
    }


def _key_ms(terminal: Terminal, letter: str) -> float:
    """Measure one key while words stream in; the letter does not occur in the words."""
    pause = time.perf_counter() + 0.03
    while (left := pause - time.perf_counter()) > 0:
        terminal.read(left)
    before = terminal.size
    typed = terminal.type(letter)
    return (terminal.until(letter.encode(), before) - typed) * 1000


def measure(contender: Contender, runs: int, *, terminal: bool) -> Figures:
    figures = {flag: command_ms(contender, flag, runs) for flag in ("--version", "--help")}
    if terminal:
        seen = [terminal_ms(contender) for _ in range(runs)]
        figures |= {name: min(each[name] for each in seen) for name in seen[0]}
    return figures


def show(table: dict[str, Figures]) -> list[str]:
    """Print the table and return the targets that were missed."""
    others = [name for name in table if name != "hermes"]
    print(f"{'ms':<14} {'hermes':>8} {''.join(f'{name:>14}' for name in others)} {'target':>8}")
    missed = []
    for figure, value in table["hermes"].items():
        theirs = "".join(
            f"{table[name][figure]:>14.1f}" if figure in table[name] else f"{'-':>14}"
            for name in others
        )
        print(f"{figure:<14} {value:>8.1f} {theirs} {TARGETS[figure]:>8.0f}")
        if value > TARGETS[figure]:
            missed.append(figure)
    for figure in missed:
        print(f"missed: {figure}")
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the start and the terminal")
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--runs", type=int, default=7, help="the minimum of each figure counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    table = {"hermes": measure(ours(), args.runs, terminal=True)}
    if args.peer:
        table["hermes-agent"] = measure(peer(args.peer), args.runs, terminal=False)
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")
    sys.exit(1 if show(table) else 0)


if __name__ == "__main__":
    main()
