"""What happens when a model call fails, and what it may cost: each policy is a `Model` around one.

From the outside in, made anew for each turn:

    FallbackModel([entry, ...])      another model takes over             falling_back.py
      RetryingModel                  the same request again, after a pause    retrying.py
        RotatingModel                another key of the same provider         rotating.py
          BreakingModel              counts failures of one key                breaker.py
            MeteredModel             no call that a cap does not allow        spending.py
              RepairingModel         the request again without what was refused  repairing.py

What outlives a turn is in `Health` (one per process) and `Purse` (one per session).
"""

from collections.abc import Callable

from hermes.core.model import Model

# A model around another one.


def unavailable_reason(model: Model) -> str:
    """Why `model` is better left alone just now, in words; empty when it is well. One that says
    nothing of itself is: nobody counts its failures (see `policy.health`)."""
    ask: Callable[[], str] | None = getattr(model, "unwell", None)
    return ask() if ask is not None else ""


class ModelWrapper:
    """Base of policies and adapters: it has the name and the health of what it wraps."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def provider(self) -> str:
        return self._inner.provider

    def unwell(self) -> str:
        return unavailable_reason(self._inner)
