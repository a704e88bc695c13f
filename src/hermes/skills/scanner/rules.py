"""Scan rules and the tables of names and patterns behind them, and positions of their hits."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from hermes.skills.scanner.report import SEVERITIES, FindingCategory, Severity


class ScanRule(msgspec.Struct, frozen=True):
    """A rule with its severity and the reason shown to the user."""

    category: FindingCategory
    id: str
    severity: Severity
    why: str


class ScannerTables(msgspec.Struct, frozen=True):
    """The content of tables.toml, which explains each table."""

    rules: dict[FindingCategory, dict[str, tuple[Severity, str]]]
    kinds: dict[str, str]
    reasons: dict[str, str]
    injections: dict[str, str]
    words: dict[str, str]
    vendors: dict[str, str]
    endings: dict[str, str]
    fences: dict[str, str]
    patterns: dict[str, str]
    signatures: dict[str, str]


TABLES = msgspec.toml.decode(
    Path(__file__).with_name("tables.toml").read_bytes(), type=ScannerTables
)
RULES = {
    name: ScanRule(category, name, severity, why)
    for category, found in TABLES.rules.items()
    for name, (severity, why) in found.items()
}


@cache
def word_list(name: str) -> frozenset[str]:
    return frozenset(TABLES.words[name].split())


def table_pattern(name: str) -> re.Pattern[str]:
    return re.compile(TABLES.patterns[name].replace("\n", ""))


class RuleHit(NamedTuple):
    """A place where a rule matched."""

    rule: ScanRule
    line: int = 0  #: From 0, in the scanned text.


def is_at_least(hit: RuleHit, severity: Severity) -> bool:
    return SEVERITIES.index(hit.rule.severity) >= SEVERITIES.index(severity)


def cap_severity(rule: ScanRule, most: Severity) -> ScanRule:
    """Return `rule` with at most the severity `most`."""
    severity = min(rule.severity, most, key=SEVERITIES.index)
    return msgspec.structs.replace(rule, severity=severity)


class LineIndex:
    """Finds the line of a position without counting from the start each time."""

    def __init__(self, text: str) -> None:
        self._starts = [match.end() for match in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        """Return the line of a position, from 0."""
        return bisect_right(self._starts, place)


def find_all(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield all matches with their lines, from 0."""
    lines = LineIndex(text)
    return ((lines.at(match.start()), match) for match in pattern.finditer(text))
