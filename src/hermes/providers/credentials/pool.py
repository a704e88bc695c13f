"""Chooses the next credential of an endpoint and records uses and rests."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from hermes.config.settings import PoolStrategy
from hermes.core.errors import (
    ConfigError,
    CredentialMissing,
    CredentialRefused,
    CredentialsExhausted,
    ProviderError,
)
from hermes.core.ports import Clock
from hermes.providers.credentials.auth_file import (
    POOL,
    AuthData,
    AuthFile,
    KeyEntry,
    entries_of,
    fingerprint,
    is_bound,
    put_entry,
    remove_entries,
)
from hermes.providers.credentials.sources import CredentialSources, login_credential
from hermes.providers.endpoints import (
    GIVEN,
    LOGINS,
    MANUAL,
    Credential,
    Endpoint,
    LoginSpec,
    may_receive_key,
)
from hermes.providers.failures import refused as refusal_of
from hermes.providers.failures import unreachable
from hermes.providers.login.oauth import TokenRefresher, TokenResponse
from hermes.providers.login.tokens import (
    CLAUDE_CODE_LOGIN,
    GOOGLE_PROJECT_ID,
    HEADERS,
    REQUEST_SECONDS,
    Tokens,
    login_error,
    token_refresher,
)
from hermes.util.http import AnyClient, HttpError, HttpResponse, fetch
from hermes.util.text import human_duration

if TYPE_CHECKING:
    from hermes.config.loader import Loaded

# Strategies.


class CredentialStatus(msgspec.Struct, frozen=True):
    """A credential with its usage, or with the part of it that is not written yet."""

    credential: Credential
    uses: int = 0
    last_used: float = 0.0
    resting_until: float = 0.0  #: Seconds since the epoch; 0.0 when it does not rest.
    rest_reason: str = ""


Strategy = Callable[[Sequence[CredentialStatus], random.Random], CredentialStatus]

STRATEGIES: dict[PoolStrategy, Strategy] = {
    "fill_first": lambda healthy, _: healthy[0],
    "round_robin": lambda healthy, _: min(healthy, key=lambda one: one.last_used),
    "least_used": lambda healthy, _: min(healthy, key=lambda one: (one.uses, one.last_used)),
    "random": lambda healthy, rng: rng.choice(healthy),
}
"""Each gets at least one status, best first; of equal ones the first is taken."""

COUNTING_STRATEGIES: frozenset[PoolStrategy] = frozenset({"round_robin", "least_used"})
"""These depend on earlier uses, so other processes must see each use."""


# Usage of a provider's credentials, shared by all processes and kept over restarts.
# - A rest is written at once.
# - A use is written at once when the choice depends on it (`round_robin` and `least_used` with two
#   or more credentials). The choice is made under the same lock, so processes take turns.
# - Any other use is counted in memory and written with the next write, after at most
#   `FLUSH_SECONDS` while requests are made, and when the keyring is closed.
# A failed write is logged and repeated with the next one; this process keeps the counts.

log = logging.getLogger(__name__)

FLUSH_SECONDS = 300.0
MAX_REST = 7 * 86_400.0
MIN_USE_INTERVAL = 1e-6
"""Seconds. Two uses never have the same time, so that their order is known."""

Pick = Callable[[Sequence[CredentialStatus]], CredentialStatus | None]


class PoolState:
    """Usage of one provider's credentials. `is_set` returns whether a variable has a value."""

    def __init__(
        self, store: AuthFile, provider: str, is_set: Callable[[str], bool], clock: Clock
    ) -> None:
        self._store, self._provider, self._is_set, self._clock = store, provider, is_set, clock
        self._pending: dict[str, CredentialStatus] = {}
        self._writing = asyncio.Lock()
        self._written_at = clock.monotonic()

    def statuses(self, credentials: Iterable[Credential]) -> list[CredentialStatus]:
        """Return the status of each credential in order. A past rest is omitted."""
        return self._statuses(self._store.read(), credentials, self._pending)

    async def claim(
        self, credentials: Sequence[Credential], pick: Pick, *, shared: bool
    ) -> CredentialStatus | None:
        """Return the credential that `pick` chooses and count the use; None when it chooses none.

        With `shared`, processes that claim at the same time see each other's uses.
        """
        if shared:
            try:
                return await self._write(lambda data: self._claim_in_file(data, credentials, pick))
            except ConfigError as error:
                self._log_failure(error)
        statuses = self.statuses(credentials)
        chosen = pick(statuses)
        if chosen is None:
            return None
        pending = self._pending_of(chosen.credential)
        changed = {"uses": pending.uses + 1, "last_used": self._next_time(statuses)}
        self._pending[chosen.credential.id] = msgspec.structs.replace(pending, **changed)
        if self._clock.monotonic() - self._written_at >= FLUSH_SECONDS:
            await self.flush()
        return chosen

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        until = self._now() + min(max(seconds, 0.0), MAX_REST)
        changed = {"resting_until": until, "rest_reason": reason}
        self._pending[credential.id] = msgspec.structs.replace(
            self._pending_of(credential), **changed
        )
        await self.flush()

    async def flush(self) -> None:
        """Write what is only in memory."""
        if self._pending:
            try:
                await self._write(lambda _: None)
            except ConfigError as error:
                self._log_failure(error)

    async def _write(
        self, then: Callable[[AuthData], CredentialStatus | None]
    ) -> CredentialStatus | None:
        """Write pending usage and what `then` changes."""
        async with self._writing:
            pending = dict(self._pending)
            self._written_at = self._clock.monotonic()
            chosen = await asyncio.to_thread(self._change, pending, then)
            for name, written in pending.items():
                now = self._pending[name]
                rests = now.resting_until > written.resting_until
                if now.uses == written.uses and not rests:
                    del self._pending[name]
                else:
                    until = now.resting_until if rests else 0.0
                    self._pending[name] = msgspec.structs.replace(
                        now, uses=now.uses - written.uses, resting_until=until
                    )
            return chosen

    def _change(
        self,
        pending: Mapping[str, CredentialStatus],
        then: Callable[[AuthData], CredentialStatus | None],
    ) -> CredentialStatus | None:
        with self._store.change() as data:
            entries = entries_of(data, self._provider)
            for name, change in pending.items():
                if name in entries or not name.startswith(MANUAL):  # otherwise the user removed it
                    put_entry(data, self._provider, _merge_usage(entries.get(name), change))
            self._remove_stale(data, pending)
            return then(data)

    def _claim_in_file(
        self, data: AuthData, credentials: Sequence[Credential], pick: Pick
    ) -> CredentialStatus | None:
        statuses = self._statuses(data, credentials, {})
        chosen = pick(statuses)
        if chosen is not None:
            use = CredentialStatus(chosen.credential, uses=1, last_used=self._next_time(statuses))
            entry = entries_of(data, self._provider).get(chosen.credential.id)
            put_entry(data, self._provider, _merge_usage(entry, use))
        return chosen

    def _statuses(
        self,
        data: AuthData,
        credentials: Iterable[Credential],
        pending: Mapping[str, CredentialStatus],
    ) -> list[CredentialStatus]:
        entries, now = entries_of(data, self._provider), self._now()
        found: list[CredentialStatus] = []
        for one in credentials:
            entry = _merge_usage(entries.get(one.id), pending.get(one.id, CredentialStatus(one)))
            rests = entry.resting_until > now
            until, reason = (entry.resting_until, entry.rest_reason) if rests else (0.0, "")
            found.append(CredentialStatus(one, entry.uses, entry.last_used, until, reason))
        return found

    def _remove_stale(self, data: AuthData, pending: Mapping[str, CredentialStatus]) -> None:
        """Remove past rests and vanished credentials; never a key added by the user."""
        now = self._now()
        for entry in entries_of(data, self._provider).values():
            if 0.0 < entry.resting_until <= now:
                rested = msgspec.structs.replace(entry, resting_until=0.0, rest_reason="")
                put_entry(data, self._provider, rested)

        def is_gone(entry: KeyEntry) -> bool:
            if entry.variable:
                return not self._is_set(entry.variable)
            return entry.id == GIVEN and entry.id not in pending and entry.resting_until <= now

        remove_entries(data, self._provider, is_gone)

    def _pending_of(self, credential: Credential) -> CredentialStatus:
        return self._pending.get(credential.id, CredentialStatus(credential))

    def _next_time(self, statuses: Sequence[CredentialStatus]) -> float:
        return max(self._now(), max(one.last_used for one in statuses) + MIN_USE_INTERVAL)

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _log_failure(self, error: ConfigError) -> None:
        log.warning("the usage of the keys of %s could not be stored: %s", self._provider, error)


