"""Decide which dated backups to keep, and remove the others when told to.

The date is read from each name: 2024-05-31, 20240531, optionally followed by a time such as
T2315, -231500 or _23-15-00. Kept: the newest `--last`, and the newest one of each of the last
`--daily` days, `--weekly` weeks and `--monthly` months that have a backup. Names without a date
are never touched. Files that belong together, such as a checksum beside an archive
(NAME.sha256), go with the archive.
Exit code: 0 done, 2 an error.
"""
# ruff: noqa: T201 - prints its answer

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import Callable, NamedTuple  # noqa: UP035 - runs on older Pythons too

STAMP = re.compile(
    r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?:[T_ -]?(\d{2})[-:h]?(\d{2})(?:[-:m]?(\d{2}))?)?(?!\d)"
)
COMPANIONS = (".sha256", ".sha512", ".md5", ".asc", ".sig")

Bucket = Callable[[datetime], str]
BUCKETS: dict[str, Bucket] = {
    "daily": lambda when: when.strftime("%Y-%m-%d"),
    "weekly": lambda when: when.strftime("%G-W%V"),
    "monthly": lambda when: when.strftime("%Y-%m"),
}


class Backup(NamedTuple):
    when: datetime
    path: Path


def date_of(name: str) -> datetime | None:
    for found in STAMP.finditer(name):
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
        try:  # names carry no zone; only the order counts
            return datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - names of files have no time zone
        except ValueError:
            continue
    return None


def kept(backups: list[Backup], last: int, counts: dict[str, int]) -> dict[Path, list[str]]:
    """The paths to keep, each with the reasons; `backups` are sorted, newest first."""
    reasons: dict[Path, list[str]] = {}
    for backup in backups[:last]:
        reasons.setdefault(backup.path, []).append("last")
    for kind, count in counts.items():
        seen: set[str] = set()
        for backup in backups:
            bucket = BUCKETS[kind](backup.when)
            if bucket not in seen and len(seen) < count:
                seen.add(bucket)
                reasons.setdefault(backup.path, []).append(kind)
    return reasons


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    for ending in COMPANIONS:
        beside = path.with_name(path.name + ending)
        if beside.exists():
            beside.unlink()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the folder that holds the backups")
    parser.add_argument("--pattern", default="", help="only names like this, such as 'app-*.gz'")
    parser.add_argument("--last", type=int, default=1, help="always keep so many newest (1)")
    parser.add_argument("--daily", type=int, default=7, help="days to keep (7)")
    parser.add_argument("--weekly", type=int, default=4, help="weeks to keep (4)")
    parser.add_argument("--monthly", type=int, default=6, help="months to keep (6)")
    parser.add_argument("--delete", action="store_true", help="remove; without it only show")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    counts = {kind: getattr(options, kind) for kind in BUCKETS}
    if options.last < 1 or min(counts.values()) < 0:
        print("error: --last is at least 1, the other counts at least 0", file=sys.stderr)
        return 2
    if options.delete and not options.pattern:
        print("error: --delete needs --pattern, or all dated names would go", file=sys.stderr)
        return 2
    if not options.folder.is_dir():
        print(f"error: {options.folder} is no folder", file=sys.stderr)
        return 2
    pattern = options.pattern or "*"
    found = [
        path
        for path in options.folder.iterdir()
        if fnmatch.fnmatchcase(path.name, pattern) and path.suffix not in COMPANIONS
    ]
    dated = ((date_of(path.name), path) for path in found)
    backups = sorted((Backup(when, path) for when, path in dated if when), reverse=True)
    reasons = kept(backups, options.last, counts)
    for backup in backups:
        why = reasons.get(backup.path)
        action = "delete" if options.delete else "would delete"
        print(f"{'keep   ' + '+'.join(why) if why else action}\t{backup.path}")
        if options.delete and not why:
            try:
                remove(backup.path)
            except OSError as error:
                print(f"error: {error}", file=sys.stderr)
                return 2
    print(
        f"{len(reasons)} kept, {len(backups) - len(reasons)} to go, "
        f"{len(found) - len(backups)} without a date left alone"
    )
    return 0


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
