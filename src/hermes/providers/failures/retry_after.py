"""How long an endpoint asked to wait, wherever it wrote that."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from hermes.core.errors import ProviderError, QuotaSpent, RateLimited, ServerFault
from hermes.providers.failures.complaint import Complaint

LONGEST = 31 * 86400.0
"""Seconds. A longer wait is taken for a mistake."""
_EPOCH = 1_000_000_000
_EPOCH_MS = 100_000_000_000
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PIECE = re.compile(
    r"(\d+(?:\.\d+)?)\s*"
    r"(?:(ms|milliseconds?)|(s|secs?|seconds?)|(m|mins?|minutes?)|(h|hrs?|hours?)|(d|days?))"
    r"(?![a-z])[\s,]*(?:and\s+)?",
    re.IGNORECASE,
)
_SPAN = re.compile(rf"(?:{_PIECE.pattern})+", re.IGNORECASE)
_IN_WORDS = re.compile(
    rf"(?:try again|retry|wait)\s+(?:in|after|for)?\s*(?P<span>{_SPAN.pattern})", re.IGNORECASE
)
_BUCKET = re.compile(r"((?:x|anthropic)-ratelimit-(?:.+-)?)reset(-.+)?")


class Said:
    """Everything the answer says about time, and the time it was said."""

    def __init__(self, headers: Mapping[str, str], complaint: Complaint, now: float) -> None:
        self.headers = {**complaint.headers, **headers}
        self.waits = complaint.waits
        self.text = complaint.text
        self.now = now

    def header(self, name: str) -> float | None:
        return read(self.headers.get(name, ""), self.now)

    def wait(self, name: str) -> float | None:
        return read(self.waits.get(name, ""), self.now)


def wanted(kind: type[ProviderError], said: Said) -> float | None:
    """Seconds to wait before an error of this kind may have passed, or None."""
    for classes, sources in _SOURCES:
        if issubclass(kind, classes):
            found = (source(said) for source in sources)
            return next((seconds for seconds in found if seconds is not None), None)
    return None


def read(value: str, now: float) -> float | None:
    """Seconds from now, of a number, a span such as `6m0s`, an epoch time or a date."""
    text = value[:100].strip()
    for reader in (_number, _span, _date):
        seconds = reader(text, now)
        if seconds is not None:
            return max(0.0, seconds) if seconds <= LONGEST else None
    return None


def _number(text: str, now: float) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    if number >= _EPOCH_MS:
        return number / 1000 - now
    return number - now if number >= _EPOCH else number


def _span(text: str, now: float) -> float | None:
    del now
    if not _SPAN.fullmatch(text):
        return None
    pieces = _PIECE.findall(text)
    return sum(
        float(amount) * factor
        for amount, *units in pieces
        for factor, unit in zip(_UNITS.values(), units, strict=True)
        if unit
    )


def _date(text: str, now: float) -> float | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = parse(text)
        except (ValueError, TypeError, OverflowError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
    return None


def _milliseconds(said: Said) -> float | None:
    seconds = _number(said.headers.get("retry-after-ms", ""), said.now)
    return None if seconds is None or seconds < 0 else min(seconds / 1000, LONGEST)


def _in_words(said: Said) -> float | None:
    match = _IN_WORDS.search(said.text)
    return read(match["span"], said.now) if match else None


def _first(
    take: Callable[[Said, str], float | None], *names: str
) -> Callable[[Said], float | None]:
    def source(said: Said) -> float | None:
        found = (take(said, name) for name in names)
        return next((seconds for seconds in found if seconds is not None), None)

    return source


def _buckets(said: Said) -> float | None:
    """The limits of OpenAI, Groq and Anthropic: of the empty ones the last to be filled again,
    of others the first, because nothing tells which one was hit."""
    matches = (match for match in map(_BUCKET.fullmatch, said.headers) if match)
    resets = [(said.header(match[0]), _is_empty(match, said.headers)) for match in matches]
    empty = [seconds for seconds, nothing_left in resets if nothing_left and seconds is not None]
    return max(empty) if empty else _least(seconds for seconds, _ in resets)


def _is_empty(match: re.Match[str], headers: Mapping[str, str]) -> bool:
    return headers.get(f"{match[1]}remaining{match[2] or ''}") == "0"


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


_ASKED = (_milliseconds, _first(Said.header, "retry-after"))
_RESET = _first(Said.wait, "resets_in_seconds", "resets_at")
_BODY = _first(Said.wait, "retrydelay", "retry_after", "retry_after_seconds", "estimated_time")
_WINDOW = _first(Said.header, "x-ratelimit-reset")
_SOURCES: tuple[
    tuple[tuple[type[ProviderError], ...], tuple[Callable[[Said], float | None], ...]], ...
] = (
    # The short pauses of a limit per minute say nothing about a quota that is spent.
    ((QuotaSpent,), (_RESET, *_ASKED, _WINDOW)),
    ((RateLimited, ServerFault), (*_ASKED, _RESET, _BODY, _in_words, _buckets)),
)
