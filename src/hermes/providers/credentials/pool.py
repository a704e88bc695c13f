"""The credentials of one endpoint while requests are made."""

import logging
import random
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from hermes.config.settings.model import PoolStrategy
from hermes.core.errors import (
    CredentialMissing,
    CredentialRefused,
    CredentialsExhausted,
    ProviderError,
)
from hermes.core.ports import Clock
from hermes.providers.credentials.exchange import Exchange
from hermes.providers.credentials.pool_state import PoolState
from hermes.providers.credentials.renewal import Renewal
from hermes.providers.credentials.sources import Sources, as_credential
from hermes.providers.credentials.strategies import COUNTING, STRATEGIES, Standing
from hermes.providers.endpoint import Endpoint
from hermes.providers.target import Credential
from hermes.util.text import human_duration

log = logging.getLogger(__name__)


class CredentialPool:
    """Implements `providers.ports.Pool`."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Sequence[Credential],
        strategy: PoolStrategy,
        *,
        state: PoolState,
        sources: Sources,
        renewal: Renewal,
        exchange: Exchange,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._endpoint, self._credentials, self._strategy = endpoint, tuple(credentials), strategy
        self._state, self._sources = state, sources
        self._renewal, self._exchange = renewal, exchange
        self._clock, self._rng = clock, rng

    @property
    def size(self) -> int:
        return len(self._credentials)

    async def take(self, avoid: Collection[str] = ()) -> Credential:
        """The next one by the strategy, ready to be sent; of `avoid` only for want of another.

        One that cannot be made ready (a login that is gone, say) is passed over. When none is left
        the error of the last one is raised, or `CredentialsExhausted` when all rest.
        """
        if not self._credentials:
            raise CredentialMissing(
                f"no key for {self._endpoint.label}",
                provider=self._endpoint.id,
                hint=f"hermes auth add {self._endpoint.id}",
            )
        failure: ProviderError | None = None
        passed_over: set[str] = set()
        while chosen := await self._claim(passed_over, avoid):
            try:
                return await self._ready(chosen.credential)
            except ProviderError as error:
                log.warning("%s (%s)", error, chosen.credential.source)
                failure = error
                passed_over.add(chosen.credential.id)
        raise failure or self._exhausted()

    async def renew(self, credential: Credential) -> Credential | None:
        """After a 401: the same with another token, or None when there is no other to get."""
        try:
            renewed = await self._ready(self._original(credential), refused=credential.secret)
        except ProviderError as error:
            log.warning("%s cannot be renewed: %s", credential.source, error)
            return None
        return renewed if renewed.secret != credential.secret else None

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        await self._state.rest(self._original(credential), seconds, reason)

    async def _claim(self, passed_over: set[str], avoid: Collection[str]) -> Standing | None:
        def pick(standings: Sequence[Standing]) -> Standing | None:
            healthy = [
                one
                for one in standings
                if not one.resting_until and one.credential.id not in passed_over
            ]
            wanted = [one for one in healthy if one.credential.id not in avoid] or healthy
            return STRATEGIES[self._strategy](wanted, self._rng) if wanted else None

        shared = self._strategy in COUNTING and self.size > 1
        return await self._state.claim(self._credentials, pick, shared=shared)

    async def _ready(self, credential: Credential, refused: str = "") -> Credential:
        """With a token that lasts for some minutes. Raises a `ProviderError`."""
        place = self._sources.place_of(self._endpoint, credential)
        if place is not None:
            tokens = await self._renewal.tokens(place, self._endpoint.id, refused)
            credential = as_credential(self._endpoint, place, tokens)
            if not tokens.is_valid(self._clock.now().timestamp()):
                raise CredentialRefused(
                    f"the login for {self._endpoint.id} has expired ({place.source})",
                    provider=self._endpoint.id,
                    hint=place.remedy,
                )
        elif credential.base_url:  # meant for that address, which is not the provider's own
            return credential
        return await self._exchange.short_lived(self._endpoint, credential, refused)

    def _original(self, credential: Credential) -> Credential:
        """As it was before its token was renewed or exchanged."""
        return next((one for one in self._credentials if one.id == credential.id), credential)

    def _exhausted(self) -> CredentialsExhausted:
        standings = self._state.standings(self._credentials)
        first = min(standings, key=lambda one: one.resting_until)
        wait = max(0.0, first.resting_until - self._clock.now().timestamp())
        zone = self._clock.now().tzinfo
        at = datetime.fromtimestamp(first.resting_until, UTC).astimezone(zone)
        keys = "the key" if self.size == 1 else f"all {self.size} keys"
        rests = "rests" if self.size == 1 else "rest"
        reason = f" ({first.rest_reason})" if first.rest_reason else ""
        return CredentialsExhausted(
            f"{keys} of {self._endpoint.label} {rests}{reason}; the first is free again at"
            f" {at:%Y-%m-%d %H:%M:%S}, in {human_duration(wait)}",
            provider=self._endpoint.id,
            retry_after=wait,
            hint=f"`hermes auth reset {self._endpoint.id}` uses them at once",
        )
