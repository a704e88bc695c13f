"""Signs of prompt injection in text that will become part of a prompt.

The many rules are loaded with the first text that is scanned.
"""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from hermes.security.injection.finding import Finding

__all__ = ["BLOCKED", "Finding", "blocked", "explain", "scan"]

BLOCKED = "[BLOCKED: "
"""What stands in the place of a text that was not loaded begins with it."""


def scan(text: str) -> tuple[str, ...]:
    """The ids of what was found, invisible characters first, each once; () for a clean text."""
    found: tuple[str, ...] = _scanner().scan(text) if text.strip() else ()
    return found


def explain(text: str) -> list[Finding]:
    """What was found, and where."""
    found: list[Finding] = _scanner().explain(text)
    return found


def blocked(name: str, findings: Sequence[str]) -> str:
    """What stands in a prompt in place of the file `name`."""
    found = ", ".join(findings)
    return f"{BLOCKED}{name} contained potential prompt injection ({found}). Content not loaded.]"


@cache
def _scanner() -> Any:
    return import_module("hermes.security.injection.scanner")
