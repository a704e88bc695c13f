"""What the server says of itself: /health, /health/detailed, /v1/models, /metrics."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from hermes import __version__
from hermes.core.ports import Clock
from hermes.gateway.platforms.api_server.exchange import Reply, Request, answered
from hermes.gateway.platforms.api_server.refusals import missing
from hermes.gateway.platforms.api_server.turns import Turns

METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Health(msgspec.Struct, frozen=True):
    status: Literal["ok"] = "ok"


class DetailedHealth(msgspec.Struct, frozen=True):
    version: str
    model: str
    uptime_seconds: float
    turns_running: int
    agents_ready: int
    """Conversations that can go on at once."""
    gateway: dict[str, Any] | None = None
    """What the gateway says of its platforms."""
    status: Literal["ok"] = "ok"


class ModelCard(msgspec.Struct, frozen=True):
    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "hermes"


class ModelList(msgspec.Struct, frozen=True):
    data: list[ModelCard]
    object: Literal["list"] = "list"


class About:
    def __init__(
        self,
        turns: Turns,
        clock: Clock,
        model_name: str,
        status: Callable[[], dict[str, Any]] | None,
        metrics: Callable[[], bytes] | None,
    ) -> None:
        self._turns, self._clock, self._model_name = turns, clock, model_name
        self._status, self._metrics = status, metrics
        self._began = clock.monotonic()
        self._card = ModelCard(model_name, int(clock.now().timestamp()))

    async def health(self, _request: Request) -> Reply:
        return answered(Health())

    async def detailed(self, _request: Request) -> Reply:
        return answered(
            DetailedHealth(
                __version__,
                self._model_name,
                round(self._clock.monotonic() - self._began, 3),
                self._turns.count,
                self._turns.live.count,
                self._status() if self._status else None,
            )
        )

    async def models(self, _request: Request) -> Reply:
        return answered(ModelList([self._card]))

    async def model(self, request: Request) -> Reply:
        if request.places["model_id"] != self._model_name:
            raise missing(f"the only model is {self._model_name}", "model_not_found")
        return answered(self._card)

    async def metrics(self, _request: Request) -> Reply:
        if self._metrics is None:
            raise missing("there are no metrics", "no_metrics")
        return Reply(self._metrics(), kind=METRICS)
