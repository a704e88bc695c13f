"""Measure our wires and, for comparison, the official client library of each.

    python -m bench.wires [--runs 2] [--json FILE]

Figures are CPU time of the client's process (`bench.wires_worker`); the endpoint runs in another
(`bench.wires_server`). `httpx2` is the HTTP client below all of them; it reads the same bytes
without parsing them, which is the lower bound. The exit code is 1 if a target is missed.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.contenders import ROOT, ours
from bench.measure import run
from bench.wires_worker import Figures

SDKS = {
    "chat_completions": "openai",
    "codex_responses": "openai",
    "anthropic_messages": "anthropic",
}
IMPORTS = {
    "hermes": "import hermes.providers.wire.model",
    "openai": "import openai, openai.resources.chat, openai.resources.responses",
    "anthropic": "import anthropic, anthropic.resources.messages",
    "httpx2": "import asyncio, httpx2",
}
"""The modules that a call needs; `openai` imports some of them only on first use."""
IMPORT_RUNS = 7
A_THIRD, A_FIFTH = 1 / 3, 1 / 5
TARGETS = {
    ("chat_completions", "chunk_burst_us"): A_THIRD,
    ("codex_responses", "chunk_burst_us"): A_THIRD,
    ("import", "openai_ms"): A_FIFTH,
}
"""Upper limits of our figures, as a share of the SDK's figure."""

Row = dict[str, Figures]
"""The figures of one row by contender."""


@contextmanager
def endpoint(env: Mapping[str, str]) -> Iterator[str]:
    """Start an endpoint in a separate process and yield its address."""
    command = [sys.executable, "-m", "bench.wires_server"]
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None:
            raise SystemExit("the endpoint has no output")
        yield process.stdout.readline().strip()
        process.communicate()


def calls(wire: str, url: str, env: Mapping[str, str], runs: int) -> Row:
    """Run the clients in turn, several times, so that load affects all equally."""
    found: dict[str, list[Figures]] = {"hermes": [], SDKS[wire]: [], "httpx2": []}
    for _ in range(runs):
        for client, results in found.items():
            command = [sys.executable, "-m", "bench.wires_worker", client, wire, url]
            done = subprocess.run(
                command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{client} failed on {wire}")
            results.append(json.loads(done.stdout))
    return {client: medians(results) for client, results in found.items()}


def medians(results: Sequence[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in results) for name in results[0]}


def imports(env: Mapping[str, str], folder: Path) -> dict[str, float]:
    """Return the CPU milliseconds of each import, without those of the bare interpreter."""
    codes = {"": "pass", **IMPORTS}
    costs: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(IMPORT_RUNS + 1):
        for name, code in codes.items():
            cost = run([sys.executable, "-c", code], env=env, cwd=folder)
            if cost.exit_code:
                raise SystemExit(f"{code}\n{cost.output[-2000:]}")
            costs[name].append(cost.cpu_ms)
    middle = {name: statistics.median(values[1:]) for name, values in costs.items()}
    return {name: middle[name] - middle[""] for name in IMPORTS}


def import_row(costs: Mapping[str, float]) -> Row:
    mine, floor = costs["hermes"], costs["httpx2"]
    sdks = ("openai", "anthropic")
    return {
        "hermes": {f"{sdk}_ms": mine for sdk in sdks},
        "sdk": {f"{sdk}_ms": costs[sdk] for sdk in sdks},
        "httpx2": {f"{sdk}_ms": floor for sdk in sdks},
    }


def show(table: Mapping[str, Row]) -> bool:
    """Print one line per figure and return whether all targets are met."""
    print(
        f"\n{'row':<20} {'figure':<15} {'hermes':>9} {'SDK':>9} {'httpx2':>9} {'ratio':>7} "
        f"{'target':>7}"
    )
    missed = 0
    for row, results in table.items():
        mine, other, floor = results.values()
        for figure, value in mine.items():
            share, ratio = TARGETS.get((row, figure)), value / other[figure]
            verdict = "" if share is None else "met" if ratio <= share else "MISSED"
            missed += verdict == "MISSED"
            cells = f"{value:>9,.1f} {other[figure]:>9,.1f} {floor[figure]:>9,.1f} {ratio:>7.2f}"
            target = "" if share is None else f"{share:.2f}"
            print(f"{row:<20} {figure:<15} {cells} {target:>7} {verdict}".rstrip())
    return not missed


def main() -> int:
    parser = argparse.ArgumentParser(description="measure our wires and the official clients")
    parser.add_argument("--runs", type=int, default=2, help="processes for each client")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    table: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = ours().environment(folder) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        with endpoint(env) as url:
            for wire in SDKS:
                table[wire] = calls(wire, url, env, args.runs)
                print(f"measured {wire}", flush=True)
        table["import"] = import_row(imports(env, folder))
    met = show(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        facts = {"python": platform.python_version(), "machine": platform.machine()}
        args.json.write_text(json.dumps({"facts": facts, "rows": table}, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
