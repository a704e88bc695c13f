"""Asking an endpoint for its models, once for all checks that want to know."""

import asyncio
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx2
import msgspec

from hermes.app.providers import Providers
from hermes.core.errors import CredentialRefused, HermesError, ProviderError, Unreachable
from hermes.core.ports import Clock
from hermes.providers import Credential, Endpoint, Target

SECONDS = 6.0
"""Longest wait for one endpoint."""

KEY_PATHS = {"openrouter": "/key"}
"""Endpoints that list their models to anybody, and where they look at a key."""
REFUSED = (401, 403)


class Answer(msgspec.Struct, frozen=True):
    """What an endpoint said."""

    host: str
    models: tuple[str, ...] = ()
    error: HermesError | None = None
    has_list: bool = True
    """False: it has no list of models, so it was not asked."""


class Asking:
    """Every address is asked once with the same keys, however many checks want its answer."""

    def __init__(self, providers: Providers, clock: Clock) -> None:
        self._providers, self._clock = providers, clock
        self._tasks: dict[tuple[str, ...], asyncio.Task[Answer]] = {}
        self.skews: dict[str, float] = {}
        """How many seconds our clock is ahead of that of a host that answered."""
        providers.client.event_hooks["response"].append(self._heard)

    async def answer(self, target: Target) -> Answer:
        asked = (target.base_url, *(each.id for each in target.credentials))
        if asked not in self._tasks:
            self._tasks[asked] = asyncio.create_task(self._ask(target))
        return await asyncio.shield(self._tasks[asked])

    async def _ask(self, target: Target) -> Answer:
        host = urlsplit(target.base_url).netloc.rpartition("@")[2] or target.provider
        endpoint = self._providers.resolver.endpoint(target.provider)
        if not endpoint.models_path:
            return Answer(host, has_list=False)
        try:
            async with asyncio.timeout(SECONDS):
                models = await self._models(endpoint, target)
        except TimeoutError:
            late = Unreachable(f"{host} did not answer in {SECONDS:g} s", provider=endpoint.id)
            return Answer(host, error=late)
        except HermesError as error:
            return Answer(host, error=error)
        return Answer(host, models)

    async def _models(self, endpoint: Endpoint, target: Target) -> tuple[str, ...]:
        providers, credential = self._providers, None
        if target.credentials:
            credential = await providers.keyring.pool(endpoint, target.credentials).take()
        found = await providers.known.refresh(
            endpoint, target.base_url, credential, providers.client, target.region
        )
        if credential is not None and endpoint.id in KEY_PATHS:
            await self._check_key(endpoint, target, credential)
        return tuple(facts.id for facts in found)

    async def _check_key(self, endpoint: Endpoint, target: Target, credential: Credential) -> None:
        base = credential.base_url or target.base_url
        url = f"{base.rstrip('/')}{KEY_PATHS[endpoint.id]}"
        headers = {"authorization": f"Bearer {credential.secret}"}
        try:
            response = await self._providers.client.get(url, headers=headers, timeout=SECONDS)
        except httpx2.HTTPError as error:
            raise ProviderError(f"{endpoint.id} did not say whether the key is good") from error
        if response.status_code in REFUSED:
            raise CredentialRefused(
                f"{endpoint.id} refuses the key", provider=endpoint.id, status=response.status_code
            )

    async def _heard(self, response: httpx2.Response) -> None:
        """A `Date` that went through a cache tells nothing."""
        said = response.headers.get("date")
        if not said or "age" in response.headers:
            return
        try:
            there = parsedate_to_datetime(said)
        except ValueError:
            return
        if there.tzinfo is not None:
            here: datetime = self._clock.now()
            self.skews[response.url.host] = (here - there).total_seconds()
