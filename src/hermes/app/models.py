"""From a resolved target to a model that answers, in the policies around it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx2
import msgspec

from hermes.app.local_model import EmbeddedModel, LocalModel
from hermes.core.errors import Unreachable
from hermes.core.model import Model
from hermes.core.ports import Clock
from hermes.providers import (
    LOCAL,
    SMALL,
    Credential,
    ModelChoice,
    Resolver,
    SmallModel,
    Target,
    WireModel,
)
from hermes.providers.credentials import Keyring
from hermes.providers.policy import (
    RETRYABLE_ERRORS,
    Budget,
    CircuitBreakerModel,
    EndpointCircuit,
    EndpointHealth,
    FallbackModel,
    KeyRotationModel,
    MeteredModel,
    ModelFactory,
    RequestRepairModel,
    RetryModel,
)

if TYPE_CHECKING:
    from hermes.providers.acp import AgentPool


class ModelMaker:
    """Makes models for one process; what it holds is shared by all of them."""

    def __init__(
        self,
        resolver: Resolver,
        keyring: Keyring,
        client: httpx2.AsyncClient,
        clock: Clock,
        local: LocalModel,
    ) -> None:
        self._resolver, self._keyring, self._client = resolver, keyring, client
        self._clock, self._local = clock, local
        self._health = EndpointHealth(clock)
        self._plain: set[tuple[str, str]] = set()
        """Models that were found to refuse options."""
        self._agents: AgentPool | None = None

    def chain(self, links: Sequence[Target | ModelChoice], purse: Budget) -> Model:
        """The first of `links` that works; for one turn or one piece of work.

        A choice is resolved when its turn comes; one that cannot be is passed over.
        """
        alone = len(links) == 1

        def entry(link: Target | ModelChoice) -> ModelFactory:
            return lambda: self.model(self._resolved(link), purse, patient=alone)

        return FallbackModel([entry(link) for link in links])

    def _resolved(self, link: Target | ModelChoice) -> Target:
        return link if isinstance(link, Target) else self._resolver.resolve(link)

    def model(self, target: Target, purse: Budget, *, patient: bool = True) -> Model:
        """One target with its keys. Not `patient`: there is another one to turn to."""
        if target.credentials:
            inner: Model = self._rotating(target, purse)
        else:
            inner = self._watched(target, None, purse)
        # What may have reached an agent is not asked for again: it would act twice.
        again = (Unreachable,) if target.profile.is_agent else RETRYABLE_ERRORS
        return RetryModel(inner, self._clock, patient=patient, retry_on=again)

    def _rotating(self, target: Target, purse: Budget) -> Model:
        endpoint = self._resolver.endpoint(target.key_owner or target.provider)
        return KeyRotationModel(
            self._keyring.pool(endpoint, target.credentials),
            lambda credential: self._watched(target, credential, purse),
            self._clock,
            name=target.model,
            provider=target.provider,
            circuits={c.id: self._circuit(target, c) for c in target.credentials},
        )

    def _watched(self, target: Target, credential: Credential | None, purse: Budget) -> Model:
        wire = self._wire(target, credential)
        metered = MeteredModel(RequestRepairModel(wire, self._plain), purse, target.profile)
        return CircuitBreakerModel(metered, self._circuit(target, credential))

    def _wire(self, target: Target, credential: Credential | None) -> Model:
        if target.provider == LOCAL:
            wire: Model = EmbeddedModel(self._local, target)
            target = self._local.known(target)
        elif target.api_mode == "acp":
            wire = self._program(target)
        else:
            wire = WireModel(target, self._client, credential)
        if not target.profile.small:
            return wire
        context = target.profile.context_length
        return SmallModel(wire, msgspec.structs.replace(SMALL, context=context))

    def _program(self, target: Target) -> Model:
        """An agent on this machine. What drives it is loaded by those who use one."""
        from hermes.providers.acp import AcpModel, AgentPool, agent_command  # few use an agent

        if self._agents is None:
            self._agents = AgentPool(agent_command(self._keyring.variable))
        return AcpModel(target, self._agents)

    async def close(self) -> None:
        """End the programs that were started."""
        if self._agents is not None:
            await self._agents.close()

    def _circuit(self, target: Target, credential: Credential | None) -> EndpointCircuit:
        name = credential.id if credential else ""
        return self._health.circuit(target.provider, target.base_url, name)
