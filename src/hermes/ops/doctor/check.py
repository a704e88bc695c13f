"""The types of the checks, what they work on, and the probe of model endpoints."""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from hermes.app import Providers, main_choice
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
from hermes.util.http import HttpError, fetch

Level = Literal["ok", "warning", "problem"]
LEVELS: tuple[Level, ...] = ("ok", "warning", "problem")

Fix = Callable[[], str]  #: Fixes a problem without losing data; returns what it changed.


class DoctorFinding(msgspec.Struct, frozen=True):
    level: Level
    text: str  #: The observation, in one line.
    advice: str = ""  #: The next step, in one line.
    fix: Fix | None = None  #: The action of `--fix`.


def ok(text: str) -> DoctorFinding:
    return DoctorFinding("ok", text)


def warning(text: str, advice: str, fix: Fix | None = None) -> DoctorFinding:
    return DoctorFinding("warning", text, advice, fix)


def problem(text: str, advice: str, fix: Fix | None = None) -> DoctorFinding:
    return DoctorFinding("problem", text, advice, fix)


Findings = list[DoctorFinding]


class Check(NamedTuple):
    group: str
    name: str
    run: "Callable[[DoctorContext], Findings] | Callable[[DoctorContext], Awaitable[Findings]]"
    """A plain function runs in a thread."""
    online: bool = False  #: Uses the network: skipped with `--offline`.
    needs_settings: bool = True  #: Skipped if no settings can be read.


class Outcome(msgspec.Struct, frozen=True):
    group: str
    name: str
    found: tuple[DoctorFinding, ...]
    fixed: tuple[str, ...] = ()  #: Descriptions of the fixes; `found` is the state after them.
    seconds: float = 0.0

    @property
    def level(self) -> Level:
        ranks = [LEVELS.index(each.level) for each in self.found]
        return LEVELS[max(ranks, default=0)]


PROBE_TIMEOUT = 6.0  #: Time limit in seconds for one endpoint.
KEY_PATHS = {"openrouter": "/key"}
"""Paths that verify a key, for endpoints whose model list needs no key."""
REFUSED = (401, 403)


class ProbeAnswer(msgspec.Struct, frozen=True):
    host: str
    models: tuple[str, ...] = ()
    error: HermesError | None = None
    has_list: bool = True  #: False: the endpoint has no list of models, so it was not asked.


class ProviderProbe:
    """Asks each address for its models, once per set of keys for all checks."""

    def __init__(self, providers: Providers, clock: Clock) -> None:
        self._providers, self._clock = providers, clock
        self._tasks: dict[tuple[str, ...], asyncio.Task[ProbeAnswer]] = {}
        self.skews: dict[str, float] = {}
        """Seconds that the local clock is ahead of each host that answered."""
        providers.client().event_hooks["response"].append(self._record_clock_skew)

    async def answer(self, target: Target) -> ProbeAnswer:
        key = (target.base_url, *(each.id for each in target.credentials))
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._ask(target))
        return await asyncio.shield(self._tasks[key])

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
            response = await fetch(
                self._providers.client, "GET", url, headers=headers, seconds=PROBE_TIMEOUT
            )
        except HttpError as error:
            raise ProviderError(f"{endpoint.id} did not confirm the key") from error
        if response.status in REFUSED:
            raise CredentialRefused(
                f"{endpoint.id} refuses the key", provider=endpoint.id, status=response.status
            )

    async def _record_clock_skew(self, response: httpx2.Response) -> None:
        date = response.headers.get("date")
        # The date of a cached response is old.
        if not date or "age" in response.headers:
            return
        try:
            there = parsedate_to_datetime(date)
        except ValueError:
            return
        if there.tzinfo is not None:
            self.skews[response.url.host] = (self._clock.now() - there).total_seconds()


T = TypeVar("T")


class TerminalInfo(msgspec.Struct, frozen=True):
    is_terminal: bool = False
    columns: int = 80
    encoding: str = "utf-8"
    term: str = ""
    colours: int = 0


class DoctorContext:
    """What the checks work on. `loaded` and `providers` are None if no settings can be read."""

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
        """A copy: loading a memory provider adds the variables of .env."""
        self._loaded, self._providers = loaded, providers
        self._probe = ProviderProbe(providers, clock) if providers else None

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
    def probe(self) -> ProviderProbe:
        return _require(self._probe)

    def main_target(self) -> Target | None:
        """Return the main model; None if there is none, which the check `model` reports."""
        try:
            return self.providers.known_target(main_choice(self.loaded))
        except HermesError:
            return None


def best_settings(home: Home) -> Loaded | None:
    """Load the settings, without config.yaml if it cannot be parsed; None if that fails too."""
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
