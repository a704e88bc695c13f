"""Measure the tools and, for comparison, those of the published hermes-agent package.

    python -m bench.tools [--boundary auto,none] [--peer VENV] [--json FILE]

Each contender runs in a separate process (`bench.tools_worker`) on a copy of the same folder.
Figures are CPU milliseconds per call, including child processes, and the number of processes that a
call starts. With `--boundary`, ours is measured with each mechanism, the first one against the
targets. The exit code is 1 if a target is missed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.contenders import ROOT, Contender, ours, peer

TARGETS = {
    ("read_file", "cpu_ms"): 1.0,
    ("read_file", "processes"): 0.0,
    ("patch", "cpu_ms"): 3.0,
    ("patch", "processes"): 0.0,
    ("terminal", "cpu_ms"): 6.0,
}
"""Upper limits of our figures."""

Figures = dict[str, dict[str, float]]


def measure(contender: Contender, python: str, folder: Path, boundary: str = "auto") -> Figures:
    home, work = folder / "home", folder / "work"
    work.mkdir(parents=True)
    home.mkdir()
    environment = contender.environment(home)
    settings = Path(environment["HERMES_HOME"], "config.yaml")
    settings.parent.mkdir(parents=True, exist_ok=True)
    if contender.name == "hermes":
        allowed = "approvals: {effects: {execute: allow}}"
        settings.write_text(f"security: {{boundary: {boundary}}}\n{allowed}\n")
    lines = (f"def function_{n}(value):\n    return value + {n}\n\n\n" for n in range(110))
    (work / "module.py").write_text("".join(lines))
    # -P: the peer also has modules called `tools`.
    done = subprocess.run(
        [python, "-P", str(ROOT / "bench" / "tools_worker.py"), contender.name],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{contender.name} failed:\n{done.stderr[-2000:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description="measure the tools and, with --peer, those of hermes-agent"
    )
    parser.add_argument(
        "--boundary", default="auto", metavar="NAMES", help="values of security.boundary"
    )
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    first, *further = args.boundary.split(",")
    with tempfile.TemporaryDirectory() as folder:
        table = {"hermes": measure(ours(), sys.executable, Path(folder) / "hermes", first)}
        for name in further:
            table[name] = measure(ours(), sys.executable, Path(folder) / name, name)
        if args.peer:
            python = str(args.peer / "bin" / "python")
            table["peer"] = measure(peer(args.peer), python, Path(folder) / "peer")
    if args.json:
        args.json.write_text(json.dumps(table, indent=2) + "\n")
    sys.exit(1 if show(table) else 0)


def show(table: dict[str, Figures]) -> list[str]:
    """Print the table and return the targets that were missed."""
    missed = []
    others = [name for name in table if name != "hermes"]
    head = "".join(f"{name:>14}" for name in others)
    print(f"{'tool':<14} {'figure':<12} {'hermes':>10} {head} {'target':>8}")
    for tool, figures in table["hermes"].items():
        for figure, value in figures.items():
            found = (table[name].get(tool, {}).get(figure, float("nan")) for name in others)
            theirs = "".join(f"{value:>14.2f}" for value in found)
            target = TARGETS.get((tool, figure))
            most = f"{target:>8.1f}" if target is not None else f"{'-':>8}"
            print(f"{tool:<14} {figure:<12} {value:>10.2f} {theirs} {most}")
            if target is not None and value > target:
                missed.append(f"{tool} {figure}")
    for name in missed:
        print(f"missed: {name}")
    return missed


if __name__ == "__main__":
    main()
