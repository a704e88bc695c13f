"""Retry the same model after transient errors, and fall back to another one after others."""

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
"""Seconds. When a server asks for more, the error is raised so that a fallback can act."""


RETRYABLE_ERRORS: tuple[type[ProviderError], ...] = (Transient, RateLimited)


class RetryModel(ModelWrapper):
    """Calls `inner` up to `attempts` times, with doubling, jittered pauses.

    A stream that breaks off is requested again as well; its deltas are void. `patient=False` means
    that the caller has another model: this one gives up as soon as `inner` is unavailable.
    `retry_on` lists the errors after which it retries.
    """

    def __init__(
        self,
        inner: Model,
        clock: Clock,
        *,
        attempts: int = ATTEMPTS,
        patient: bool = True,
        retry_on: tuple[type[ProviderError], ...] = RETRYABLE_ERRORS,
    ) -> None:
        super().__init__(inner)
        self._clock, self._attempts, self._patient = clock, attempts, patient
        self._retry_on = retry_on

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for attempt in range(1, self._attempts + 1):
            try:
                async with aclosing(self._inner.stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except self._retry_on as error:
                seconds = pause_before(attempt, error)
                if seconds is None or attempt == self._attempts or self._gives_up():
                    raise
                yield Retrying(str(error), attempt, round(seconds, 2))
            await self._clock.sleep(seconds)

    def _gives_up(self) -> bool:
        return not self._patient and bool(self.unavailable_reason())


def pause_before(attempt: int, error: ProviderError) -> float | None:
    """Return the seconds to wait after attempt number `attempt`; None when waiting is pointless."""
    if error.retry_after:
        return error.retry_after if error.retry_after <= MAX_RETRY_AFTER else None
    # Jitter spreads callers that failed together. It is not security-relevant.
    return random.uniform(0.5, 1.0) * min(FIRST_DELAY * 2.0 ** (attempt - 1), MAX_DELAY)


# Fallback.

ModelFactory = Callable[[], Model]

FALLBACK_ERRORS = (ProviderError, LocalModelError)  #: Errors after which another model may succeed,
FINAL_ERRORS = (ContextOverflow, ContentRefused)
"""except these: the first needs compaction, and a refusal is not evaded by asking another model."""


class FallbackModel:
    """The first model of `entries` that works, for one turn.

    Each entry gets one attempt, in order; an entry that took over stays for the rest of the turn.
    An entry that cannot be built is skipped, an unavailable one is tried last. When all failed, the
    first entry's error is raised. The constructor builds the first model and raises if no entry can
    be built.
    """

    def __init__(self, entries: Sequence[ModelFactory]) -> None:
        self._entries = deque(enumerate(entries))
        self._unavailable: deque[tuple[int, Model]] = deque()
        self._errors: dict[int, HermesError] = {}
        self._events: list[FellBack] = []
        self._number, self._model = self._next("")

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def provider(self) -> str:
        return self._model.provider

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        while True:
            while self._events:
                yield self._events.pop(0)
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
        """Return the next model and its number; `error` is why the current one failed."""
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
                return self._take_over(number, model, reason)
            self._unavailable.append((number, model))
            reason = reason or complaint
        if not self._unavailable:
            raise self._first_error()
        number, model = self._unavailable.popleft()
        # An unavailable first entry without an alternative is not a fallback, so it is not
        # reported.
        return self._take_over(number, model, reason if number else error)

    def _take_over(self, number: int, model: Model, reason: str) -> tuple[int, Model]:
        if reason:
            self._events.append(FellBack(model.provider, model.name, reason))
        return number, model

    def _first_error(self) -> HermesError:
        """Return the error of the first entry; its hint mentions the others."""
        first = self._errors.pop(0)
        if self._errors:
            count, last = len(self._errors), list(self._errors.values())[-1]
            others = f"{count} fallback{'s' * (count > 1)} failed too, the last with: {last}"
            first.hint = f"{first.hint}; {others}" if first.hint else others
        self._errors[0] = first
        return first
