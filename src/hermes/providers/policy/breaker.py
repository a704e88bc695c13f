"""Counts the failures of one model with one credential; see `policy.health` for what follows."""

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hermes.core.model import Model, ModelEvent, ModelRequest, Reply
from hermes.providers.policy.health import Circuit
from hermes.providers.wrapper import ModelWrapper


class BreakingModel(ModelWrapper):
    """Tells `circuit` how each call of `inner` ended, and says when it is unwell."""

    def __init__(self, inner: Model, circuit: Circuit) -> None:
        super().__init__(inner)
        self._circuit = circuit

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        with self._circuit.call():
            async with aclosing(self._inner.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        self._circuit.succeeded()
                    yield event

    def unwell(self) -> str:
        return complaint(self.provider, self._circuit.open_for)


def complaint(provider: str, seconds: float) -> str:
    """Why a provider is left alone for `seconds`; empty when it is not."""
    if not seconds:
        return ""
    return f"{provider} failed several times in a row and is left alone for {math.ceil(seconds)} s"
