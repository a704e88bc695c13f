"""Measure what a key costs, and how long it takes until it is on the screen.

    python -m bench.keys [--source CHECKOUT] [--keys 200] [--json FILE]

A letter is typed into `hermes chat` in a pseudo-terminal: at an idle prompt, at an idle prompt
below 1,000 lines of conversation, and while words stream in at 200 per second. The latency is the
time from the key to its bytes. Its CPU time is that of the program until 30 ms after the key; while
words stream in, that of the same time without a key is subtracted.

`--source` also measures another checkout, with the packages of this environment.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.contenders import ROOT, ours
from bench.measure import cpu_ms_so_far
from bench.start import Figures, Terminal
from bench.streaming_server import WordServer

LINES = 1_000
PAUSE = 0.03  #: Seconds after a key in which its work is done.
PACE = 200.0
SITUATIONS = {"idle": (1, PACE), "1,000 lines": (LINES // 2 * 20, 1e6), "streaming": (6_000, PACE)}
"""Words of the answer before or during the keys, and words per second."""
LETTERS = "QVYZNOUIRW"  #: In no word and in no escape sequence that the program writes.
RUN = """\
import runpy, sys
sys.path.insert(0, {!r})
runpy.run_module("hermes", None, "__main__")
"""


def measure(source: Path, keys: int) -> dict[str, Figures]:
    return {name: _measure(source, name, keys) for name in SITUATIONS}


def _measure(source: Path, situation: str, keys: int) -> Figures:
    words, pace = SITUATIONS[situation]
    server, contender = WordServer(words, pace), ours()
    argv = [sys.executable, "-c", RUN.format(str(source / "src")), "chat"]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        contender.point_at(server.url, home)
        with (home / ".hermes" / "config.yaml").open("a") as file:
            file.write("sessions:\n  auto_title: false\n")
        terminal = Terminal(contender, home, argv)
        try:
            terminal.until("❯".encode())
            terminal.type("go\r")
            terminal.until(b"w0000")
            if situation != "streaming":
                terminal.until(f"w{words - 1:04}".encode())
                _drain(terminal, 2.0)
            pairs = [_key(terminal, letter) for letter in (LETTERS * keys)[:keys]]
            times = sorted(latency for latency, _ in pairs)
            cpu = statistics.median(cost for _, cost in pairs)
            if situation == "streaming":
                cpu -= statistics.median(_pause_ms(terminal) for _ in range(keys // 4))
        finally:
            terminal.close()
            server.close()
    return {
        "CPU": cpu,
        "median": statistics.median(times),
        "worst 1 %": times[min(len(times) - 1, int(len(times) * 0.99))],
    }


def _key(terminal: Terminal, letter: str) -> tuple[float, float]:
    """Return the latency and the CPU time of a key in milliseconds; the letter is deleted."""
    before, cpu = terminal.size, cpu_ms_so_far(terminal.pid)
    typed = terminal.type(letter)
    latency = (terminal.until(letter.encode(), before) - typed) * 1000
    _drain(terminal, PAUSE - latency / 1000)
    cost = cpu_ms_so_far(terminal.pid) - cpu
    terminal.type("\x7f")
    _drain(terminal, PAUSE)
    return latency, cost


def _pause_ms(terminal: Terminal) -> float:
    cpu = cpu_ms_so_far(terminal.pid)
    _drain(terminal, PAUSE)
    return cpu_ms_so_far(terminal.pid) - cpu


def _drain(terminal: Terminal, seconds: float) -> None:
    end = time.perf_counter() + seconds
    while (left := end - time.perf_counter()) > 0:
        terminal.read(left)


def show(table: dict[str, dict[str, Figures]]) -> None:
    print(f"{'ms':<24}" + "".join(f"{name:>14}" for name in table))
    for situation in SITUATIONS:
        for figure in next(iter(table.values()))[situation]:
            values = "".join(f"{found[situation][figure]:>14.2f}" for found in table.values())
            print(f"{situation + ', ' + figure:<24}{values}")


def main() -> None:
    parser = argparse.ArgumentParser(description="measure the cost and the latency of a key")
    parser.add_argument("--source", type=Path, metavar="CHECKOUT", help="measure this one too")
    parser.add_argument("--keys", type=int, default=200, help="keys in each situation")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    table = {"hermes": measure(ROOT, args.keys)}
    if args.source:
        table["other"] = measure(args.source.resolve(), args.keys)
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")
    show(table)


if __name__ == "__main__":
    main()
