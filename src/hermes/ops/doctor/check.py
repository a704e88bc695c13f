"""What a check found."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from hermes.app.providers import Providers
from hermes.config.environment import variables
from hermes.config.home import Home
from hermes.config.loader import Loaded, examine
from hermes.config.settings import Settings
from hermes.core.errors import (
    ConfigError,
    CredentialRefused,
    HermesError,
    ProviderError,
    Unreachable,
)
from hermes.core.ports import Clock
from hermes.providers import Credential, Endpoint, Target

Level = Literal["ok", "warning", "problem"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "problem")

Fix = Callable[[], str]
"""Mends it without losing anything, and says what it did."""


class Finding(msgspec.Struct, frozen=True):
    level: Level
    text: str
    """What is so, in one line."""
    advice: str = ""
    """What to do about it, in one line."""
    mend: Fix | None = None
    """What `--fix` does."""


def fine(text: str) -> Finding:
    return Finding("ok", text)


def warning(text: str, advice: str, mend: Fix | None = None) -> Finding:
    return Finding("warning", text, advice, mend)


def problem(text: str, advice: str, mend: Fix | None = None) -> Finding:
    return Finding("problem", text, advice, mend)


Found = list[Finding]


class Check(NamedTuple):
    """One row of the table of checks."""

    group: str
    name: str
    look: "Callable[[DoctorContext], Found] | Callable[[DoctorContext], Awaitable[Found]]"
    """A plain function runs in a thread of its own."""
    online: bool = False
    """It asks other machines: left out with `--offline`."""
    needs_settings: bool = True
    """It cannot be made where no settings could be read at all."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one check."""

    group: str
    name: str
    found: tuple[Finding, ...]
    mended: tuple[str, ...] = ()
    """What was done about it; `found` is how it is afterwards."""
    seconds: float = 0.0

    @property
    def level(self) -> Level:
        ranks = [LEVELS.index(each.level) for each in self.found]
        return LEVELS[max(ranks, default=0)]


# Asking an endpoint for its models, once for all checks that want to know.

PROBE_TIMEOUT = 6.0
"""Longest wait for one endpoint."""

KEY_PATHS = {"openrouter": "/key"}
"""Endpoints that list their models to anybody, and where they look at a key."""
REFUSED = (401, 403)


class ProbeAnswer(msgspec.Struct, frozen=True):
    """What an endpoint said."""

    host: str
    models: tuple[str, ...] = ()
    error: HermesError | None = None
    has_list: bool = True
    """False: it has no list of models, so it was not asked."""


class ProviderProbe:
    """Every address is asked once with the same keys, however many checks want its answer."""

    def __init__(self, providers: Providers, clock: Clock) -> None:
        self._providers, self._clock = providers, clock
        self._tasks: dict[tuple[str, ...], asyncio.Task[ProbeAnswer]] = {}
        self.skews: dict[str, float] = {}
        """How many seconds our clock is ahead of that of a host that answered."""
        providers.client.event_hooks["response"].append(self._heard)

    async def answer(self, target: Target) -> ProbeAnswer:
        asked = (target.base_url, *(each.id for each in target.credentials))
        if asked not in self._tasks:
            self._tasks[asked] = asyncio.create_task(self._ask(target))
        return await asyncio.shield(self._tasks[asked])

    async def _ask(self, target: Target) -> ProbeAnswer:
        host = urlsplit(target.base_url).netloc.rpartition("@")[2] or target.provider
        endpoint = self._providers.resolver.endpoint(target.provider)
        if not endpoint.models_path:
            return ProbeAnswer(host, has_list=False)
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                models = await self._models(endpoint, target)
        except TimeoutError:
            late = Unreachable(
                f"{host} did not answer in {PROBE_TIMEOUT:g} s", provider=endpoint.id
            )
            return ProbeAnswer(host, error=late)
        except HermesError as error:
            return ProbeAnswer(host, error=error)
        return ProbeAnswer(host, models)

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
            response = await self._providers.client.get(url, headers=headers, timeout=PROBE_TIMEOUT)
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


# What the checks look at: one home, its settings, the models and the terminal.

T = TypeVar("T")


class TerminalInfo(msgspec.Struct, frozen=True):
    """The terminal the doctor was called in."""

    is_terminal: bool = False
    columns: int = 80
    encoding: str = "utf-8"
    term: str = ""
    colours: int = 0


class DoctorContext:
    """`loaded` and `providers` are None where not even defaults could be read."""

    def __init__(
        self,
        home: Home,
        loaded: Loaded | None,
        providers: Providers | None,
        clock: Clock,
        screen: TerminalInfo,
        *,
        offline: bool = False,
    ) -> None:
        self.home, self.clock, self.screen, self.offline = home, clock, screen, offline
        self.environment = dict(variables())
        """As it was at first: a memory provider is given what is in .env."""
        self._loaded, self._providers = loaded, providers
        self._asking = ProviderProbe(providers, clock) if providers else None

    @property
    def has_settings(self) -> bool:
        return self._loaded is not None

    @property
    def loaded(self) -> Loaded:
        return _require(self._loaded)

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def providers(self) -> Providers:
        return _require(self._providers)

    @property
    def asking(self) -> ProviderProbe:
        return _require(self._asking)


def best_settings(home: Home) -> Loaded | None:
    """The settings as far as they can be read: without a config.yaml that cannot be parsed, and
    None when not even that helps. Another check says what is wrong."""
    for user_config in (True, False):
        try:
            return examine(home, user_config=user_config)
        except ConfigError:
            continue
    return None


def _require(thing: T | None) -> T:
    if thing is None:
        raise ConfigError("the settings cannot be read")
    return thing
