"""Look through a unified diff for what reviewers most often find by eye.

Reads the diff from a file or from standard input and reports, for added lines only: conflict
marks, debugging leftovers, likely secrets, disabled tests, swallowed errors, machine paths; and for
the whole diff: binary files, very large changes, code without a changed test.
Exit code: 0 nothing found, 1 findings, 2 no usable diff.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Iterator, NamedTuple  # noqa: UP035 - runs on older Pythons too

CODE = (
    ".py",
    ".js",
    ".jsx",
    ".ts",
    ".tsx",
    ".go",
    ".rs",
    ".java",
    ".kt",
    ".rb",
    ".php",
    ".c",
    ".cc",
)
LARGE = 400

RULES = [
    ("conflict", r"^(?:<{7} |={7}$|>{7} |\|{7} )"),
    ("secret", r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b"),
    ("secret", r"\b(?:ghp|gho|ghs|github_pat|glpat|xox[bap])[_-][\w-]{16,}|\bsk-[\w-]{20,}"),
    (
        "secret",
        r"(?i)(?:password|passwd|secret|api_?key|token)\w*[\"']?\s*[:=]\s*[\"'][^\"'\s{}$<]{8,}",
    ),
    (
        "debug",
        r"\bbreakpoint\(\)|\bpdb\.set_trace|\bdebugger;|\bconsole\.log\(|\bdbg!\(|\bvar_dump\(",
    ),
    (
        "disabled-test",
        r"@(?:pytest\.mark\.|unittest\.)?(?:skip|xfail)\b|\b(?:it|test|describe)\.(?:skip|only)\(",
    ),
    ("disabled-test", r"#\[ignore\]|\bt\.Skip\(|@Disabled\b"),
    (
        "swallowed-error",
        r"^\s*except(?: Exception)?\s*:\s*(?:pass\s*)?$|catch\s*(?:\([^)]*\))?\s*\{\s*\}",
    ),
    ("machine-path", r"[\"'(=\s]/(?:home|Users)/[a-z][\w.-]+/|[\"'][A-Z]:\\\\Users\\\\"),
    ("unfinished", r"\b(?:TODO|FIXME|XXX|HACK)\b"),
]
PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in RULES]
HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)")


class Finding(NamedTuple):
    kind: str
    file: str
    line: int
    text: str


class Added(NamedTuple):
    file: str
    line: int
    text: str


def added_lines(diff: str) -> Iterator[Added]:
    """Each added line with its file and its number in the new version."""
    file, line = "", 0
    for row in diff.splitlines():
        hunk = HUNK.match(row)
        if row.startswith("+++ "):
            file = re.sub(r"^b/", "", row[4:].split("\t")[0])
        elif hunk:
            line = int(hunk.group(1))
        elif row.startswith("+"):
            yield Added(file, line, row[1:])
            line += 1
        elif row.startswith(" "):
            line += 1


def is_test(file: str) -> bool:
    return bool(
        re.search(r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)test_|[._]test\.|[._]spec\.", file)
    )


def findings(diff: str) -> Iterator[Finding]:
    lines = list(added_lines(diff))
    for added in lines:
        for kind, pattern in PATTERNS:
            if pattern.search(added.text):
                yield Finding(kind, added.file, added.line, added.text.strip()[:120])
                break
    for name in re.findall(r"^Binary files .* and b?/?(\S+) differ$", diff, re.MULTILINE):
        yield Finding("binary", name, 0, "a binary file changed")
    sizes: dict[str, int] = {}
    for added in lines:
        sizes[added.file] = sizes.get(added.file, 0) + 1
    for name, count in sizes.items():
        if count > LARGE:
            yield Finding("large", name, 0, f"{count} added lines")
    code = [name for name in sizes if name.endswith(CODE) and not is_test(name)]
    if code and not any(is_test(name) for name in sizes):
        yield Finding("no-test", code[0], 0, f"{len(code)} code file(s) changed, no test changed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("diff", nargs="?", default="-", help="a diff file; - is standard input")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        data = sys.stdin.buffer.read() if options.diff == "-" else Path(options.diff).read_bytes()
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    diff = data.decode("utf-8", "replace")
    if diff.strip() and not re.search(
        r"^(?:diff --git |\+\+\+ |Binary files )", diff, re.MULTILINE
    ):
        print("error: this is no unified diff; try: git diff origin/main...HEAD", file=sys.stderr)
        return 2
    found = list(findings(diff))
    if options.json:
        print(json.dumps([finding._asdict() for finding in found], indent=2))
    else:
        for finding in found:
            print(f"{finding.kind}: {finding.file}:{finding.line}: {finding.text}")
        print(f"{len(found)} finding(s)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
