"""Writes a generated reference page, or reports that it is out of date."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


def row(*cells: str) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def write_or_check(name: str, make: Callable[[], str], folder: Path = REFERENCE) -> int:
    """Write `<name>` in the folder; with `--check` on the command line only compare it."""
    parser = argparse.ArgumentParser(description=f"Write {name}.")
    parser.add_argument("--check", action="store_true", help="fail when the page is stale")
    args = parser.parse_args()
    page, text = folder / name, make()
    if not args.check:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != text:
        print(
            f"{page.relative_to(REFERENCE.parents[1])} is stale: run `make docs`", file=sys.stderr
        )
        return 1
    return 0
