"""Secrets taken out of text before it reaches a file, a screen or a model."""

import base64
import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

from hermes.security.secret_shapes import MARK, SHAPES

SHORTEST_SECRET = 8
"""A shorter value would be found in ordinary words."""


class Redactor:
    """Takes out known secret values, in any common spelling, and everything shaped like a key.

    What is left says what was there: `sk-…[redacted]`. Redacting twice changes nothing more.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        values = {secret.strip() for secret in secrets}
        stubs = {
            spelling: _stub_of(value)
            for value in values
            if len(value) >= SHORTEST_SECRET and value not in MARK
            for spelling in _spellings(value)
        }
        # The longest first: one secret may be the beginning of another.
        self._known = sorted(stubs.items(), key=lambda item: len(item[0]), reverse=True)

    def redact(self, text: str) -> str:
        # Taking one secret out can bare the beginning of another that was glued to it. Each round
        # leaves fewer characters outside the marks, so the rounds come to an end.
        while (redacted := self._redact_once(text)) != text:
            text = redacted
        return text

    def _redact_once(self, text: str) -> str:
        for spelling, stub in self._known:
            if spelling in text:
                text = text.replace(spelling, stub)
        return _redact_shapes(text)


def _redact_shapes(text: str) -> str:
    lowered = text.lower()
    for shape in SHAPES:
        for hint in shape.hints:
            if hint in lowered:
                text = shape.redact(text)
                break
    return text


def _stub_of(secret: str) -> str:
    """`sk-…[redacted]` for a value of a known shape, else only the mark."""
    stub = _redact_shapes(secret)
    return stub if stub.endswith(MARK) and len(stub) < len(MARK) + 16 else MARK


def _spellings(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    for shift in range(3):
        yield from _inside_base64(secret.encode("utf-8", "replace"), shift)


def _inside_base64(secret: bytes, shift: int) -> Iterator[str]:
    """The characters that depend on `secret` alone when it begins `shift` bytes into a group.

    This finds it inside a longer encoded text as well, such as `user:password`.
    """
    bits_before, bits_after = 8 * shift, 8 * (shift + len(secret))
    first, last = -(-bits_before // 6), bits_after // 6
    padded = bytes(shift) + secret
    for encoded in (base64.b64encode(padded), base64.urlsafe_b64encode(padded)):
        yield encoded.decode()[first:last]
