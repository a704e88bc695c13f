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
"""A server that asks for a longer wait is not waited for: a fallback can act in the meantime."""


WORTH_ANOTHER_TRY: tuple[type[ProviderError], ...] = (Transient, RateLimited)


class RetryingModel(ModelWrapper):
    """Calls `inner` up to `attempts` times, with jittered, doubling pauses.

    A stream that broke after some deltas is asked for again too; the deltas are void. Not
    `patient` means that there is another model to turn to: it gives up as soon as `inner` is
    unwell, where a patient one, having no choice, goes on. `again` are the errors after which it
    is asked again.
    """

    def __init__(
        self,
        inner: Model,
        clock: Clock,
        *,
        attempts: int = ATTEMPTS,
        patient: bool = True,
        again: tuple[type[ProviderError], ...] = WORTH_ANOTHER_TRY,
    ) -> None:
        super().__init__(inner)
        self._clock, self._attempts, self._patient = clock, attempts, patient
        self._again = again

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for attempt in range(1, self._attempts + 1):
            try:
                async with aclosing(self._inner.stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except self._again as error:
                seconds = pause_before(attempt, error)
                if seconds is None or attempt == self._attempts or self._gives_up():
                    raise
                yield Retrying(str(error), attempt, round(seconds, 2))
            await self._clock.sleep(seconds)

    def _gives_up(self) -> bool:
        return not self._patient and bool(self.unwell())


def pause_before(attempt: int, error: ProviderError) -> float | None:
    """Seconds to wait after failed attempt number `attempt`; None when waiting is pointless."""
    if error.retry_after:
        return error.retry_after if error.retry_after <= LONGEST_RETRY_AFTER else None
    # Jitter spreads callers that failed together; it is no secret, so `random` will do.
    return random.uniform(0.5, 1.0) * min(FIRST_DELAY * 2.0 ** (attempt - 1), LONGEST_DELAY)
