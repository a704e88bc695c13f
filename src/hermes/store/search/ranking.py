"""Which matches come first."""

import math
from collections.abc import Iterable
from operator import itemgetter

from hermes.store.records import Candidate

_WEIGHTS = {"user": 1.0, "assistant": 0.8, "system": 0.5, "tool": 0.4}
"""What a person wrote is what a person remembers; tool output is long and repeats itself."""
_OTHER = 0.5

_HALF_LIFE = 30 * 86400.0
_OLD = 0.3
"""An old message keeps this part of its score, so that a good match is never out of reach."""


def rank(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Best first: relevance, weighted by who said it and how long ago. Equals: newest first."""
    scored = [
        (
            found.relevance * _WEIGHTS.get(found.role, _OTHER) * _recency(now - found.timestamp),
            found.timestamp,
            found.id,
            found,
        )
        for found in candidates
    ]
    scored.sort(key=itemgetter(0, 1, 2), reverse=True)
    return [found for *_, found in scored]


def _recency(age: float) -> float:
    """From 1.0 for now (or a clock that was ahead) down to `_OLD`."""
    return _OLD + (1 - _OLD) * math.exp2(-max(age, 0.0) / _HALF_LIFE)
