"""A model around another one."""

from hermes.core.model import Model


class ModelWrapper:
    """Base of policies and adapters: it has the name of what it wraps."""

    def __init__(self, inner: Model) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def provider(self) -> str:
        return self._inner.provider
