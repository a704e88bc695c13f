"""Measure the session store and, for comparison, that of the published hermes-agent package.

    python -m bench.store [--peer VENV] [--messages 100000] [--json FILE]

Both get the same conversations (`bench.store_corpus`) in separate processes (`bench.store_worker`).
Figures are CPU milliseconds of the worker process; `per_second` is wall time and depends on the
machine.
"""

import argparse
import itertools
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.contenders import ROOT, Contender, ours, peer
from bench.store_corpus import queries, read_corpus, write_corpus
from bench.store_worker import Figures

Table = dict[str, dict[str, Figures]]
PROCESSES = 4
PROCESS_MESSAGES = 2500


class Target(NamedTuple):
    """An upper limit: a number, or a share of the peer's figure."""

    limit: float | None = None
    share: float | None = None

    def bound(self, other: float | None) -> float | None:
        if self.share is None:
            return self.limit
        return None if other is None else other * self.share


A_THIRD, NONE = Target(share=1 / 3), Target(0)
TARGETS: dict[tuple[str, str], Target] = {
    ("append alone", "cpu_ms"): Target(0.25),
    ("append alone", "errors"): NONE,
    ("append grouped", "cpu_ms"): Target(0.15),
    ("append grouped", "errors"): NONE,
    **{
        (f"4 processes {way}", figure): NONE
        for way in ("alone", "grouped")
        for figure in ("errors", "missing")
    },
    **{(f"search {kind}", "cpu_ms"): A_THIRD for kind in queries()},
    ("load", "cpu_ms"): Target(5),
    ("file", "MB"): Target(share=1 / 2),
}


class Bench:
    """Runs the tasks with one contender."""

    def __init__(self, contender: Contender, python: Path, folder: Path) -> None:
        self.contender = contender
        self._python = python
        self._folder = folder / contender.name
        self._folder.mkdir()
        self._environment = contender.environment(self._folder)

    @property
    def ways(self) -> dict[str, str]:
        """The ways to append messages and their tasks. The peer cannot write in groups."""
        grouped = {"grouped": "group"} if self.contender.name == "hermes" else {}
        return {"alone": "alone"} | grouped

    def start(self, task: str, store: str, corpus: Path, result: Path) -> "subprocess.Popen[bytes]":
        arguments = (self.contender.name, task, str(self._folder / store), str(corpus), str(result))
        command = [str(self._python), "-m", "bench.store_worker", *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=self._environment)

    def run(self, task: str, store: str, *corpora: Path) -> Figures:
        """Run one process per corpus in parallel; add up counts and average costs."""
        results = [self._folder / f"result-{number}" for number in range(len(corpora))]
        processes = [
            self.start(task, store, corpus, result)
            for corpus, result in zip(corpora, results, strict=True)
        ]
        codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit(f"{task} of {self.contender.name} failed")
        return combine([json.loads(result.read_text()) for result in results])

    def size(self, store: str) -> float:
        """Return the megabytes of the database file and its journals."""
        files = self._folder.glob(f"{store}*")
        return sum(file.stat().st_size for file in files) / 1e6


def combine(parts: Sequence[Figures]) -> Figures:
    totals = {name: sum(part[name] for part in parts) for name in parts[0]}
    if "cpu_ms" in totals:
        totals["cpu_ms"] /= len(parts)
    return totals


Rows = Iterator[tuple[str, Figures]]


def appends(bench: Bench, corpus: Path, _parts: Sequence[Path]) -> Rows:
    yield "append alone", bench.run("alone", "alone.db", corpus)
    yield "file", {"MB": bench.size("alone.db")}


def searches(bench: Bench, corpus: Path, _parts: Sequence[Path]) -> Rows:
    for kind, figures in by_kind(bench.run("search", "alone.db", corpus)):
        yield f"search {kind}", figures


def loads(bench: Bench, corpus: Path, _parts: Sequence[Path]) -> Rows:
    yield "load", bench.run("load", "alone.db", corpus)


def processes(bench: Bench, _corpus: Path, parts: Sequence[Path]) -> Rows:
    for way, task in bench.ways.items():
        store = f"{way}-{PROCESSES}.db"
        figures = bench.run(task, store, *parts)
        yield f"{PROCESSES} processes {way}", figures | bench.run("count", store, *parts)


def groups(bench: Bench, corpus: Path, _parts: Sequence[Path]) -> Rows:
    if "grouped" in bench.ways:
        yield "append grouped", bench.run("group", "grouped.db", corpus)


PHASES = (appends, searches, loads, processes, groups)
"""Both contenders finish a phase before the next begins, so that load affects both equally."""


def by_kind(figures: Figures) -> Iterator[tuple[str, Figures]]:
    for kind in queries():
        yield kind, {"cpu_ms": figures[kind], "hits": figures[f"hits of {kind}"]}


def split(corpus: Path, folder: Path) -> list[Path]:
    """Split the corpus into one part per process, with separate sessions."""
    lines = read_corpus(corpus)
    size = min(PROCESS_MESSAGES, len(lines) // PROCESSES)
    parts = [folder / f"part-{number}" for number in range(PROCESSES)]
    for number, part in enumerate(parts):
        mine = [
            line | {"session": f"p{number}-{line['session']}"}
            for line in lines[number * size : (number + 1) * size]
        ]
        part.write_text("".join(json.dumps(line) + "\n" for line in mine))
    return parts


def show(table: Table) -> None:
    """Print one line per figure: ours, the peer's, the target and whether it is met."""
    print(f"\n{'row':<20} {'figure':<10} {'hermes':>10} {'hermes-agent':>13} {'target':>9}")
    for row, results in table.items():
        for figure, value in results["hermes"].items():
            other = results.get("hermes-agent", {}).get(figure)
            target = TARGETS.get((row, figure))
            bound = target.bound(other) if target else None
            verdict = "" if bound is None else "met" if value <= bound else "MISSED"
            cells = f"{value:>10,.3f} {number(other):>13} {number(bound):>9} {verdict}"
            print(f"{row:<20} {figure:<10} {cells}".rstrip())


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"


def contenders(venv: Path | None) -> Iterator[tuple[Contender, Path]]:
    yield ours(), Path(sys.executable)
    if venv:
        yield peer(venv), venv / "bin" / "python"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="measure the session store and, with --peer, that of hermes-agent"
    )
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--messages", type=int, default=100_000, help="size of the store")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    table: Table = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        corpus = folder / "corpus"
        write_corpus(corpus, args.messages)
        parts = split(corpus, folder)
        benches = [Bench(contender, python, folder) for contender, python in contenders(args.peer)]
        for phase, bench in itertools.product(PHASES, benches):
            for row, figures in phase(bench, corpus, parts):
                table.setdefault(row, {})[bench.contender.name] = figures
                print(f"measured {row} of {bench.contender.name}", flush=True)
    show(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        facts = {"python": platform.python_version(), "messages": args.messages}
        args.json.write_text(json.dumps({"facts": facts, "rows": table}, indent=2) + "\n")


if __name__ == "__main__":
    main()
