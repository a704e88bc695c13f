"""How the endpoints fare, for each credential: the circuit breaker's memory.

A circuit is closed while calls go well. After `FAILURES` transient failures in a row, none of
them older than `WINDOW` seconds, it opens for `FIRST_OPEN` seconds. When these are over it is half
open: one call is let through. When that call fails too the circuit opens for twice as long, up to
`LONGEST_OPEN`; a call that is answered closes it. A refusal is an answer: the endpoint lives, and
other policies deal with the refusal. A call that was cancelled says nothing.

An open circuit refuses nothing. It only tells that the model behind it is unwell, to those who
have a choice:

- `RotatingModel` takes another credential when there is a well one,
- `RetryingModel` does not wait when it was told that there is another model (`patient=False`),
- `FallbackModel` goes past an entry that is unwell, and comes back to it when all others failed.

So a sick endpoint costs no time when there is something better, and nobody is locked out when
there is nothing: the call is then simply made.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from hermes.core.errors import ProviderError, Transient
from hermes.core.ports import Clock

FAILURES = 5
WINDOW = 600.0
"""Long enough for failures that take minutes each, such as a stalled stream."""
FIRST_OPEN = 30.0
LONGEST_OPEN = 300.0
TRIAL = 5.0
"""How long to stay away while another call tries whether it works again."""


class CircuitKey(NamedTuple):
    provider: str
    base_url: str
    credential_id: str = ""


class Health:
    """All circuits of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._circuits: dict[CircuitKey, Circuit] = {}

    def circuit(self, provider: str, base_url: str, credential_id: str = "") -> "Circuit":
        """The one of this credential at this endpoint; the same object each time."""
        key = CircuitKey(provider, base_url, credential_id)
        return self._circuits.setdefault(key, Circuit(self._clock))


class Circuit:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=FAILURES)
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
        return TRIAL if self._on_trial else 0.0

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
            if len(self._failures) == FAILURES and now - self._failures[0] <= WINDOW:
                self._open(FIRST_OPEN)

    def _open(self, seconds: float) -> None:
        self._failures.clear()
        self._open_seconds = seconds
        self._until = self._clock.monotonic() + seconds
