"""Several keys of one provider: when one is used up or refused, the next takes over.

- Rate limited: once more with the same key, then it rests for as long as the endpoint asked, else
  for an hour.
- Quota spent: it rests at once, for as long as the endpoint asked, else for a day.
- Refused: its token is renewed and tried once; when that fails or there is nothing to renew, it
  rests for an hour.

The only key of a pool is never put to rest: its error goes out as it is, and `RetryingModel` or
the user waits. Each key is tried at most once in a call, these second chances aside.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Protocol

import msgspec

from hermes.core.errors import (
    CredentialRefused,
    CredentialsExhausted,
    ProviderError,
    QuotaSpent,
    RateLimited,
)
from hermes.core.model import Model, ModelEvent, ModelRequest, Retrying
from hermes.core.ports import Clock
from hermes.providers.policy.circuit_breaker import EndpointCircuit, open_circuit_message
from hermes.providers.target import Credential


class KeyPool(Protocol):
    """The credentials of one target while requests are made."""

    @property
    def size(self) -> int: ...

    async def take(self, avoid: Collection[str] = ()) -> Credential:
        """The next one by the pool's strategy, with a token that is not about to expire.

        One whose id is in `avoid` is taken only when there is no other.

        Raises `CredentialsExhausted` when all rest, and says until when.
        """
        ...

    async def renew(self, credential: Credential) -> Credential | None:
        """After a 401: the credential with a new token, or None when it has none to get."""
        ...

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        """Do not hand it out for so long. Kept over restarts."""
        ...


HOUR = 3600.0
REST_SECONDS: dict[type[ProviderError], float] = {
    RateLimited: HOUR,
    QuotaSpent: 24 * HOUR,
    CredentialRefused: HOUR,
}
SHORT_REST = 60.0
"""After any other failure, such as a token that could not be renewed just now."""
PAUSE = 1.0
MAX_PAUSE = 5.0
"""Longest wait before the second try with the same key; there are others."""


class _NextAttempt(msgspec.Struct, frozen=True):
    """What comes after a failure."""

    credential: Credential
    why: str
    pause: float = 0.0


class _CallFailures(msgspec.Struct):
    """What failed so far in one call."""

    second_chances: set[tuple[str, type[ProviderError]]] = msgspec.field(default_factory=set)
    rested: set[str] = msgspec.field(default_factory=set)

    def first_of(self, credential: Credential, error: ProviderError) -> bool:
        """True the first time this happens to this credential."""
        chance = (credential.id, type(error))
        first = chance not in self.second_chances
        self.second_chances.add(chance)
        return first


class KeyRotationModel:
    """A `Model` that asks `pool` for a credential and the model of `make` for the answer.

    `circuits` holds the circuit of each credential id: an unwell key makes room for one that is
    well.
    """

    def __init__(
        self,
        pool: KeyPool,
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

    def unwell(self) -> str:
        """Whether all its keys are."""
        waits = [circuit.open_for for circuit in self._circuits.values()]
        return open_circuit_message(self._provider, min(waits, default=0.0))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        failures = _CallFailures()
        attempt = 0
        credential = await self._take()
        while True:
            attempt += 1
            try:
                async with aclosing(self._model(credential).stream(request)) as events:
                    async for event in events:
                        yield event
                return
            except (RateLimited, QuotaSpent, CredentialRefused) as error:
                step = await self._after(credential, error, failures)
            yield Retrying(step.why, attempt, step.pause)
            if step.pause:
                await self._clock.sleep(step.pause)
            credential = step.credential

    def _model(self, credential: Credential) -> Model:
        key = (credential.id, credential.secret)
        model = self._models.get(key)
        if model is None:
            model = self._models[key] = self._make(credential)
        return model

    async def _after(
        self, credential: Credential, error: ProviderError, failures: _CallFailures
    ) -> _NextAttempt:
        """The next thing to try after `error`; raises it when there is none."""
        alone = self._pool.size <= 1
        if isinstance(error, RateLimited) and not alone and failures.first_of(credential, error):
            return _NextAttempt(credential, f"{display_name(credential)}: {error}", _pause(error))
        if isinstance(error, CredentialRefused) and failures.first_of(credential, error):
            try:
                renewed = await self._pool.renew(credential)
            except ProviderError as failure:
                error, renewed = failure, None
            if renewed is not None:
                return _NextAttempt(renewed, f"{display_name(credential)} is renewed: {error}")
        if alone:
            raise error
        await self._pool.rest(credential, _rest_seconds(error), str(error))
        failures.rested.add(credential.id)
        following = await self._take(error)
        if following.id in failures.rested:
            # It rested for no time at all; the pause is for `RetryingModel` to make.
            raise error
        return _NextAttempt(
            following, f"{display_name(following)} replaces {display_name(credential)}: {error}"
        )

    async def _take(self, error: ProviderError | None = None) -> Credential:
        """The next credential, a well one if there is one; `error` is what the last one met."""
        unwell = [name for name, circuit in self._circuits.items() if circuit.open_for]
        try:
            return await self._pool.take(unwell)
        except ProviderError as failure:
            raise _with_last_error(failure, error) from error


def display_name(credential: Credential) -> str:
    """For messages; never the secret."""
    return credential.label or credential.id


def _pause(error: ProviderError) -> float:
    asked = error.retry_after
    return asked if asked is not None and asked <= MAX_PAUSE else PAUSE


def _rest_seconds(error: ProviderError) -> float:
    if error.retry_after is not None:
        return error.retry_after
    return next(
        (seconds for kind, seconds in REST_SECONDS.items() if isinstance(error, kind)), SHORT_REST
    )


def _with_last_error(failure: ProviderError, error: ProviderError | None) -> ProviderError:
    """Why there is no further key; when all rest, with what the last one met."""
    if error is None or not isinstance(failure, CredentialsExhausted):
        return failure
    return CredentialsExhausted(
        f"{failure}; the last key failed with: {error}",
        provider=failure.provider or error.provider,
        hint=failure.hint or error.hint,
        retry_after=failure.retry_after,
    )
