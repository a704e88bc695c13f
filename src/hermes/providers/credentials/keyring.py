"""Every key of a home: found, chosen, kept fresh."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2

from hermes.config.settings.model import PoolStrategy
from hermes.core.ports import Clock
from hermes.providers.credentials.auth_store import AuthStore
from hermes.providers.credentials.google_client import PROJECT_ID
from hermes.providers.credentials.google_project import ProjectExchange
from hermes.providers.credentials.pool import CredentialPool
from hermes.providers.credentials.pool_state import PoolState
from hermes.providers.credentials.renewal import Renewal
from hermes.providers.credentials.sources import Sources, Variables
from hermes.providers.credentials.strategies import Standing
from hermes.providers.credentials.token_places import CLAUDE_CODE
from hermes.providers.endpoint import Endpoint, Login
from hermes.providers.logins import QWEN
from hermes.providers.target import Credential


class Keyring:
    """Implements `providers.ports.Keys`, and makes pools.

    One for a process: what was counted and not yet written is shared by its pools. Close it at the
    end, so that the counts are kept.
    """

    def __init__(
        self,
        store: AuthStore,
        variables: Variables,
        *,
        client: httpx2.AsyncClient,
        clock: Clock,
        user_home: Path,
        strategies: Mapping[str, PoolStrategy] | None = None,
        claude_code: Login = CLAUDE_CODE,
        qwen_code: Login = QWEN,
        aws_profile: str = "",
        rng: random.Random | None = None,
    ) -> None:
        """`client` is used for logins only; its owner closes it.

        `user_home` is where other programs keep their logins, `claude_code` and `qwen_code` say
        how those are renewed. `strategies` are by provider id; `fill_first` is the usual one.
        """
        self._store, self._variables, self._clock = store, variables, clock
        self._sources = Sources(store, variables, user_home, claude_code, qwen_code, aws_profile)
        self._strategies = dict(strategies or {})
        self._renewal, self._exchange = (
            Renewal(client, clock),
            ProjectExchange(client, clock, variables.secret(PROJECT_ID) or ""),
        )
        self._rng = rng or random.Random()
        self._states: dict[str, PoolState] = {}

    def variable(self, name: str) -> str | None:
        return self._variables.secret(name)

    def is_saved(self, name: str) -> bool:
        return bool(self._variables.saved.get(name))

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        """Everything that could be sent to the endpoint, best first (see `sources`).

        A token among them may have expired, or be one that must be exchanged: what is really sent
        is what `pool(...).take()` gives.
        """
        return self._sources.credentials(endpoint)

    def pool(self, endpoint: Endpoint, credentials: Sequence[Credential]) -> CredentialPool:
        return CredentialPool(
            endpoint,
            credentials,
            self.strategy(endpoint),
            state=self._state(endpoint),
            sources=self._sources,
            renewal=self._renewal,
            exchange=self._exchange,
            clock=self._clock,
            rng=self._rng,
        )

    def strategy(self, endpoint: Endpoint) -> PoolStrategy:
        return self._strategies.get(endpoint.id, "fill_first")

    def standings(self, endpoint: Endpoint) -> list[Standing]:
        """What is known of each credential, best first."""
        return self._state(endpoint).standings(self.credentials(endpoint))

    async def close(self) -> None:
        """Write what was only counted in memory."""
        for state in self._states.values():
            await state.flush()

    def _state(self, endpoint: Endpoint) -> PoolState:
        if endpoint.id not in self._states:
            self._states[endpoint.id] = PoolState(
                self._store, endpoint.id, self._is_set, self._clock
            )
        return self._states[endpoint.id]

    def _is_set(self, name: str) -> bool:
        return bool(self._variables.secret(name))
