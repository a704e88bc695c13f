"""Policies for failing and expensive model calls. Each is a `Model` wrapped around another one.

From the outside in, built anew for each turn:

    FallbackModel([factory, ...])    another model takes over                   retry.py
      RetryModel                     the same request again, after a pause      retry.py
        KeyRotationModel             another key of the same provider           key_rotation.py
          CircuitBreakerModel        counts the failures of one key             retry.py
            MeteredModel             refuses calls that exceed a spending cap   budget.py
              RequestRepairModel     the request again without what was refused repair.py

`EndpointHealth` (one per process) and `Budget` (one per session) outlive a turn.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes.core.model import Model
from hermes.util.lazy import lazy_getattr

if TYPE_CHECKING:
    # isort: off
    # fmt: off
    from hermes.providers.policy.budget import (
        Budget, BudgetLimits, DailySpend, MeteredModel, start_of_day,
    )
    from hermes.providers.policy.key_rotation import KeyRotationModel
    from hermes.providers.policy.repair import RequestRepairModel
    from hermes.providers.policy.retry import (
        RETRYABLE_ERRORS, CircuitBreakerModel, EndpointCircuit, EndpointHealth, FallbackModel,
        ModelFactory, RetryModel,
    )
    # fmt: on
    # isort: on

__all__ = [
    "RETRYABLE_ERRORS", "Budget", "BudgetLimits", "CircuitBreakerModel", "DailySpend",
    "EndpointCircuit", "EndpointHealth", "FallbackModel", "KeyRotationModel", "MeteredModel",
    "ModelFactory", "ModelWrapper", "RequestRepairModel", "RetryModel", "start_of_day",
    "unavailable_reason",
]  # fmt: skip

__getattr__ = lazy_getattr(__name__)


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
