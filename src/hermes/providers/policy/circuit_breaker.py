"""Counts the failures of one model with one credential; see `policy.health` for what follows."""

import math
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import NamedTuple

from hermes.core.errors import ProviderError, Transient
from hermes.core.model import Model, ModelEvent, ModelRequest, Reply
from hermes.core.ports import Clock
from hermes.providers.policy import ModelWrapper

# How the endpoints fare, for each credential: the circuit breaker's memory.
#
# A circuit is closed while calls go well. After `FAILURES` transient failures in a row, none of
# them older than `WINDOW` seconds, it opens for `FIRST_OPEN` seconds. When these are over it is
# half
# open: one call is let through. When that call fails too the circuit opens for twice as long, up
# to
# `LONGEST_OPEN`; a call that is answered closes it. A refusal is an answer: the endpoint lives,
# and
# other policies deal with the refusal. A call that was cancelled says nothing.
#
# An open circuit refuses nothing. It only tells that the model behind it is unwell, to those who
# have a choice:
#
# - `RotatingModel` takes another credential when there is a well one,
# - `RetryingModel` does not wait when it was told that there is another model (`patient=False`),
# - `FallbackModel` goes past an entry that is unwell, and comes back to it when all others failed.
#
# So a sick endpoint costs no time when there is something better, and nobody is locked out when
# there is nothing: the call is then simply made.

FAILURE_THRESHOLD = 5
FAILURE_WINDOW = 600.0
"""Long enough for failures that take minutes each, such as a stalled stream."""
FIRST_OPEN = 30.0
LONGEST_OPEN = 300.0
TRIAL_WAIT = 5.0
"""How long to stay away while another call tries whether it works again."""


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
        """The one of this credential at this endpoint; the same object each time."""
        key = CircuitKey(provider, base_url, credential_id)
        return self._circuits.setdefault(key, EndpointCircuit(self._clock))


class EndpointCircuit:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=FAILURE_THRESHOLD)
        self._open_seconds = 0.0
        """How long it was opened for the last time; 0 while it is closed."""
        self._until = 0.0
        self._on_trial = False

    @property
    def open_for(self) -> float:
        """Seconds to leave it alone; 0 when a call is welcome."""
        if not self._open_seconds:
            return 0.0
        left = self._until - self._clock.monotonic()
        if left > 0:
            return left
        return TRIAL_WAIT if self._on_trial else 0.0

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around each call. What it raises is counted; a success is told with `succeeded`."""
        trial = self._half_open and not self._on_trial
        self._on_trial = self._on_trial or trial
        try:
            yield
        except Transient:
            self._failed()
            raise
        except ProviderError:
            self.succeeded()
            raise
        finally:
            if trial:
                self._on_trial = False

    def succeeded(self) -> None:
        self._failures.clear()
        self._open_seconds = 0.0

    @property
    def _half_open(self) -> bool:
        return self._open_seconds > 0 and self._clock.monotonic() >= self._until

    def _failed(self) -> None:
        now = self._clock.monotonic()
        if self._half_open:
            self._open(min(self._open_seconds * 2, LONGEST_OPEN))
        elif not self._open_seconds:
            self._failures.append(now)
            if (
                len(self._failures) == FAILURE_THRESHOLD
                and now - self._failures[0] <= FAILURE_WINDOW
            ):
                self._open(FIRST_OPEN)

    def _open(self, seconds: float) -> None:
        self._failures.clear()
        self._open_seconds = seconds
        self._until = self._clock.monotonic() + seconds


class CircuitBreakerModel(ModelWrapper):
    """Tells `circuit` how each call of `inner` ended, and says when it is unwell."""

    def __init__(self, inner: Model, circuit: EndpointCircuit) -> None:
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
        return open_circuit_message(self.provider, self._circuit.open_for)


def open_circuit_message(provider: str, seconds: float) -> str:
    """Why a provider is left alone for `seconds`; empty when it is not."""
    if not seconds:
        return ""
    return f"{provider} failed several times in a row and is left alone for {math.ceil(seconds)} s"
