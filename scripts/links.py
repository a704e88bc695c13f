"""Checks that every relative link and anchor in the Markdown files has a target."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages(root: Path) -> list[Path]:
    """Return the Markdown files of the repository."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    found: set[str] = set()
    for title in HEADING.findall(FENCE.sub("", text)):
        slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def findings(root: Path) -> Iterator[str]:
    """Yield one line for every link without a target."""
    for page in pages(root):
        text = CODE.sub("", FENCE.sub("", page.read_text(encoding="utf-8")))
        for target in LINK.findall(text):
            if OUTSIDE.match(target):
                continue
            file, _, anchor = target.partition("#")
            goal = page.parent / file if file else page
            place = f"{page.relative_to(root)}: {target}"
            if not goal.exists():
                yield f"{place}: no such file"
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text("utf-8")):
                yield f"{place}: no such heading"


def main() -> int:
    found = list(findings(Path(__file__).resolve().parent.parent))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
