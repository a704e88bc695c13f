"""Keys and passwords written into a skill."""

import re
from collections.abc import Iterator
from typing import Final

from hermes.security.secret_shapes import MARK, SHAPES
from hermes.skills.scanner.report import Category
from hermes.skills.scanner.rule import Hit, Rule

WRITTEN = Rule("written_secret", Category.SECRETS, "medium", "a key or password is written into it")

_LOOSE: Final = frozenset({"authorization", "bearer", "cookie", "://", "=", "pass", "."})
"""Hints of shapes that ordinary examples have as well."""
_EXAMPLE = re.compile(
    r"example|xxx|your|placeholder|dummy|sample|0{6}|1{6}|123456|abcdef|\.\.\.|test_?key|fake|<|\{",
    re.IGNORECASE,
)
_BODY = re.compile(r"[A-Za-z0-9+/=]{32}")
_SHAPES = tuple(shape for shape in SHAPES if shape.hints[0] not in _LOOSE)


def secrets(text: str) -> Iterator[Hit]:
    lowered = text.lower()
    for shape in _SHAPES:
        if not any(hint in lowered for hint in shape.hints):
            continue
        redacted = shape.redact(text)
        if redacted == text:
            continue
        start = redacted.find(MARK)
        after = redacted[start + len(MARK) :][:12]
        end = text.find(after, start) if after else len(text)
        if "private key" in shape.hints and not _BODY.search(text, start, start + 300):
            continue  # only its first line, as code that looks for keys has it
        if not _EXAMPLE.search(text, max(0, start - 8), max(start + 8, min(end, start + 200))):
            yield Hit(WRITTEN, text.count("\n", 0, start))
