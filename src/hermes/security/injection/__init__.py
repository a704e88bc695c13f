"""Detection of prompt injection in text that becomes part of a prompt.

`scan` returns the ids of the findings, `explain` also where they are. The rule tables load with
the first text that is scanned.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

__all__ = ["BLOCKED", "InjectionFinding", "blocked", "explain", "hidden_kind", "scan"]

BLOCKED = "[BLOCKED: "  #: Prefix of the text that replaces a file that was not loaded.


class InjectionFinding(msgspec.Struct, frozen=True):
    """One sign of an injection."""

    id: str
    line: int  #: Line number in the source, from 1.
    excerpt: str  #: That line, stripped and shortened.


def scan(text: str) -> tuple[str, ...]:
    """Return the ids of what was found, invisible characters first, each once; () if clean."""
    if not text.strip():
        return ()
    from hermes.security.injection import scanner  # the rule tables take a while to load

    return scanner.scan(text)


def explain(text: str) -> list[InjectionFinding]:
    """Return what was found, and where."""
    from hermes.security.injection import scanner  # the rule tables take a while to load

    return scanner.explain(text)


def hidden_kind(attributes: str) -> Literal["", "perhaps", "surely"]:
    """Return whether readers of a page do not see an HTML element with these attributes."""
    from hermes.security.injection import scanner  # the rule tables take a while to load

    return scanner.hidden_kind(attributes)


def blocked(name: str, findings: Sequence[str]) -> str:
    """Return the text that replaces the file `name` in a prompt."""
    found = ", ".join(findings)
    return f"{BLOCKED}{name} contained potential prompt injection ({found}). Content not loaded.]"
