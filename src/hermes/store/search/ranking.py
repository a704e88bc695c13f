"""Which matches come first."""

from collections.abc import Iterable

from hermes.store.records import Candidate

CANDIDATES = 120
"""How many of the newest matches are ranked, unless a later page is asked for."""

_WEIGHTS = {"user": 1.0, "assistant": 0.8, "system": 0.5, "tool": 0.4}
"""What a person wrote is what a person remembers; tool output is long and repeats itself."""
_OTHER = 0.5

_HALF_LIFE = 30 * 86400.0
_OLD = 0.3
"""An old message keeps this part of its score, so that a good match is never out of reach."""


def rank(candidates: Iterable[Candidate], now: float) -> list[Candidate]:
    """Best first: relevance, weighted by who said it and how long ago. Equals stay in the order
    they come in, which is newest first."""

    def score(candidate: Candidate) -> float:
        _, _, role, timestamp, relevance = candidate
        # From 1.0 for now (or a clock that was ahead) down to `_OLD`.
        age = now - timestamp
        recency = _OLD + (1 - _OLD) * 2.0 ** (-age / _HALF_LIFE) if age > 0 else 1.0
        return relevance * _WEIGHTS.get(role, _OTHER) * recency

    return sorted(candidates, key=score, reverse=True)
