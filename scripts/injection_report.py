"""Report what the injection scan finds in real documents.

    python scripts/injection_report.py FOLDER…

Scans every text file below each folder (Markdown, reStructuredText, README and AGENTS files,
package descriptions) and prints each finding with its place, then the share of files that would be
blocked; each distinct content counts once. `--half even` or `--half odd` takes only half of them,
chosen by content, so that rules can be tuned on one half and judged on the other.
"""

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from hermes.security.injection import explain

ENDINGS = frozenset((".md", ".mdc", ".rst", ".markdown"))
NAMES = ("readme", "agents", "claude", "metadata", ".cursorrules")
LARGEST = 1_000_000


def documents(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield each document in a fixed order; a file that is named itself may have any ending."""
    for folder in folders:
        if folder.is_file():
            yield folder
            continue
        for path in sorted(folder.rglob("*")):
            named = path.name.lower().startswith(NAMES) and path.suffix not in (".py", ".pyc")
            if (path.suffix.lower() in ENDINGS or named) and path.is_file():
                yield path


def read(path: Path) -> str | None:
    """Return the text; None for binary data, an empty file, or one too long for a prompt."""
    if path.stat().st_size > LARGEST:
        return None
    try:
        return path.read_text("utf-8") or None
    except (UnicodeDecodeError, PermissionError):
        return None


def texts(folders: Iterable[Path], half: str | None) -> Iterator[tuple[Path, str]]:
    seen: set[bytes] = set()
    for path in documents(folders):
        text = read(path)
        if text is None:
            continue
        digest = hashlib.sha256(text.encode()).digest()
        if digest in seen or (half and digest[0] % 2 != (half == "odd")):
            continue
        seen.add(digest)
        yield path, text


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="+", type=Path)
    parser.add_argument("--half", choices=("even", "odd"))
    parser.add_argument("--quiet", action="store_true", help="print only the counts")
    options = parser.parse_args(arguments)
    scanned = blocked = 0
    by_id: Counter[str] = Counter()
    for path, text in texts(options.folder, options.half):
        scanned += 1
        findings = explain(text)
        blocked += bool(findings)
        by_id.update({finding.id for finding in findings})
        for finding in () if options.quiet else findings:
            print(f"{path}:{finding.line}: {finding.id}: {finding.excerpt}")
    share = f"{100 * blocked / scanned:.2f} %" if scanned else "none"
    print(f"files: {scanned}, blocked: {blocked} ({share})")
    for name, count in by_id.most_common():
        print(f"  {name}: {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
