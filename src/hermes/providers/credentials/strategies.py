"""Which of several healthy credentials is used next."""

import random
from collections.abc import Callable, Sequence

import msgspec

from hermes.config.settings.model import PoolStrategy
from hermes.providers.target import Credential


class Standing(msgspec.Struct, frozen=True):
    """A credential and what is known of it."""

    credential: Credential
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0
    """0.0 when it does not rest."""
    rest_reason: str = ""


Choose = Callable[[Sequence[Standing], random.Random], Standing]

STRATEGIES: dict[PoolStrategy, Choose] = {
    "fill_first": lambda healthy, _: healthy[0],
    "round_robin": lambda healthy, _: min(healthy, key=lambda one: one.last_used),
    "least_used": lambda healthy, _: min(healthy, key=lambda one: (one.uses, one.last_used)),
    "random": lambda healthy, rng: rng.choice(healthy),
}
"""They get at least one standing, best first; of equal ones the better is taken."""

COUNTING: frozenset[PoolStrategy] = frozenset({"round_robin", "least_used"})
"""These go by earlier uses, so that the next process must know of each use."""
