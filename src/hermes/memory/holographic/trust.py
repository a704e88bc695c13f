"""How far a fact counts: trust changes with what is said about it, weight fades with time."""

import math

DAY = 86_400
HALF_LIFE_DAYS = 60
"""Of a fact that was never used; each doubling of its uses adds as much."""
LEAST_WEIGHT = 0.4
"""An old fact is not forgotten, only behind newer ones."""
RECALLED = 0.15
"""A fact that is trusted less is not recalled by itself; a search still finds it."""


def confirmed(trust: float) -> float:
    """Said again, in another session."""
    return trust + 0.3 * (1 - trust)


def contradicted(trust: float) -> float:
    """Something newer says otherwise."""
    return trust * 0.4


def rated(trust: float, *, helpful: bool) -> float:
    return trust + 0.2 * (1 - trust) if helpful else trust * 0.6


def weight(trust: float, touched: float, uses: int, now: float) -> float:
    """Between 0 and 1. `touched` is when the fact was last confirmed or used."""
    days = max(0.0, now - touched) / DAY
    half_life = HALF_LIFE_DAYS * (1 + math.log2(1 + uses))
    freshness = math.pow(0.5, days / half_life)
    return trust * (LEAST_WEIGHT + (1 - LEAST_WEIGHT) * freshness)
