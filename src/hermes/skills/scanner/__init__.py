"""Scan the files of a skill for dangerous content before it is stored.

Nothing is run, fetched or opened: the files are given as bytes.
"""

from collections.abc import Mapping

from hermes.skills.scanner.report import (
    FindingCategory,
    ScanFinding,
    ScanReport,
    SourceTrust,
    decide_install,
)

__all__ = [
    "FindingCategory", "ScanFinding", "ScanReport", "SourceTrust", "decide_install", "scan_files",
]  # fmt: skip


def scan_files(files: Mapping[str, bytes]) -> ScanReport:
    """Scan a skill. `files` are its files by relative path, with forward slashes.

    Links are not files: the code that unpacks a skill refuses them.
    """
    from hermes.skills.scanner import scan  # the rules load with the first scan

    return scan.scan_files(files)
