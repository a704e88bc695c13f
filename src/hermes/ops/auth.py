"""Keys and logins: the operations of `hermes auth`."""

import secrets
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import httpx2
import msgspec

from hermes.app import user_home
from hermes.config.environment import mask
from hermes.config.home import Home, tilde
from hermes.config.loader import Loaded
from hermes.config.settings import PoolStrategy
from hermes.core.errors import UsageError
from hermes.core.ports import Clock
from hermes.providers import (
    CUSTOM,
    MANUAL,
    OAUTH,
    OPENAI_VARIABLE,
    Endpoint,
    LoginSpec,
    credentials,
    custom_endpoint,
    endpoints,
    find_custom_provider,
    is_openai_key,
    login,
    variable_name,
)
from hermes.util.http import parse_http_url

State = Literal["ready", "resting", "expired", "gone"]
FLOWS = {"device": login.device_code_login, "codex": login.codex_login}


class CredentialRow(msgspec.Struct, frozen=True):
    index: int  #: From 1, in the order of use.
    id: str
    kind: str
    label: str
    source: str
    key: str  #: The masked secret.
    state: State
    resting_until: float | None = None
    rest_reason: str = ""
    expires_at: float | None = None
    uses: int = 0
    last_used: float | None = None


class CredentialService:
    def __init__(self, home: Home, loaded: Loaded, clock: Clock) -> None:
        self._loaded, self._clock = loaded, clock
        self._home = home
        self._store = credentials.AuthFile(home.auth_file)
        self._sources = credentials.CredentialSources(
            self._store, loaded, user_home(home), aws_profile=loaded.settings.bedrock.profile
        )

    def endpoint(self, name: str) -> Endpoint:
        """Return the provider. Raises `UsageError` with similar names."""
        wanted = name.strip()
        if custom := find_custom_provider(self._loaded.settings, wanted):
            return custom_endpoint(custom)
        found = endpoints.find_endpoint(wanted.lower())
        if found is not None:
            return found
        if wanted in credentials.stored_providers(self._store.read()):  # only its keys are left
            return Endpoint(id=wanted, label=wanted)
        raise UsageError(f"there is no provider {name!r}", hint=self._suggestion(wanted))

    def used(self) -> Iterator[Endpoint]:
        """Return all providers with credentials."""
        stored = credentials.stored_providers(self._store.read())
        customs = [custom_endpoint(one) for one in self._loaded.settings.custom_providers]
        known = [*endpoints.ENDPOINTS, *customs]
        for endpoint in known:
            # The key for a custom endpoint is OpenAI's, and listed there.
            if endpoint.id in stored or (endpoint.id != CUSTOM and self.rows(endpoint)):
                yield endpoint
        ids = {endpoint.id for endpoint in known}
        yield from (Endpoint(id=name, label=name) for name in stored if name not in ids)

    def strategy(self, endpoint: Endpoint) -> PoolStrategy:
        return self._loaded.settings.credential_pool_strategies.get(endpoint.id, "fill_first")

    def rows(self, endpoint: Endpoint) -> list[CredentialRow]:
        """Return all credentials of a provider in the order of use; unusable logins last."""
        state = credentials.PoolState(self._store, endpoint.id, lambda _: True, self._clock)
        standings = state.statuses(self._sources.credentials(endpoint))
        rows = [self._row(n, endpoint, one) for n, one in enumerate(standings, start=1)]
        for place in self._sources.token_stores(endpoint):
            tokens = place.read()
            if tokens is not None and tokens.gone:
                key, until = mask(tokens.access_token), tokens.expires_at
                facts = (len(rows) + 1, place.id, "oauth", "", place.source, key)
                rows.append(CredentialRow(*facts, "gone", expires_at=until))
        return rows

    def not_understood(self, endpoint: Endpoint) -> int:
        """Return the number of entries in an unknown format, which are kept and not used."""
        return credentials.count_invalid_entries(self._store.read(), endpoint.id)

    def add(self, endpoint: Endpoint, key: str, label: str) -> tuple[str, bool]:
        """Store a key. Returns the id of its entry, and whether it is new."""
        for one in self._sources.credentials(endpoint):
            if one.secret == key and one.variable:
                return one.id, False
        with self._store.change() as data:
            entries = credentials.entries_of(data, endpoint.id)
            for entry in entries.values():
                if entry.secret == key:
                    return entry.id, False
                if label and entry.label == label:
                    raise UsageError(
                        f"{endpoint.id} has a key with the label {label!r} already",
                        hint="choose another label",
                    )
            while (name := f"{MANUAL}:{secrets.token_hex(2)}") in entries:
                pass
            entry = credentials.KeyEntry(name, label=label, source=MANUAL, secret=key)
            credentials.put_entry(data, endpoint.id, entry)
        return name, True

    def bind(self, variable: str, base_url: str) -> str:
        """Allow the key in `variable` at the host of `base_url`; return the host.

        Raises `ConfigError` for an invalid address and `UsageError` for a key that is not set or
        belongs to OpenAI alone.
        """
        base_url = endpoints.check_base_url(base_url, "the address")
        secret = (self._loaded.secret(variable) or "").strip()
        if variable != OPENAI_VARIABLE:
            problem = f"only {OPENAI_VARIABLE} can be bound to another address"
            raise UsageError(problem, hint="hermes config set model.api_key KEY")
        if not secret:
            hint = f"hermes config set {variable} KEY"
            raise UsageError(f"the variable {variable} is not set", hint=hint)
        if is_openai_key(secret):
            raise UsageError(
                f"{variable} holds a key of OpenAI, which is only sent to OpenAI",
                hint="set the key of that address: hermes config set model.api_key KEY",
            )
        with self._store.change() as data:
            credentials.bind_key(data, variable, secret, base_url)
        parsed = parse_http_url(base_url)
        return parsed.host if parsed else base_url

    def pick(self, endpoint: Endpoint, which: str) -> CredentialRow:
        """Find a row by index, id or label. Raises `UsageError`."""
        rows = self.rows(endpoint)
        for row in rows:
            if which in (str(row.index), row.id) or (row.label and which == row.label):
                return row
        has = f"it has {len(rows)}" if rows else "it has none"
        raise UsageError(
            f"{endpoint.id} has no key {which!r}; {has}",
            hint=f"`hermes auth list {endpoint.id}` shows them with their numbers",
        )

    def check_removable(self, endpoint: Endpoint, row: CredentialRow) -> None:
        """Raise `UsageError` if a credential is stored elsewhere."""
        if name := variable_name(row.id):
            how = f"`hermes config unset {name}`" if name in self._loaded.saved else f"unset {name}"
            raise UsageError(f"this key comes from {row.source}", hint=f"to remove it: {how}")
        if self._sources.is_foreign_login(endpoint, row.id):
            raise UsageError(f"this is the {row.source}", hint="log out in that program")

    def remove(self, endpoint: Endpoint, row: CredentialRow) -> None:
        if row.id == OAUTH:
            login.StoredLogin(self._store, endpoint.id).forget()
        with self._store.change() as data:
            credentials.remove_entries(data, endpoint.id, lambda entry: entry.id == row.id)

    def reset(self, endpoint: Endpoint) -> int:
        """End all pauses and return their number."""
        with self._store.change() as data:
            entries = credentials.entries_of(data, endpoint.id).values()
            resting = [entry for entry in entries if entry.resting_until]
            for entry in resting:
                rested = msgspec.structs.replace(entry, resting_until=0.0, rest_reason="")
                credentials.put_entry(data, endpoint.id, rested)
        now = self._clock.now().timestamp()
        return sum(1 for entry in resting if entry.resting_until > now)

    def login_of(self, endpoint: Endpoint) -> LoginSpec:
        """Return the login of a provider. Raises `UsageError` if it has none."""
        spec = endpoint.login
        if spec is not None and (spec.device_url or spec.flow == "google"):
            return spec
        hint = f"add a key: hermes auth add {endpoint.id} --type api-key"
        if endpoint.id == credentials.ANTHROPIC:
            hint = "log in with Claude Code and Hermes uses its login; or " + hint
        raise UsageError(f"{endpoint.label} has no login that Hermes can use", hint=hint)

    async def log_in(
        self,
        endpoint: Endpoint,
        client: httpx2.AsyncClient,
        show: login.ShowPrompt,
        paste: login.ReadPaste | None = None,
    ) -> None:
        """Sign in. Raises a `ProviderError` on failure. `paste` is for Google's login."""
        spec = self.login_of(endpoint)
        if spec.flow == "google":
            google = login.require_google_client(self._loaded.secret, endpoint.id)
            tokens = await login.google_login(
                google, endpoint.id, client, self._clock, show, paste=paste
            )
        else:
            tokens = await FLOWS[spec.flow](spec, endpoint.id, client, self._clock, show)
        self.save_login(endpoint, tokens)

    def save_login(self, endpoint: Endpoint, tokens: login.Tokens) -> None:
        """Replace an earlier login, including its state."""
        login.StoredLogin(self._store, endpoint.id).save(tokens)
        with self._store.change() as data:
            credentials.remove_entries(data, endpoint.id, lambda entry: entry.id == OAUTH)

    def importable(self, endpoint: Endpoint) -> tuple[str, login.Tokens] | None:
        """Return the login of the Codex CLI on this machine, and its path."""
        if endpoint.login is None or endpoint.login.flow != "codex":
            return None
        named = self._loaded.secret("CODEX_HOME")
        folder = Path(named) if named else user_home(self._home) / ".codex"
        tokens = login.read_codex_cli_tokens(folder, endpoint.login)
        return (tilde(folder / "auth.json"), tokens) if tokens else None

    def _row(
        self, index: int, endpoint: Endpoint, one: credentials.CredentialStatus
    ) -> CredentialRow:
        credential, now = one.credential, self._clock.now().timestamp()
        place = self._sources.token_store_of(endpoint, credential)
        tokens = place.read() if place else None
        renewable = tokens is not None and bool(tokens.refresh_token)
        over = credential.expires_at is not None and credential.expires_at <= now
        state: State = "resting" if one.resting_until else "ready"
        return CredentialRow(
            index=index,
            id=credential.id,
            kind=credential.kind,
            label=credential.label,
            source=credential.source,
            key=mask(credential.secret),
            state="expired" if over and not renewable else state,
            resting_until=one.resting_until or None,
            rest_reason=one.rest_reason,
            expires_at=credential.expires_at,
            uses=one.uses,
            last_used=one.last_used or None,
        )

    def _suggestion(self, name: str) -> str:
        customs = [f"{CUSTOM}:{one.name}" for one in self._loaded.settings.custom_providers]
        aliases = [alias for one in endpoints.ENDPOINTS for alias in one.aliases]
        names = [*(one.id for one in endpoints.ENDPOINTS), *aliases, *customs]
        close = get_close_matches(name.lower(), names, n=3)
        if close:
            return f"did you mean {' or '.join(close)}?"
        return f"known: {', '.join(name for name in names if name not in aliases)}"
