"""The credentials of one endpoint while requests are made."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import msgspec

from hermes.config.settings.model import PoolStrategy
from hermes.core.errors import (
    ConfigError,
    CredentialMissing,
    CredentialRefused,
    CredentialsExhausted,
    ProviderError,
)
from hermes.core.ports import Clock
from hermes.providers.credentials.auth_file import (
    AuthData,
    AuthFile,
    KeyEntry,
    entries_of,
    fingerprint,
    put_entry,
    remove_entries,
)
from hermes.providers.credentials.exchange import CodeAssistExchange, TokenExchange
from hermes.providers.credentials.sources import CredentialSources, VariableSource, login_credential
from hermes.providers.endpoints import QWEN_LOGIN, Endpoint, LoginSpec
from hermes.providers.login.flows import GOOGLE_PROJECT_ID
from hermes.providers.login.tokens import CLAUDE_CODE_LOGIN, TokenRefresher
from hermes.providers.target import GIVEN, MANUAL, Credential, variable_name
from hermes.util.text import human_duration

# Which of several healthy credentials is used next.


class CredentialStatus(msgspec.Struct, frozen=True):
    """A credential and what is known of it."""

    credential: Credential
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0
    """0.0 when it does not rest."""
    rest_reason: str = ""


Strategy = Callable[[Sequence[CredentialStatus], random.Random], CredentialStatus]

STRATEGIES: dict[PoolStrategy, Strategy] = {
    "fill_first": lambda healthy, _: healthy[0],
    "round_robin": lambda healthy, _: min(healthy, key=lambda one: one.last_used),
    "least_used": lambda healthy, _: min(healthy, key=lambda one: (one.uses, one.last_used)),
    "random": lambda healthy, rng: rng.choice(healthy),
}
"""They get at least one standing, best first; of equal ones the better is taken."""

COUNTING_STRATEGIES: frozenset[PoolStrategy] = frozenset({"round_robin", "least_used"})
"""These go by earlier uses, so that the next process must know of each use."""


# Uses and rests of a provider's credentials: kept over restarts, shared by all processes.
#
# What is written when:
# - a rest is written at once;
# - a use is written at once where the choice depends on it (`round_robin` and `least_used` with
# two
#   credentials or more), and the choice is made under the same lock: processes take turns;
# - any other use is only counted in memory and goes into the file with the next write, after
#   `FLUSH_SECONDS` at the latest while requests are made, and when the keyring is closed.
# A write that fails is logged and tried again with the next one; this process knows it all the
# same.

log = logging.getLogger(__name__)

FLUSH_SECONDS = 300.0
MAX_REST = 7 * 86_400.0
MIN_USE_INTERVAL = 1e-6
"""Two uses never have the same time, so that their order is known."""

Pick = Callable[[Sequence[CredentialStatus]], CredentialStatus | None]


class PendingUsage(msgspec.Struct, frozen=True):
    """What happened to a credential since the file was written."""

    credential: Credential
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0
    rest_reason: str = ""

    def since(self, written: "PendingUsage") -> "PendingUsage | None":
        """What is left of it when `written` is in the file."""
        rests = self.resting_until > written.resting_until
        if self.uses == written.uses and not rests:
            return None
        return msgspec.structs.replace(
            self,
            uses=self.uses - written.uses,
            resting_until=self.resting_until if rests else 0.0,
        )


class PoolState:
    """Of one provider. `is_set` tells whether a variable still has a value."""

    def __init__(
        self, store: AuthFile, provider: str, is_set: Callable[[str], bool], clock: Clock
    ) -> None:
        self._store, self._provider, self._is_set, self._clock = store, provider, is_set, clock
        self._news: dict[str, PendingUsage] = {}
        self._writing = asyncio.Lock()
        self._written_at = clock.monotonic()

    def standings(self, credentials: Iterable[Credential]) -> list[CredentialStatus]:
        """What is known of each, in their order. A rest that is over is not mentioned."""
        return self._standings(self._store.read(), credentials, self._news)

    async def claim(
        self, credentials: Sequence[Credential], pick: Pick, *, shared: bool
    ) -> CredentialStatus | None:
        """The one `pick` chooses, counted as used; None when it chooses none.

        `shared` lets processes that claim at the same time see each other's uses.
        """
        if shared:
            try:
                return await self._write(lambda data: self._claimed(data, credentials, pick))
            except ConfigError as error:
                self._complain(error)
        standings = self.standings(credentials)
        chosen = pick(standings)
        if chosen is None:
            return None
        news = self._of(chosen.credential)
        changed = {"uses": news.uses + 1, "last_used": self._next_time(standings)}
        self._news[chosen.credential.id] = msgspec.structs.replace(news, **changed)
        if self._clock.monotonic() - self._written_at >= FLUSH_SECONDS:
            await self.flush()
        return chosen

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        until = self._now() + min(max(seconds, 0.0), MAX_REST)
        changed = {"resting_until": until, "rest_reason": reason}
        self._news[credential.id] = msgspec.structs.replace(self._of(credential), **changed)
        await self.flush()

    async def flush(self) -> None:
        """Put what is only in memory into the file."""
        if self._news:
            try:
                await self._write(lambda _: None)
            except ConfigError as error:
                self._complain(error)

    async def _write(
        self, then: Callable[[AuthData], CredentialStatus | None]
    ) -> CredentialStatus | None:
        """Write the news, and what `then` does to the data."""
        async with self._writing:
            news = dict(self._news)
            self._written_at = self._clock.monotonic()
            chosen = await asyncio.to_thread(self._change, news, then)
            for name, written in news.items():
                left = self._news[name].since(written)
                if left is None:
                    del self._news[name]
                else:
                    self._news[name] = left
            return chosen

    def _change(
        self, news: Mapping[str, PendingUsage], then: Callable[[AuthData], CredentialStatus | None]
    ) -> CredentialStatus | None:
        with self._store.change() as data:
            entries = entries_of(data, self._provider)
            for name, change in news.items():
                if name in entries or not name.startswith(MANUAL):  # else it was removed
                    put_entry(data, self._provider, _merge_usage(entries.get(name), change))
            self._tidy(data, news)
            return then(data)

    def _claimed(
        self, data: AuthData, credentials: Sequence[Credential], pick: Pick
    ) -> CredentialStatus | None:
        standings = self._standings(data, credentials, {})
        chosen = pick(standings)
        if chosen is not None:
            use = PendingUsage(chosen.credential, uses=1, last_used=self._next_time(standings))
            entry = entries_of(data, self._provider).get(chosen.credential.id)
            put_entry(data, self._provider, _merge_usage(entry, use))
        return chosen

    def _standings(
        self, data: AuthData, credentials: Iterable[Credential], news: Mapping[str, PendingUsage]
    ) -> list[CredentialStatus]:
        entries, now = entries_of(data, self._provider), self._now()
        found: list[CredentialStatus] = []
        for one in credentials:
            entry = _merge_usage(entries.get(one.id), news.get(one.id, PendingUsage(one)))
            rests = entry.resting_until > now
            until, reason = (entry.resting_until, entry.rest_reason) if rests else (0.0, "")
            found.append(CredentialStatus(one, entry.uses, entry.last_used, until, reason))
        return found

    def _tidy(self, data: AuthData, news: Mapping[str, PendingUsage]) -> None:
        """Forget rests that are over, and credentials that are gone; never a key added by hand."""
        now = self._now()
        for entry in entries_of(data, self._provider).values():
            if 0.0 < entry.resting_until <= now:
                rested = msgspec.structs.replace(entry, resting_until=0.0, rest_reason="")
                put_entry(data, self._provider, rested)

        def is_gone(entry: KeyEntry) -> bool:
            if variable := variable_name(entry.id):
                return not entry.secret and not self._is_set(variable)
            return entry.id == GIVEN and entry.id not in news and entry.resting_until <= now

        remove_entries(data, self._provider, is_gone)

    def _of(self, credential: Credential) -> PendingUsage:
        return self._news.get(credential.id, PendingUsage(credential))

    def _next_time(self, standings: Sequence[CredentialStatus]) -> float:
        return max(self._now(), max(one.last_used for one in standings) + MIN_USE_INTERVAL)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _complain(self, error: ConfigError) -> None:
        log.warning("the state of the keys of %s is not kept: %s", self._provider, error)


def _merge_usage(entry: KeyEntry | None, news: PendingUsage) -> KeyEntry:
    """The entry with the news in it. An entry of another value of the same name counts nothing."""
    credential = news.credential
    borrowed = credential.id == GIVEN or bool(credential.variable)
    mark = fingerprint(credential.secret) if borrowed else ""
    if entry is None or entry.fingerprint != mark:
        source = credential.id if borrowed else credential.id.partition(":")[0]
        entry = KeyEntry(credential.id, credential.kind, credential.label, source, fingerprint=mark)
    until, reason = max(
        (entry.resting_until, entry.rest_reason), (news.resting_until, news.rest_reason)
    )
    return msgspec.structs.replace(
        entry,
        uses=entry.uses + news.uses,
        last_used=max(entry.last_used, news.last_used),
        resting_until=until,
        rest_reason=reason,
    )


class CredentialPool:
    """Implements `providers.ports.Pool`."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Sequence[Credential],
        strategy: PoolStrategy,
        *,
        state: PoolState,
        sources: CredentialSources,
        renewal: TokenRefresher,
        exchange: TokenExchange,
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

    async def _claim(
        self, passed_over: set[str], avoid: Collection[str]
    ) -> CredentialStatus | None:
        def pick(standings: Sequence[CredentialStatus]) -> CredentialStatus | None:
            healthy = [
                one
                for one in standings
                if not one.resting_until and one.credential.id not in passed_over
            ]
            wanted = [one for one in healthy if one.credential.id not in avoid] or healthy
            return STRATEGIES[self._strategy](wanted, self._rng) if wanted else None

        shared = self._strategy in COUNTING_STRATEGIES and self.size > 1
        return await self._state.claim(self._credentials, pick, shared=shared)

    async def _ready(self, credential: Credential, refused: str = "") -> Credential:
        """With a token that lasts for some minutes. Raises a `ProviderError`."""
        place = self._sources.place_of(self._endpoint, credential)
        if place is not None:
            tokens = await self._renewal.tokens(place, self._endpoint.id, refused)
            credential = login_credential(self._endpoint, place, tokens)
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