def _merge_usage(entry: KeyEntry | None, pending: CredentialStatus) -> KeyEntry:
    """Add usage to the entry. The history of another value under the same name is dropped."""
    credential = pending.credential
    borrowed = credential.id == GIVEN or bool(credential.variable)
    mark = fingerprint(credential.secret) if borrowed else ""
    if entry is None or entry.fingerprint != mark:
        source = credential.id if borrowed else credential.id.partition(":")[0]
        entry = KeyEntry(credential.id, credential.kind, credential.label, source, fingerprint=mark)
    until, reason = max(
        (entry.resting_until, entry.rest_reason), (pending.resting_until, pending.rest_reason)
    )
    return msgspec.structs.replace(
        entry,
        uses=entry.uses + pending.uses,
        last_used=max(entry.last_used, pending.last_used),
        resting_until=until,
        rest_reason=reason,
    )


# Tokens that are exchanged before use: GitHub's for a short-lived one of Copilot, which is kept in
# memory only. Nous has a similar exchange (an agent key), but it is not documented and therefore
# not implemented.
#
# A login for Code Assist gets the project that is charged. The user names it, or it is requested
# with the token and kept in memory. It is passed in the base URL of the credential as
# `?project=ID`, and the dialect moves it into the body. An account without a project must be set up
# with the Gemini CLI.

