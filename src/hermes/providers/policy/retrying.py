"""Try again when trying again can help."""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hermes.core.errors import ProviderError, RateLimited, Transient
from hermes.core.model import Model, ModelEvent, ModelRequest, Retrying
from hermes.core.ports import Clock
from hermes.providers.wrapper import ModelWrapper

ATTEMPTS = 3
FIRST_DELAY = 1.0
LONGEST_DELAY = 30.0
LONGEST_RETRY_AFTER = 60.0
"""A server that asks for a longer wait is not waited for."""


class RetryingModel(ModelWrapper):
    """A `Model` that calls `inner` up to `attempts` times, with jittered, doubling pauses."""

    def __init__(self, inner: Model, clock: Clock, *, attempts: int = ATTEMPTS) -> None:
        super().__init__(inner)
        self._clock, self._attempts = clock, attempts

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for attempt in range(1, self._attempts + 1):
            try:
                async with aclosing(self._inner.stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except (Transient, RateLimited) as error:
                seconds = pause_before(attempt, error)
                if attempt == self._attempts or seconds is None:
                    raise
                yield Retrying(str(error), attempt, round(seconds, 2))
            await self._clock.sleep(seconds)


def pause_before(attempt: int, error: ProviderError) -> float | None:
    """Seconds to wait after failed attempt number `attempt`; None when waiting is pointless."""
    asked = error.retry_after if isinstance(error, RateLimited) else None
    if asked is not None:
        return asked if asked <= LONGEST_RETRY_AFTER else None
    # Jitter spreads callers that failed together; it is no secret, so `random` will do.
    return random.uniform(0.5, 1.0) * min(FIRST_DELAY * 2.0 ** (attempt - 1), LONGEST_DELAY)
