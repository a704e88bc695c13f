"""Try again when trying again can help."""

import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from hermes.core.errors import (
    ConfigError,
    ContentRefused,
    ContextOverflow,
    HermesError,
    LocalModelError,
    ProviderError,
    RateLimited,
    Transient,
)
from hermes.core.model import FellBack, Model, ModelEvent, ModelRequest, Retrying
from hermes.core.ports import Clock
from hermes.providers.policy import ModelWrapper, unavailable_reason

ATTEMPTS = 3
FIRST_DELAY = 1.0
MAX_DELAY = 30.0
MAX_RETRY_AFTER = 60.0
"""A server that asks for a longer wait is not waited for: a fallback can act in the meantime."""


RETRYABLE_ERRORS: tuple[type[ProviderError], ...] = (Transient, RateLimited)


class RetryModel(ModelWrapper):
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
        again: tuple[type[ProviderError], ...] = RETRYABLE_ERRORS,
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
        return error.retry_after if error.retry_after <= MAX_RETRY_AFTER else None
    # Jitter spreads callers that failed together; it is no secret, so `random` will do.
    return random.uniform(0.5, 1.0) * min(FIRST_DELAY * 2.0 ** (attempt - 1), MAX_DELAY)


# Another model takes over when one fails for good.

ModelFactory = Callable[[], Model]

FALLBACK_ERRORS = (ProviderError, LocalModelError)
"""What another model may do better ..."""
FINAL_ERRORS = (ContextOverflow, ContentRefused)
"""... but for these: compaction is for the first, and nobody shops around for the second."""


class FallbackModel:
    """The first of `entries` that works, for one turn.

    Each entry gets one chance, in order, and an entry that took over stays for the rest of the
    turn. One that cannot be built is passed over; one that is unwell is kept for the end. When all
    failed the error of the first is raised. Making this object builds the first model, so what
    keeps every entry from being built is raised there.
    """

    def __init__(self, entries: Sequence[ModelFactory]) -> None:
        self._entries = deque(enumerate(entries))
        self._unwell: deque[tuple[int, Model]] = deque()
        self._errors: dict[int, HermesError] = {}
        self._news: list[FellBack] = []
        self._number, self._model = self._next("")

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> str:
        return self._model.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        while True:
            while self._news:
                yield self._news.pop(0)
            try:
                async with aclosing(self._model.stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except FALLBACK_ERRORS as error:
                if isinstance(error, FINAL_ERRORS):
                    raise
                self._errors[self._number] = error
                self._number, self._model = self._next(str(error))

    def _next(self, error: str) -> tuple[int, Model]:
        """The next one to try, with its number; `error` is why the one in force does not do."""
        reason = error
        while self._entries:
            number, build = self._entries.popleft()
            try:
                model = build()
            except (ConfigError, *FALLBACK_ERRORS) as failure:
                self._errors[number] = failure
                reason = reason or str(failure)
                continue
            if not (complaint := unavailable_reason(model)):
                return self._takes_over(number, model, reason)
            self._unwell.append((number, model))
            reason = reason or complaint
        if not self._unwell:
            raise self._failure()
        number, model = self._unwell.popleft()
        # A first entry that begins although it is unwell, for want of a better one, is no news.
        return self._takes_over(number, model, reason if number else error)

    def _takes_over(self, number: int, model: Model, reason: str) -> tuple[int, Model]:
        if reason:
            self._news.append(FellBack(model.provider, model.name, reason))
        return number, model

    def _failure(self) -> HermesError:
        """The error of the first entry; its hint tells of the others."""
        first = self._errors.pop(0)
        if self._errors:
            count, last = len(self._errors), list(self._errors.values())[-1]
            told = f"{count} fallback{'s' * (count > 1)} failed too, the last with: {last}"
            first.hint = f"{first.hint}; {told}" if first.hint else told
        self._errors[0] = first
        return first
