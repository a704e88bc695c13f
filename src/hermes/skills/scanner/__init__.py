"""Looks through the files of a skill before it is kept. The rules are loaded with the first scan.

Nothing is run, nothing is fetched, nothing is opened: the files come as bytes.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from hermes.skills.scanner.report import ScanReport

__all__ = ["scan_files"]


def scan_files(files: Mapping[str, bytes]) -> ScanReport:
    """What is to be said against a skill. `files` are its files by their path inside its folder,
    with forward slashes. Links are no files: whoever unpacks a skill refuses them."""
    report: ScanReport = _scan().scan_files(files)
    return report


@cache
def _scan() -> Any:
    return import_module("hermes.skills.scanner.scan")
