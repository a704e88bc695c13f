"""Refuses committed files that only make sense on the machine they were written on.

These are paths of one machine and package-index addresses (in lock files, any address).
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SAMPLE_USERS = "alice|bob|me|you|user|username|USER|name|hermes"
"""Names that documentation and tests may use in `/home/<name>`."""

RULES = (
    ("a path of one machine", re.compile(r"(?<![\w.~*-])/(?:root|work)/[\w.]")),
    ("a home folder of one machine", re.compile(rf"(?<![\w.~])/home/(?!(?:{SAMPLE_USERS})\b)\w")),
    ("a package index address", re.compile(r"(?:index-url|find-links)[ =]+\S*(?:://|/)\S")),
)
LOCK_RULE = ("an address in a lock file", re.compile(r"\w+://|^--(?!hash)", re.MULTILINE))

EXEMPT = {
    "tests/unit/security/": "paths are the input of the path guard under test",
    "tests/unit/skills/scanner/corpus/": "attacks name the index they install from",
    "tests/redteam/": "as above",
    "src/hermes/terminal/docker.py": "/root is the home inside a container",
    "tests/integration/hosts/": "the same",
    "tests/integration/terminal/": "the same",
    "tests/unit/repo/": "plants the violations that these scripts must find",
    "scripts/portable.py": "holds the patterns",
}
"""Path prefix -> why the rules do not apply there."""


def committed(root: Path) -> list[Path]:
    """Return every file that is committed or would be with `git add .`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    paths = (root / name for name in listing.stdout.split("\0") if name)
    return sorted(path for path in set(paths) if path.is_file())


def findings(root: Path, paths: list[Path]) -> Iterator[str]:
    """Yield `file:line: what` for every violation."""
    for path in paths:
        name = path.relative_to(root).as_posix()
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # pictures and other binary files
        if name.startswith(tuple(EXEMPT)):
            continue
        for what, pattern in (*RULES, LOCK_RULE) if name.endswith(".lock") else RULES:
            for hit in pattern.finditer(text):
                line = text.count("\n", 0, hit.start()) + 1
                yield f"{name}:{line}: {what}: {hit.group()}"


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    found = list(findings(root, committed(root)))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
