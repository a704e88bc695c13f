"""Measure Hermes and, for comparison, the published hermes-agent package on the same work.

    python -m bench [--peer VENV] [--only ROW] [--json FILE]

Figures are CPU milliseconds, megabytes of memory and counts. Wall time is not measured, because it
depends too much on the machine.
"""

import argparse
import json
import platform
from pathlib import Path

from bench.contenders import ours, peer
from bench.rows import ROWS, Figures

Table = dict[str, dict[str, Figures]]


def main() -> None:
    parser = argparse.ArgumentParser(description="measure hermes and, with --peer, hermes-agent")
    parser.add_argument("--peer", type=Path, metavar="VENV", help="environment with hermes-agent")
    parser.add_argument("--only", choices=ROWS, action="append", help="only this row (repeatable)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here too")
    args = parser.parse_args()
    contenders = [ours()] + ([peer(args.peer)] if args.peer else [])
    table: Table = {}
    for name in args.only or ROWS:
        table[name] = {contender.name: ROWS[name](contender) for contender in contenders}
        print(f"measured {name}")
    show(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        facts = {"python": platform.python_version(), "machine": platform.machine()}
        args.json.write_text(json.dumps({"facts": facts, "rows": table}, indent=2) + "\n")


def show(table: Table) -> None:
    """Print one line per figure: ours, the peer's, and the peer's divided by ours."""
    print(f"\n{'row':<16} {'figure':<16} {'hermes':>12} {'hermes-agent':>14} {'ratio':>8}")
    for row, results in table.items():
        for figure, value in results["hermes"].items():
            other = results.get("hermes-agent", {}).get(figure)
            theirs = f"{other:>14,.1f}" if other is not None else f"{'-':>14}"
            ratio = f"{other / value:>7.1f}x" if other is not None and value else f"{'-':>8}"
            print(f"{row:<16} {figure:<16} {value:>12,.1f} {theirs} {ratio}")


if __name__ == "__main__":
    main()
