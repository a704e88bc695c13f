"""Circuit breaker: counts the failures of each credential at each endpoint."""

import math
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import NamedTuple

from hermes.core.errors import ProviderError, Transient
from hermes.core.model import Model, ModelEvent, ModelRequest, Reply
from hermes.core.ports import Clock
from hermes.providers.policy import ModelWrapper
from hermes.util.circuit_breaker import CircuitBreaker

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

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        with self._circuit.call():
            async with aclosing(self._inner.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        self._circuit.record_success()
                    yield event

    def unavailable_reason(self) -> str:
        return open_circuit_message(self.provider, self._circuit.open_for)


def open_circuit_message(provider: str, seconds: float) -> str:
    """Return why the provider is avoided for `seconds`; empty for 0."""
    if not seconds:
        return ""
    return f"{provider} failed several times in a row and is not called for {math.ceil(seconds)} s"