EXCHANGE_MARGIN = 120.0
"""A token that expires sooner is exchanged again. Tokens live for about half an hour."""

_NO_ACCESS = (401, 403, 404)


METADATA = {
    "ideType": "IDE_UNSPECIFIED",
    "platform": "PLATFORM_UNSPECIFIED",
    "pluginType": "GEMINI",
}
MAX_REASON = 300


class Quota(msgspec.Struct, frozen=True):
    """What is left of a limit of Code Assist."""

    model: str
    left: float  #: Between 0 and 1.
    resets: str  #: ISO timestamp.


class TokenExchange:
    def __init__(self, client: AnyClient, clock: Clock, project: str = "") -> None:
        """`project` is that of Code Assist, if the user names one; else that of the login."""
        self._client, self._clock = client, clock
        self._cache: dict[tuple[str, str], Credential] = {}
        """Exchanged credentials by endpoint and long-lived secret."""
        self._configured_project = project.strip()
        self._projects: dict[str, tuple[str, str]] = {}  #: Token and project by credential id.

    async def exchange(
        self, endpoint: Endpoint, credential: Credential, refused: str = ""
    ) -> Credential:
        """Return the credential with the token to send; unchanged where there is no exchange.

        `refused` is a token that was just refused. Raises a `ProviderError`.
        """
        if endpoint.api_mode == "code_assist":
            project = self._configured_project or await self._project(endpoint, credential)
            address = f"{endpoint.base_url}?{urlencode({'project': project})}"
            return msgspec.structs.replace(credential, base_url=address)
        if endpoint.login is None or not endpoint.login.exchange_url:
            return credential
        key = (endpoint.id, credential.secret)
        cached = self._cache.get(key)
        soon = self._clock.now().timestamp() + EXCHANGE_MARGIN
        expires_at = cached.expires_at if cached is not None else 0.0
        is_over = expires_at is not None and expires_at <= soon
        if cached is None or cached.secret == refused or is_over:
            cached = await self._fetch_token(endpoint, endpoint.login.exchange_url, credential)
            self._cache[key] = cached
        return cached

    async def _fetch_token(
        self, endpoint: Endpoint, url: str, credential: Credential
    ) -> Credential:
        response = await self._request(endpoint, "GET", url, f"token {credential.secret}")
        answer = TokenResponse(response.status, response.json_object())
        if answer.status in _NO_ACCESS:
            raise CredentialRefused(
                f"{endpoint.label} gives no access for {credential.source}",
                provider=endpoint.id,
                status=answer.status,
                hint=f"check the account's plan, or log in: hermes auth add {endpoint.id}"
                " --type oauth",
            )
        if not answer.ok or not answer.text("token"):
            raise login_error(answer, endpoint.id, "gave no short-lived token")
        endpoints = answer.fields.get("endpoints")
        address = endpoints.get("api") if isinstance(endpoints, dict) else None
        own = isinstance(address, str) and may_receive_key(endpoint, address)
        return msgspec.structs.replace(
            credential,
            secret=answer.text("token"),
            kind="oauth",
            expires_at=answer.number("expires_at"),
            base_url=address if own else "",
        )

    async def _project(self, endpoint: Endpoint, credential: Credential) -> str:
        """Return the project that Code Assist charges for this login."""
        token, project = self._projects.get(credential.id, ("", ""))
        if token == credential.secret:
            return project
        token, url = credential.secret, f"{endpoint.base_url}:loadCodeAssist"
        body = {"metadata": METADATA}
        response = await self._request(endpoint, "POST", url, f"Bearer {token}", body)
        if response.status >= 300:
            raise refusal_of(
                endpoint.id, response.status, response.headers, response.body, secret=token
            )
        answer = response.json_object()
        held = answer.get("cloudaicompanionProject")  # the id, or an object with it
        found = held.get("id") if isinstance(held, dict) else held
        if not found or not isinstance(found, str):
            raise _no_project_error(endpoint, credential, answer)
        self._projects[credential.id] = (token, found)
        return found

    async def quota(self, endpoint: Endpoint, credential: Credential) -> tuple[Quota, ...]:
        """Return what Code Assist leaves to this login, by model. Raises a `ProviderError`."""
        project = parse_qs(urlsplit(credential.base_url).query).get("project", [""])[0]
        url, token = f"{endpoint.base_url}:retrieveUserQuota", credential.secret
        response = await self._request(
            endpoint, "POST", url, f"Bearer {token}", {"project": project}
        )
        if response.status >= 300:
            raise refusal_of(
                endpoint.id, response.status, response.headers, response.body, secret=token
            )
        buckets = response.json_object().get("buckets")
        return tuple(
            Quota(str(each.get("modelId") or ""), float(share), str(each.get("resetTime") or ""))
            for each in (buckets if isinstance(buckets, list) else ())
            if isinstance(each, dict)
            and isinstance(share := each.get("remainingFraction"), int | float)
        )

    async def _request(
        self, endpoint: Endpoint, method: str, url: str, authorization: str, body: Any = None
    ) -> HttpResponse:
        headers = {**HEADERS, **endpoint.headers, "Authorization": authorization}
        try:
            return await fetch(
                self._client, method, url, headers=headers, json=body, seconds=REQUEST_SECONDS
            )
        except HttpError as error:
            raise unreachable(endpoint.id, url, error) from error


