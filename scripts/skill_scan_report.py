"""Report what the skill scanner finds in the corpus, or in skills on this disk.

    python scripts/skill_scan_report.py [--misses] [--findings] [FOLDER…]

Without a folder, it scans the corpus of the tests and prints for each part how many attacks were
found and how many harmless skills passed. With folders, it scans each folder below them that has a
SKILL.md, and prints the verdict.

In the files of the corpus, a line `%%% name | category | description` begins a skill; its SKILL.md
follows, and gets a head unless it has one. Attacks have categories, separated by `/`, one of which
must be found. A line `%% path` begins another file. `\\u{200b}` is a character and `\\x{7f45}` are
bytes. The text before the first skill is a comment.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from hermes.skills import SKILL_FILE
from hermes.skills.scanner import ScanReport, scan_files

CORPUS = Path(__file__).parent.parent / "tests" / "unit" / "skills" / "scanner" / "corpus"
_SKILL = re.compile(r"^%%% (.+?) \| (.*?) ?\| (.+)$", re.MULTILINE)
_FILE = re.compile(r"^%% (.+)$", re.MULTILINE)
_CHARACTER = re.compile(r"\\u\{([0-9a-f]+)\}")
_BYTES = re.compile(r"\\x\{([0-9a-f]+)\}\s*")
WIDTHS = (22, 7, 9, 16, 16, 16)
HEADINGS = ("part", "skills", "dangerous", "caution or worse", "in its category", "safe")


class Example(NamedTuple):
    name: str
    categories: frozenset[str]  #: Empty for a harmless skill.
    files: dict[str, bytes]
    held_out: bool


def examples(held_out: bool | None = None) -> list[Example]:
    """Return all examples, or one part of them."""
    folders = {True: "held_out", False: "tuning"}
    wanted = [folders[held_out]] if held_out is not None else folders.values()
    return [
        example
        for folder in wanted
        for path in sorted((CORPUS / folder).glob("*.txt"))
        for example in _read(path.read_text("utf-8"), folder == "held_out")
    ]


def _read(text: str, held_out: bool) -> list[Example]:
    parts = _SKILL.split(text)[1:]
    found = []
    for name, categories, description, body in zip(*[iter(parts)] * 4, strict=True):
        first, *rest = _FILE.split(body)
        head = f"---\nname: {name}\ndescription: {description}\n---\n"
        skill = first.lstrip("\n")
        files = {"SKILL.md": _bytes(skill if skill.startswith("---") else head + skill)}
        for path, content in zip(rest[::2], rest[1::2], strict=True):
            files[path] = _bytes(content.lstrip("\n"))
        kinds = frozenset(filter(None, categories.split("/")))
        found.append(Example(name, kinds, files, held_out))
    return found


def _bytes(text: str) -> bytes:
    if found := _BYTES.match(text):
        return bytes.fromhex(found[1])
    return _CHARACTER.sub(lambda match: chr(int(match[1], 16)), text).encode()


def folders(roots: Iterable[Path]) -> list[Path]:
    return sorted({path.parent for root in roots for path in root.rglob(SKILL_FILE)})


def read(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def show(report: ScanReport) -> None:
    for finding in report.findings:
        place = f"{finding.file}:{finding.line}" if finding.line else finding.file
        print(f"    {finding.severity} {finding.category} {place}: {finding.why}: {finding.text}")


def share(count: int, whole: int) -> str:
    return f"{count} ({100 * count / whole:.1f} %)" if whole else "0"


def in_category(example: Example, report: ScanReport) -> bool:
    """Return whether an attack was found in one of its categories."""
    grave = {finding.category for finding in report.findings if finding.severity != "low"}
    return bool(grave & example.categories)


def row(name: str, group: Sequence[tuple[Example, ScanReport]]) -> tuple[str, ...]:
    verdicts = [report.verdict for _, report in group]
    whole, dangerous = len(group), verdicts.count("dangerous")
    safe = verdicts.count("safe")
    right = sum(in_category(example, report) for example, report in group)
    shares = [share(count, whole) for count in (whole - safe, right, safe)]
    return name, str(whole), str(dangerous), *shares


def print_row(cells: Sequence[str]) -> None:
    print("  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip())


def corpus(misses: bool, findings: bool) -> None:
    scanned = [(example, scan_files(example.files)) for example in examples()]
    print_row(HEADINGS)
    for kind, bad in (("attacks", True), ("harmless", False)):
        group = [pair for pair in scanned if bool(pair[0].categories) is bad]
        for part, held_out in (("tuning", False), ("held out", True)):
            print_row(row(f"{kind}, {part}", [p for p in group if p[0].held_out is held_out]))
        print_row(row(f"{kind}, all", group))
    for example, report in scanned if misses else ():
        if bool(example.categories) is (report.verdict == "safe"):
            print(f"{'missed' if example.categories else 'false alarm'}: {example.name}")
            if findings:
                show(report)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="*", type=Path)
    parser.add_argument("--misses", action="store_true", help="name what was judged wrongly")
    parser.add_argument("--findings", action="store_true", help="print each finding")
    options = parser.parse_args(arguments)
    if not options.folder:
        corpus(options.misses, options.findings)
        return 0
    found = folders(options.folder)
    if not found:
        parser.error(f"there is no {SKILL_FILE} in {', '.join(map(str, options.folder))}")
    for folder in found:
        report = scan_files(read(folder))
        print(f"{report.verdict}: {folder}")
        if options.findings:
            show(report)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
