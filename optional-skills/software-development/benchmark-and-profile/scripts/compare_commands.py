"""Time two or more commands against each other, fairly.

The commands run in turns, so that a busy moment of the machine hits all of them. Reported are wall
and CPU time as median and spread (first to third quartile), and the ratio to the first command. A
difference counts as clear when the spreads do not overlap.
Exit code: 0 measured, 1 a command failed, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from typing import Any, NamedTuple

resource: Any
try:
    resource = importlib.import_module("resource")
except ImportError:  # not on Windows; CPU time is then left out
    resource = None


class Run(NamedTuple):
    wall: float
    cpu: float


class Failed(Exception):
    """A command that could not be measured."""


def cpu_of_children() -> float:
    if resource is None:
        return 0.0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(used.ru_utime + used.ru_stime)


def once(command: str, timeout: float) -> Run:
    before, start = cpu_of_children(), time.perf_counter()
    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{command!r} took longer than {timeout:g} s") from None
    except (OSError, ValueError, IndexError) as error:  # IndexError: there are no words in it
        raise Failed(f"{command!r}: {error}") from None
    wall = time.perf_counter() - start
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Failed(f"{command!r} ended with {done.returncode}: {' '.join(last)}")
    return Run(wall, cpu_of_children() - before)


def quartiles(values: list[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def summary(command: str, runs: list[Run]) -> dict[str, Any]:
    low, middle, high = quartiles([run.wall for run in runs])
    cpu = statistics.median(run.cpu for run in runs)
    best = min(run.wall for run in runs)
    return {"command": command, "median": middle, "low": low, "high": high, "min": best, "cpu": cpu}


def verdict(first: dict[str, Any], other: dict[str, Any]) -> str:
    ratio = other["median"] / first["median"] if first["median"] else 1.0
    if other["high"] < first["low"]:
        return f"clearly faster: {ratio:.2f} of the time"
    if other["low"] > first["high"]:
        return f"clearly slower: {ratio:.2f} times as long"
    return f"no clear difference ({ratio:.2f})"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="+", help="each in quotes; run without a shell")
    parser.add_argument("--runs", type=int, default=10, help="measured runs of each (10)")
    parser.add_argument("--warmup", type=int, default=1, help="runs before that, not counted (1)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one run (300)")
    parser.add_argument("--json", action="store_true", help="print JSON with all times")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.runs < 1 or options.warmup < 0:
        print("error: --runs is at least 1, --warmup at least 0", file=sys.stderr)
        return 2
    runs: dict[int, list[Run]] = {index: [] for index in range(len(options.commands))}
    try:
        for number in range(options.warmup + options.runs):
            for index, command in enumerate(options.commands):
                run = once(command, options.timeout)
                if number >= options.warmup:
                    runs[index].append(run)
    except Failed as failure:
        print(f"error: {failure}", file=sys.stderr)
        return 1
    found = [summary(command, runs[index]) for index, command in enumerate(options.commands)]
    if options.json:
        for index, one in enumerate(found):
            one["runs"] = [run.wall for run in runs[index]]
        print(json.dumps(found, indent=2))
        return 0
    for index, one in enumerate(found):
        print(f"{index + 1}. {one['command']}")
        spread = f"{one['low']:.4f} .. {one['high']:.4f}"
        more = f"min {one['min']:.4f}, CPU {one['cpu']:.4f}"
        print(f"   median {one['median']:.4f} s ({spread}), {more}")
        if index:
            print(f"   against 1: {verdict(found[0], one)}")
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