def _no_project_error(
    endpoint: Endpoint, credential: Credential, answer: dict[str, Any]
) -> CredentialRefused:
    tiers = answer.get("ineligibleTiers")
    reasons = [
        str(tier.get("reasonMessage") or "")
        for tier in (tiers if isinstance(tiers, list) else ())
        if isinstance(tier, dict)
    ]
    reason = "".join([c if c.isprintable() else " " for c in "".join(reasons[:1])])
    because = f": {' '.join(reason.split())[:MAX_REASON]}" if reason.strip() else ""
    return CredentialRefused(
        f"Google reports no project for the {credential.source or endpoint.label}{because}",
        provider=endpoint.id,
        hint=f"run `gemini` once, which sets the account up, or set {GOOGLE_PROJECT_ID}",
    )


class CredentialPool:
    """The credentials of one endpoint, which `policy.KeyRotationModel` takes one by one."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Sequence[Credential],
        strategy: PoolStrategy,
        *,
        state: PoolState,
        sources: CredentialSources,
        refresher: Callable[[], TokenRefresher[Tokens]],
        exchange: Callable[[], TokenExchange],
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._endpoint, self._credentials, self._strategy = endpoint, tuple(credentials), strategy
        self._state, self._sources = state, sources
        self._refresher, self._exchange = refresher, exchange
        self._clock, self._rng = clock, rng

    @property
    def size(self) -> int:
        return len(self._credentials)

    async def take(self, avoid: Collection[str] = ()) -> Credential:
        """Return the next credential by the strategy, ready to send.

        One in `avoid` is taken only when there is no other. One that cannot be prepared, such as a
        revoked login, is skipped. Raises the error of the last skipped one, or
        `CredentialsExhausted` when all rest.
        """
        if not self._credentials:
            raise CredentialMissing(
                f"no key for {self._endpoint.label}",
                provider=self._endpoint.id,
                hint=f"hermes auth add {self._endpoint.id}",
            )
        failure: ProviderError | None = None
        skipped: set[str] = set()
        while chosen := await self._claim(skipped, avoid):
            try:
                return await self._prepare(chosen.credential)
            except ProviderError as error:
                log.warning("%s (%s)", error, chosen.credential.source)
                failure = error
                skipped.add(chosen.credential.id)
        raise failure or self._exhausted()

    async def quota(self) -> tuple[Quota, ...]:
        """Return what the provider leaves to the login; only Code Assist reports it."""
        return await self._exchange().quota(self._endpoint, await self.take())

    async def renew(self, credential: Credential) -> Credential | None:
        """After a 401, return the credential with another token; None when there is none."""
        try:
            renewed = await self._prepare(self._original(credential), refused=credential.secret)
        except ProviderError as error:
            log.warning("%s cannot be renewed: %s", credential.source, error)
            return None
        return renewed if renewed.secret != credential.secret else None

    async def rest(self, credential: Credential, seconds: float, reason: str) -> None:
        """Do not hand out the credential for `seconds`. The rest survives restarts."""
        await self._state.rest(self._original(credential), seconds, reason)

    async def _claim(self, skipped: set[str], avoid: Collection[str]) -> CredentialStatus | None:
        def pick(statuses: Sequence[CredentialStatus]) -> CredentialStatus | None:
            healthy = [
                one
                for one in statuses
                if not one.resting_until and one.credential.id not in skipped
            ]
            wanted = [one for one in healthy if one.credential.id not in avoid] or healthy
            return STRATEGIES[self._strategy](wanted, self._rng) if wanted else None

        shared = self._strategy in COUNTING_STRATEGIES and self.size > 1
        return await self._state.claim(self._credentials, pick, shared=shared)

    async def _prepare(self, credential: Credential, refused: str = "") -> Credential:
        """Return the credential with a token that lasts some minutes. Raises a `ProviderError`."""
        token_store = self._sources.token_store_of(self._endpoint, credential)
        if token_store is not None:
            tokens = await self._refresher().tokens(token_store, refused)
            credential = login_credential(self._endpoint, token_store, tokens)
            if not tokens.is_valid(self._clock.now().timestamp()):
                raise CredentialRefused(
                    f"the login for {self._endpoint.id} has expired ({token_store.source})",
                    provider=self._endpoint.id,
                    hint=token_store.login_hint,
                )
        elif credential.base_url:  # it belongs to that URL, which is not the provider's own
            return credential
        return await self._exchange().exchange(self._endpoint, credential, refused)

    def _original(self, credential: Credential) -> Credential:
        """Return the credential as it was before its token was renewed or exchanged."""
        return next((one for one in self._credentials if one.id == credential.id), credential)

    def _exhausted(self) -> CredentialsExhausted:
        statuses = self._state.statuses(self._credentials)
        first = min(statuses, key=lambda one: one.resting_until)
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
            hint=f"to use them now: hermes auth reset {self._endpoint.id}",
        )


class Keyring:
    """All credentials of a home; makes the pools.

    Use one per process: its pools share counts that are not written yet. `close` writes them.
    """

    def __init__(
        self,
        store: AuthFile,
        variables: "Loaded",
        *,
        client: AnyClient,
        clock: Clock,
        user_home: Path,
        strategies: Mapping[str, PoolStrategy] | None = None,
        claude_code: LoginSpec = CLAUDE_CODE_LOGIN,
        qwen_code: LoginSpec = LOGINS["qwen-oauth"],
        aws_profile: str = "",
        rng: random.Random | None = None,
    ) -> None:
        """`client` is used for logins only; its owner closes it.

        Other programs store their logins in `user_home`; `claude_code` and `qwen_code` describe how
        those are renewed. `strategies` are by provider id, `fill_first` by default.
        """
        self._store, self._variables, self._clock = store, variables, clock
        self._sources = CredentialSources(
            store, variables, user_home, claude_code, qwen_code, aws_profile
        )
        self._strategies = dict(strategies or {})
        # Made when they are first needed: most keys are sent as they are.
        self._refresher = cache(partial(token_refresher, client, clock))
        project = variables.secret(GOOGLE_PROJECT_ID) or ""
        self._exchange = cache(partial(TokenExchange, client, clock, project))
        self._rng = rng or random.Random()
        self._states: dict[str, PoolState] = {}

    def variable(self, name: str) -> str | None:
        return self._variables.secret(name)

    def is_saved(self, name: str) -> bool:
        return bool(self._variables.saved.get(name))

    def is_bound(self, variable: str, secret: str, base_url: str) -> bool:
        """Return whether the user allowed this key at the host of `base_url`."""
        return is_bound(self._store.read(), variable, secret, base_url)

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        """Return everything that could be sent to the endpoint, best first (see `sources`).

        A token may have expired or need an exchange; `pool(...).take()` returns what to send.
        """
        self._remove_vanished()
        return self._sources.credentials(endpoint)

    def _remove_vanished(self) -> None:
        """Remove stored credentials whose environment variable does not exist any more."""

        def is_gone(entry: KeyEntry) -> bool:
            return bool(entry.variable) and not self.variable(entry.variable)

        held = self._store.read()
        providers = [*held.get(POOL, {})]
        if not any(is_gone(each) for name in providers for each in entries_of(held, name).values()):
            return
        try:
            with self._store.change() as data:
                for name in providers:
                    remove_entries(data, name, is_gone)
        except ConfigError as error:
            log.warning("credentials of unset variables stay in auth.json: %s", error)

    def pool(self, endpoint: Endpoint, credentials: Sequence[Credential]) -> CredentialPool:
        return CredentialPool(
            endpoint,
            credentials,
            self.strategy(endpoint),
            state=self._state(endpoint),
            sources=self._sources,
            refresher=self._refresher,
            exchange=self._exchange,
            clock=self._clock,
            rng=self._rng,
        )

    def strategy(self, endpoint: Endpoint) -> PoolStrategy:
        return self._strategies.get(endpoint.id, "fill_first")

    def statuses(self, endpoint: Endpoint) -> list[CredentialStatus]:
        """Return the status of each credential, best first."""
        return self._state(endpoint).statuses(self.credentials(endpoint))

    async def close(self) -> None:
        """Write counts that are only in memory."""
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
