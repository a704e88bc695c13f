"""Find keys and passwords in a folder or in the history of a git repository.

  secret_scan.py .                       files that git knows (all files outside of a repository)
  secret_scan.py . --history             every line that any commit added
  secret_scan.py . --ignore known.txt    findings that were judged before, by their fingerprint

Values are never printed, only their beginning. A line with `secret-scan: allow` is left out.
Exit code: 0 nothing found, 1 findings, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import hashlib
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

RULES = (
    ("AWS key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("GitHub token", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_\w{60,}\b"),
    ("GitLab token", r"\bglpat-[\w-]{20,}\b"),
    ("Slack token", r"\bxox[abprs]-[A-Za-z0-9-]{20,}\b"),
    ("Slack webhook", r"hooks\.slack\.com/services/T\w+/B\w+/\w+"),
    ("Stripe key", r"\b[rs]k_live_[A-Za-z0-9]{20,}\b"),
    ("Google key", r"\bAIza[\w-]{35}\b"),
    ("Anthropic key", r"\bsk-ant-[\w-]{30,}\b"),
    ("OpenAI key", r"\bsk-(?:proj-)?[A-Za-z0-9_-]{40,}\b"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}\b"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-[\w-]{50,}\b"),
    ("private key", r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----"),
    ("JSON web token", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    ("password in an address", r"\b[a-z][a-z0-9+.-]*://[^\s/:@'\"]+:[^\s/:@'\"$<{]{3,}@[\w.-]+"),
    (
        "password",
        (
            r"(?i)(?:passw(?:or)?d|secret|token|api[_-]?key|access[_-]?key)[\"']?\s*[:=]\s*"
            r"[\"'](?P<value>[^\"'\s]{8,})[\"']"
        ),
    ),
)
PATTERNS = [(name, re.compile(pattern)) for name, pattern in RULES]
FAKE = re.compile(
    r"(?i)example|changeme|placeholder|your[_-]|xxxx|\*\*\*|<.*>|\$\{|dummy|sample|test|fake|todo"
)
SKIPPED = {".git", "node_modules", ".venv", "venv", "__pycache__", "dist", "build"}
RANDOM = 3.0
"""Bits for each character: words have less, keys have more."""
MOST_BYTES = 2_000_000


class Problem(Exception):
    """Something the user has to correct."""


class Finding(NamedTuple):
    place: str
    kind: str
    value: str

    @property
    def fingerprint(self) -> str:
        text = f"{self.place.rpartition(':')[0]}\0{self.kind}\0{self.value}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def entropy(text: str) -> float:
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)


def scan(place: str, line: str) -> Iterator[Finding]:
    if "secret-scan: allow" in line:
        return
    for kind, pattern in PATTERNS:
        for found in pattern.finditer(line[:5000]):
            value = found.groupdict().get("value") or found[0]
            guessed = kind.startswith("password")
            if guessed and (FAKE.search(value) or (kind == "password" and entropy(value) < RANDOM)):
                continue
            yield Finding(place, kind, value)


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)


def files(folder: Path) -> Iterator[Path]:
    known = git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if not known.returncode:
        for name in known.stdout.split(b"\0"):
            if name:
                yield folder / os.fsdecode(name)
        return
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED]
        yield from (Path(path, name) for name in names)


def present(folder: Path) -> Iterator[Finding]:
    for file in files(folder):
        if file.is_symlink() or not file.is_file() or file.stat().st_size > MOST_BYTES:
            continue
        data = file.read_bytes()
        if b"\0" in data[:8000]:
            continue
        name = os.fsencode(file.relative_to(folder)).decode("utf-8", "backslashreplace")
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            yield from scan(f"{name}:{number}", line)


def history(folder: Path) -> Iterator[Finding]:
    """Lines that a commit added; each finding once, where it came in."""
    command = ["git", "-C", str(folder), "log", "--all", "--reverse", "-p", "-U0", "--no-color",
               "--no-ext-diff", "--format=commit %h"]  # fmt: skip
    seen: set[tuple[str, str]] = set()
    commit = name = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            if line.startswith("commit "):
                commit = line[7:]
            elif line.startswith("+++ "):
                name = line[6:]
            elif line.startswith("+"):
                for found in scan(f"{commit} {name}:", line[1:]):
                    if (found.kind, found.value) not in seen:
                        seen.add((found.kind, found.value))
                        yield found
        reason = process.stderr.read().decode("utf-8", "replace").strip()
    if process.returncode:
        raise Problem(reason or "git log failed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--history", action="store_true", help="all commits instead of the files")
    parser.add_argument("--ignore", type=Path, help="a file of fingerprints, one on each line")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    try:
        if not options.folder.is_dir():
            raise Problem(f"there is no folder {options.folder}")
        text = options.ignore.read_text("utf-8") if options.ignore else ""
        known = {line.split()[0] for line in text.splitlines() if line.strip()}
        found = list(history(options.folder) if options.history else present(options.folder))
    except (Problem, OSError, UnicodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    left = [each for each in found if each.fingerprint not in known]
    for each in left:
        shown = each.value[:4] + "…" if not each.value.startswith("-----") else "-----BEGIN…"
        print(f"{each.fingerprint}  {each.place.rstrip(':')}  {each.kind}  {shown}")
    print(f"{len(left)} finding(s), {len(found) - len(left)} known", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(main())
