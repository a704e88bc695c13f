"""Policies for failing and expensive model calls. Each is a `Model` wrapped around another one.

From the outside in, built anew for each turn:

    FallbackModel([factory, ...])    another model takes over                   retry.py
      RetryModel                     the same request again, after a pause      retry.py
        KeyRotationModel             another key of the same provider           key_rotation.py
          CircuitBreakerModel        counts the failures of one key             circuit_breaker.py
            MeteredModel             refuses calls that exceed a spending cap   budget.py
              RequestRepairModel     the request again without what was refused repair.py

`EndpointHealth` (one per process) and `Budget` (one per session) outlive a turn.
"""

from collections.abc import Callable

from hermes.core.model import Model


def unavailable_reason(model: Model) -> str:
    """Return why `model` should not be called now; empty when it may be.

    A model without this method does not count its failures and is always available.
    """
    ask: Callable[[], str] | None = getattr(model, "unavailable_reason", None)
    return ask() if ask is not None else ""


class ModelWrapper:
    """Base of policies and adapters; has the name and availability of the wrapped model."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def provider(self) -> str:
        return self._inner.provider

    def unavailable_reason(self) -> str:
        return unavailable_reason(self._inner)
