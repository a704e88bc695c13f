"""Values of earlier notes that a model forgot when it brought them up to date."""

import re

from hermes.context.compressor.notes import CRITICAL, DECISIONS, Notes
from hermes.core.tokens import text_tokens

_VALUE = re.compile(r"(?<![\w.])[\w#-]*\d[\w.:%/-]*\w|\d")
"""A number, a version, an address, a hash: what cannot be said in other words."""


def with_findings(notes: Notes, earlier: Notes, tokens: int) -> Notes:
    """`notes` with the earlier findings and decisions of which a value is missing, the newest of
    them in at most so many tokens. Whether they still matter nobody here can tell."""
    text, found = notes.text(), list[str]()
    lines = [*earlier[DECISIONS].splitlines(), *earlier[CRITICAL].splitlines()]
    for line in reversed(lines):
        values = _VALUE.findall(line)
        if not values or all(value in text for value in values):
            continue
        tokens -= text_tokens(line + "\n")
        if tokens < 0:
            break
        found.append(line)
    if not found:
        return notes
    # Older than what the model wrote itself, so in front of it.
    return notes.with_section(CRITICAL, "\n".join([*reversed(found), notes[CRITICAL]]))
