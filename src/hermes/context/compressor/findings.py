"""Values of earlier notes that a model forgot when it brought them up to date."""

import re
from collections.abc import Sequence

from hermes.context.compressor.notes import CRITICAL, DECISIONS, Notes
from hermes.core.tokens import text_tokens

_VALUE = re.compile(r"(?<![\w.])[\w#-]*\d[\w.:%/-]*\w|\d")
"""A number, a version, an address, a hash: what cannot be said in other words."""


def with_findings(notes: Notes, earlier: Notes, tokens: int) -> Notes:
    """`notes` with the earlier findings and decisions of which a value is missing, the newest of
    them in at most so many tokens. Whether they still matter nobody here can tell."""
    lines = [*earlier[DECISIONS].splitlines(), *earlier[CRITICAL].splitlines()]
    found = forgotten(lines, notes.text(), tokens)
    # Older than what the model wrote itself, so in front of it.
    text = "\n".join([*found, notes[CRITICAL]])
    return notes.with_section(CRITICAL, text) if found else notes


def forgotten(lines: Sequence[str], text: str, tokens: int) -> list[str]:
    """The last of `lines`, in at most so many tokens, of which `text` lacks a value."""
    found: list[str] = []
    for line in reversed(lines):
        values = _VALUE.findall(line)
        if not values or all(value in text for value in values):
            continue
        tokens -= text_tokens(line + "\n")
        if tokens < 0:
            break
        found.append(line)
    return found[::-1]
