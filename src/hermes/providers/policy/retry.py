"""Retry the same model after transient errors, fall back to another one, and count failures."""

import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

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
from hermes.core.model import EmitModelEvent, FellBack, Model, ModelRequest, Reply, Retrying
from hermes.core.ports import Clock
from hermes.providers.policy import ModelWrapper, unavailable_reason
from hermes.util.circuit_breaker import CircuitBreaker

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

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._inner.call(request, emit)
            except self._retry_on as error:
                seconds = pause_before(attempt, error)
                gives_up = not self._patient and bool(self.unavailable_reason())
                if seconds is None or attempt == self._attempts or gives_up:
                    raise
                emit(Retrying(str(error), attempt, round(seconds, 2)))
            await self._clock.sleep(seconds)


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

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        while True:
            while self._events:
                emit(self._events.pop(0))
            try:
                return await self._model.call(request, emit)
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


# Circuit breaker: the failures of each credential at each endpoint.
#
# A circuit is closed while calls succeed. After `FAILURE_THRESHOLD` transient failures in a row,
# all within `FAILURE_WINDOW` seconds, it opens for `FIRST_OPEN` seconds. After that it is half
# open: one call is let through. If that call fails, the circuit opens for twice as long, up to
# `LONGEST_OPEN`; if it is answered, the circuit closes. A refusal counts as an answer, because the
# endpoint works; other policies handle it. A cancelled call counts as nothing.
#
# An open circuit blocks no call. It only reports the model behind it as unavailable:
# - `KeyRotationModel` takes another credential if one is available.
# - `RetryModel` does not wait if it has a fallback.
# - `FallbackModel` skips an unavailable entry and returns to it when all others failed.
# So a failing endpoint costs no time while there is an alternative, and is still called when there
# is none.

FAILURE_THRESHOLD = 5
FAILURE_WINDOW = 600.0
"""Seconds; long enough for failures that take minutes each, such as a stalled stream."""
FIRST_OPEN = 30.0
LONGEST_OPEN = 300.0
TRIAL_WAIT = 5.0  #: Seconds to wait while another call tests the endpoint.


class CircuitKey(NamedTuple):
    provider: str
    base_url: str
    credential_id: str = ""


class EndpointHealth:
    """All circuits of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._circuits: dict[CircuitKey, EndpointCircuit] = {}

    def circuit(self, provider: str, base_url: str, credential_id: str = "") -> "EndpointCircuit":
        """Return the circuit of this credential at this endpoint; always the same object."""
        key = CircuitKey(provider, base_url, credential_id)
        return self._circuits.setdefault(key, EndpointCircuit(self._clock))


class EndpointCircuit:
    def __init__(self, clock: Clock) -> None:
        self._breaker = CircuitBreaker(
            FAILURE_THRESHOLD, FIRST_OPEN, LONGEST_OPEN, clock.monotonic, window=FAILURE_WINDOW
        )
        self._on_trial = False

    @property
    def open_for(self) -> float:
        """Seconds until the endpoint should be called again; 0 when it may be called now."""
        is_tested = self._on_trial and self._breaker.is_half_open
        return self._breaker.remaining or (TRIAL_WAIT if is_tested else 0.0)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Wrap one call and count its error. The caller reports success with `record_success`."""
        trial = self._breaker.is_half_open and not self._on_trial
        self._on_trial = self._on_trial or trial
        try:
            yield
        except Transient as error:
            self._breaker.record_failure(str(error))
            raise
        except ProviderError:
            self.record_success()
            raise
        finally:
            if trial:
                self._on_trial = False

    def record_success(self) -> None:
        self._breaker.record_success()


class CircuitBreakerModel(ModelWrapper):
    """Reports the outcome of each call of `inner` to `circuit`."""

    def __init__(self, inner: Model, circuit: EndpointCircuit) -> None:
        super().__init__(inner)
        self._circuit = circuit

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        with self._circuit.call():
            reply = await self._inner.call(request, emit)
            self._circuit.record_success()
            return reply

    def unavailable_reason(self) -> str:
        return open_circuit_message(self.provider, self._circuit.open_for)


def open_circuit_message(provider: str, seconds: float) -> str:
    """Return why the provider is avoided for `seconds`; empty for 0."""
    if not seconds:
        return ""
    return f"{provider} failed several times in a row and is not called for {math.ceil(seconds)} s"
