"""Draft release notes from the commits since the last tag, and propose the next version.

Understands Conventional Commits: `type(scope)!: subject` and `BREAKING CHANGE:` in the body. Other
commits are listed under "Other". Merge commits, fixups and release commits are left out.
Exit code: 0 a draft was made, 1 nothing changed since the last tag, 2 an error.
"""
# ruff: noqa: T201, TID251 - prints its answer; git gets the environment it would have

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

GROUPS = [
    ("Breaking changes", ()),
    ("Added", ("feat",)),
    ("Fixed", ("fix",)),
    ("Changed", ("perf", "refactor", "revert", "change")),
    ("Documentation", ("docs",)),
    ("Other", ()),
]
QUIET = ("chore", "ci", "test", "tests", "style", "build")
SUBJECT = re.compile(r"^(?P<type>\w+)(?:\((?P<scope>[^)]*)\))?(?P<mark>!)?: +(?P<text>.+)$")
SKIP = re.compile(r"^(?:fixup|squash|amend)! |^(?:chore|build)\(release\)")
VERSION = re.compile(r"^(?P<prefix>\D*)(?P<numbers>\d+\.\d+\.\d+)$")
TOP = "# Changelog\n"


class Problem(Exception):
    """Something the user has to correct."""


class Entry(NamedTuple):
    group: str
    text: str
    commit: str


def git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments],
            env={**os.environ, "LC_ALL": "C"},  # its messages are looked at
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise Problem("git is not installed") from None
    if done.returncode:
        raise Problem(done.stderr.strip().splitlines()[0] if done.stderr else "git failed")
    return done.stdout


def last_tag() -> str:
    try:
        return git("describe", "--tags", "--abbrev=0").strip()
    except Problem as problem:
        if "No names found" in str(problem) or "No tags" in str(problem):
            return ""
        raise


def entry(commit: str, subject: str, body: str) -> Entry | None:
    """Where a commit belongs; None for one that users do not care about."""
    if SKIP.search(subject):
        return None
    found = SUBJECT.match(subject)
    if not found:
        return Entry("Other", subject, commit)
    scope = f"{found['scope']}: " if found["scope"] else ""
    text = scope + found["text"]
    if found["mark"] or re.search(r"^BREAKING[ -]CHANGE:", body, re.MULTILINE):
        return Entry("Breaking changes", text, commit)
    kind = found["type"].lower()
    if kind in QUIET:
        return None
    group = next((name for name, types in GROUPS if kind in types), "Other")
    return Entry(group, text, commit)


def entries(since: str) -> list[Entry]:
    span = f"{since}..HEAD" if since else "HEAD"
    log = git("log", "--no-merges", "--reverse", "--format=%h%x1f%s%x1f%b%x1e", span)
    rows = (row.strip("\n").split("\x1f") for row in log.split("\x1e") if row.strip())
    found = (entry(row[0], row[1], row[2]) for row in rows)
    return [one for one in found if one is not None]


def next_version(tag: str, found: list[Entry]) -> str:
    """The version after `tag`, without its prefix; 0.1.0 when there was none."""
    if not tag:
        return "0.1.0"
    match = VERSION.match(tag)
    if not match:
        raise Problem(f"the tag {tag!r} is no version like v1.2.3; name one with --version")
    major, minor, patch = (int(number) for number in match["numbers"].split("."))
    groups = {one.group for one in found}
    if "Breaking changes" in groups:
        return f"{major + 1}.0.0" if major else f"0.{minor + 1}.0"
    return f"{major}.{minor + 1}.0" if "Added" in groups else f"{major}.{minor}.{patch + 1}"


def draft(version: str, date: str, found: list[Entry]) -> str:
    lines = [f"## {version} - {date}", ""]
    for group, _ in GROUPS:
        items = [one for one in found if one.group == group]
        if items:
            lines += [f"### {group}", *(f"- {one.text} ({one.commit})" for one in items), ""]
    return "\n".join(lines)


def insert(file: Path, text: str, version: str) -> None:
    """Puts the draft above the newest release of `file`."""
    old = file.read_bytes().decode("utf-8") if file.exists() else TOP
    end = "\r\n" if "\r\n" in old else "\n"
    old = old.replace("\r\n", "\n")
    if re.search(rf"^## \[?v?{re.escape(version)}\b", old, re.MULTILINE):
        raise Problem(f"{file} already has a section for {version}")
    first = re.search(r"^## (?!\[?unreleased)", old, re.MULTILINE | re.IGNORECASE)
    place = first.start() if first else len(old)
    before = old[:place].rstrip("\n") + "\n\n"
    whole = before + text.rstrip("\n") + "\n\n" + old[place:]
    file.write_bytes(whole.replace("\n", end).encode())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--since", help="tag or commit to start after (default: the last tag)")
    parser.add_argument("--version", help="the version of the release (default: proposed)")
    parser.add_argument("--date", help="date of the release (default: today)")
    parser.add_argument("--write", metavar="FILE", type=Path, help="insert the draft into FILE")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown")
    return parser.parse_args()


def run(options: argparse.Namespace) -> int:
    tag = last_tag() if options.since is None else options.since
    found = entries(tag)
    if not found:
        print(f"nothing to release since {tag or 'the start'}", file=sys.stderr)
        return 1
    version = options.version or next_version(tag, found)
    date = options.date or dt.datetime.now().astimezone().date().isoformat()
    text = draft(version, date, found)
    if options.write:
        insert(options.write, text, version)
        print(f"{options.write}: added {version} with {len(found)} entries")
    elif options.json:
        rows = [one._asdict() for one in found]
        print(json.dumps({"since": tag, "version": version, "entries": rows}, indent=2))
    else:
        print(f"Since {tag or 'the start'}; proposed version: {version}\n\n{text}")
    return 0


def main() -> int:
    try:
        return run(arguments())
    except BrokenPipeError:
        raise
    except UnicodeError:
        print("error: the changelog is no UTF-8 text", file=sys.stderr)
        return 2
    except (Problem, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