# Every key of a home: found, chosen, kept fresh.


class Keyring:
    """Implements `providers.ports.Keys`, and makes pools.

    One for a process: what was counted and not yet written is shared by its pools. Close it at the
    end, so that the counts are kept.
    """

    def __init__(
        self,
        store: AuthFile,
        variables: VariableSource,
        *,
        client: httpx2.AsyncClient,
        clock: Clock,
        user_home: Path,
        strategies: Mapping[str, PoolStrategy] | None = None,
        claude_code: LoginSpec = CLAUDE_CODE_LOGIN,
        qwen_code: LoginSpec = QWEN_LOGIN,
        aws_profile: str = "",
        rng: random.Random | None = None,
    ) -> None:
        """`client` is used for logins only; its owner closes it.

        `user_home` is where other programs keep their logins, `claude_code` and `qwen_code` say
        how those are renewed. `strategies` are by provider id; `fill_first` is the usual one.
        """
        self._store, self._variables, self._clock = store, variables, clock
        self._sources = CredentialSources(
            store, variables, user_home, claude_code, qwen_code, aws_profile
        )
        self._strategies = dict(strategies or {})
        self._renewal, self._exchange = (
            TokenRefresher(client, clock),
            CodeAssistExchange(client, clock, variables.secret(GOOGLE_PROJECT_ID) or ""),
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

    def standings(self, endpoint: Endpoint) -> list[CredentialStatus]:
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
