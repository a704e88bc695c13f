"""Key rotation: when one key of a provider is used up or refused, the next one is used.

- Rate limited: one more try with the same key, then it rests for as long as the endpoint asked,
  or for an hour.
- Quota spent: it rests at once for as long as the endpoint asked, or for a day.
- Refused: its token is renewed and tried once. If that fails or there is nothing to renew, it
  rests for an hour.

The only key of a pool never rests: its error is raised, and `RetryModel` or the user waits. Apart
from these second attempts, a call tries each key at most once.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from hermes.core.errors import (
    CredentialRefused,
    CredentialsExhausted,
    ProviderError,
    QuotaSpent,
    RateLimited,
)
from hermes.core.model import EmitModelEvent, Model, ModelRequest, Reply, Retrying
from hermes.core.ports import Clock
from hermes.providers.endpoints import Credential
from hermes.providers.policy.retry import EndpointCircuit, open_circuit_message

if TYPE_CHECKING:
    from hermes.providers.credentials.pool import CredentialPool


HOUR = 3600.0
REST_SECONDS: dict[type[ProviderError], float] = {
    RateLimited: HOUR,
    QuotaSpent: 24 * HOUR,
    CredentialRefused: HOUR,
}
SHORT_REST = 60.0
"""Seconds after any other failure, such as a token that could not be renewed now."""
PAUSE = 1.0
MAX_PAUSE = 5.0
"""Longest wait in seconds before the second try with a key, since there are other keys."""


class _NextAttempt(msgspec.Struct, frozen=True):
    """What to try after a failure."""

    credential: Credential
    reason: str
    pause: float = 0.0


class _CallFailures(msgspec.Struct):
    """What failed so far during one call."""

    second_chances: set[tuple[str, type[ProviderError]]] = msgspec.field(default_factory=set)
    rested: set[str] = msgspec.field(default_factory=set)

    def first_of(self, credential: Credential, error: ProviderError) -> bool:
        """Return True the first time this kind of error happens to this credential."""
        chance = (credential.id, type(error))
        first = chance not in self.second_chances
        self.second_chances.add(chance)
        return first


class KeyRotationModel:
    """A `Model` that takes a credential from `pool` and calls the model `make` builds for it.

    `circuits` holds the circuit of each credential id; keys with an open circuit are avoided.
    """

    def __init__(
        self,
        pool: "CredentialPool",
        make: Callable[[Credential], Model],
        clock: Clock,
        *,
        name: str,
        provider: str,
        circuits: Mapping[str, EndpointCircuit] | None = None,
    ) -> None:
        self._pool, self._make, self._clock = pool, make, clock
        self._name, self._provider = name, provider
        self._circuits = circuits or {}
        self._models: dict[tuple[str, str], Model] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def provider(self) -> str:
        return self._provider

    def unavailable_reason(self) -> str:
        """Return why all keys are unavailable; empty when one is available."""
        waits = [circuit.open_for for circuit in self._circuits.values()]
        return open_circuit_message(self._provider, min(waits, default=0.0))

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        failures = _CallFailures()
        attempt = 0
        credential = await self._take()
        while True:
            attempt += 1
            key = (credential.id, credential.secret)
            if key not in self._models:
                self._models[key] = self._make(credential)
            try:
                return await self._models[key].call(request, emit)
            except (RateLimited, QuotaSpent, CredentialRefused) as error:
                step = await self._next_attempt(credential, error, failures)
            emit(Retrying(step.reason, attempt, step.pause))
            if step.pause:
                await self._clock.sleep(step.pause)
            credential = step.credential

    async def _next_attempt(
        self, credential: Credential, error: ProviderError, failures: _CallFailures
    ) -> _NextAttempt:
        """Return what to try after `error`. Raises the error when there is nothing to try."""
        alone = self._pool.size <= 1
        if isinstance(error, RateLimited) and not alone and failures.first_of(credential, error):
            wait = error.retry_after
            pause = wait if wait is not None and wait <= MAX_PAUSE else PAUSE
            return _NextAttempt(credential, f"{display_name(credential)}: {error}", pause)
        if isinstance(error, CredentialRefused) and failures.first_of(credential, error):
            try:
                renewed = await self._pool.renew(credential)
            except ProviderError as failure:
                error, renewed = failure, None
            if renewed is not None:
                return _NextAttempt(renewed, f"{display_name(credential)} is renewed: {error}")
        if alone:
            raise error
        kinds = (kind for kind in REST_SECONDS if isinstance(error, kind))
        usual = REST_SECONDS.get(next(kinds, ProviderError), SHORT_REST)
        seconds = usual if error.retry_after is None else error.retry_after
        await self._pool.rest(credential, seconds, str(error))
        failures.rested.add(credential.id)
        following = await self._take(error)
        if following.id in failures.rested:
            # The rest lasted no time at all. Pausing is the job of `RetryModel`.
            raise error
        return _NextAttempt(
            following, f"{display_name(following)} replaces {display_name(credential)}: {error}"
        )

    async def _take(self, error: ProviderError | None = None) -> Credential:
        """Take the next credential, an available one if possible; `error` is the last failure."""
        unavailable = [name for name, circuit in self._circuits.items() if circuit.open_for]
        try:
            return await self._pool.take(unavailable)
        except ProviderError as failure:
            raise _with_last_error(failure, error) from error


def display_name(credential: Credential) -> str:
    """Return a name for messages; never the secret."""
    return credential.label or credential.id


def _with_last_error(failure: ProviderError, error: ProviderError | None) -> ProviderError:
    """Add the last key's error when all keys rest."""
    if error is None or not isinstance(failure, CredentialsExhausted):
        return failure
    return CredentialsExhausted(
        f"{failure}; the last key failed with: {error}",
        provider=failure.provider or error.provider,
        hint=failure.hint or error.hint,
        retry_after=failure.retry_after,
    )
