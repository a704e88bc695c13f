"""Secrets taken out of text before it reaches a file, a screen or a model."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from hermes.security.secret_shapes import MARK, SHAPES

SHORTEST_SECRET = 6
"""A shorter value would be found everywhere."""
SHORTEST_ANYWHERE = 8
"""A shorter one counts only where it stands alone, not inside a longer word."""


class Redactor:
    """Takes out known secret values, in any common spelling, and everything shaped like a key.

    What is left says what was there: `sk-…[redacted]`. Redacting twice changes nothing more.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: list[tuple[str, str]] = []
        self.learn(*secrets)

    def learn(self, *secrets: str) -> None:
        """These are secrets too, from now on."""
        values = {secret.strip() for secret in secrets}
        stubs = dict(self._known) | {
            spelling: _stub_of(value)
            for value in values
            if len(value) >= SHORTEST_SECRET and value not in MARK
            for spelling in (_spellings(value) if len(value) >= SHORTEST_ANYWHERE else (value,))
        }
        # The longest first: one secret may be the beginning of another.
        self._known = sorted(stubs.items(), key=lambda item: len(item[0]), reverse=True)

    def redact(self, text: str) -> str:
        if text.startswith(("{", "[")):
            text = self._redact_json(text)
        # Taking one secret out can bare the beginning of another that was glued to it. Each round
        # leaves fewer characters outside the marks, so the rounds come to an end.
        while (redacted := self._redact_once(text)) != text:
            text = redacted
        return text

    def _redact_json(self, text: str) -> str:
        """JSON hides where words begin behind its escapes, so the strings in it are looked at."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text
        cleaned = self._redact_value(value)
        return text if cleaned == value else msgspec.json.encode(cleaned).decode()

    def _redact_value(self, value: Any) -> Any:
        match value:
            case str():
                return self.redact(value)
            case list():
                return [self._redact_value(item) for item in value]
            case dict():
                return {self.redact(key): self._redact_value(item) for key, item in value.items()}
            case _:
                return value

    def redact_known(self, text: str) -> str:
        """Only the known values: for what a person said, who may mean a key of their own."""
        for spelling, stub in self._known:
            if spelling not in text:
                continue
            if len(spelling) >= SHORTEST_ANYWHERE:
                text = text.replace(spelling, stub)
            else:
                text = re.sub(rf"(?<!\w){re.escape(spelling)}(?!\w)", stub, text)
        return text

    def _redact_once(self, text: str) -> str:
        return _redact_shapes(self.redact_known(text))


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
