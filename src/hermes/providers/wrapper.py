"""A model around another one."""

from collections.abc import Callable

from hermes.core.model import Model


def unwell(model: Model) -> str:
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
        return unwell(self._inner)
