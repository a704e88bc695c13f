"""A rule, and a place where it fits."""

from typing import NamedTuple

import msgspec

from hermes.skills.scanner.report import SEVERITIES, Category, Severity


class Rule(msgspec.Struct, frozen=True):
    id: str
    category: Category
    severity: Severity
    why: str


class Hit(NamedTuple):
    rule: Rule
    line: int = 0
    """From 0, inside the text that was looked at."""


def at_least(hit: Hit, severity: Severity) -> bool:
    return SEVERITIES.index(hit.rule.severity) >= SEVERITIES.index(severity)


def softened(rule: Rule, most: Severity) -> Rule:
    """`rule` with a severity of `most` at most."""
    severity = min(rule.severity, most, key=SEVERITIES.index)
    return msgspec.structs.replace(rule, severity=severity)
