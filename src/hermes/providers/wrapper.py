"""A model around another one."""

from typing import Protocol, runtime_checkable

from hermes.core.model import Model


@runtime_checkable
class Watched(Protocol):
    """A model whose failures are counted; see `policy.health`."""

    def unwell(self) -> str:
        """Why it is better left alone just now, in words; empty when it is well."""
        ...


def unwell(model: Model) -> str:
    """What `model` says of itself; one that nobody watches is well."""
    return model.unwell() if isinstance(model, Watched) else ""


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
