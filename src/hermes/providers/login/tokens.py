"""Where the tokens of a login are kept: in auth.json, or in the file of another program.

The macOS keychain is not read: there Claude Code keeps its login out of reach, and a token is
given by CLAUDE_CODE_OAUTH_TOKEN.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import httpx2
import msgspec

from hermes.config.home import tilde
from hermes.core.errors import ConfigError, CredentialRefused, ProviderError, Unreachable
from hermes.core.ports import Clock
from hermes.providers.credentials.auth_file import AuthFile
from hermes.providers.endpoints import LoginSpec
from hermes.providers.login.flows import GOOGLE_CLIENT_ID, GOOGLE_CLIENT_SECRET, GoogleClient
from hermes.providers.login.oauth import Tokens, json_object, qwen_api_url, refresh_tokens
from hermes.providers.target import OAUTH
from hermes.util import atomic

log = logging.getLogger(__name__)

LOGIN_SECTION = "providers"

CLAUDE_CODE_LOGIN = LoginSpec(
    client_id="9d1c250a-e61b-44d9-88ed-5944d1962f5e",
    device_url="",
    token_url="https://platform.claude.com/v1/oauth/token",
)
"""The client that Claude Code's tokens were given to: only it can renew them."""


class TokenStore(Protocol):
    """The tokens of one login."""

    @property
    def id(self) -> str:
        """The id of the credential."""
        ...

    @property
    def source(self) -> str:
        """Where it is, in words."""
        ...

    @property
    def lock(self) -> Path:
        """Whoever renews the tokens holds it."""
        ...

    @property
    def remedy(self) -> str:
        """What to do when the login is gone."""
        ...

    def read(self) -> Tokens | None: ...

    def replace(self, old: Tokens, new: Tokens) -> None:
        """Write `new`, unless the login is another one by now. Raises `ConfigError`."""
        ...

    def mark_gone(self, old: Tokens) -> None: ...


class StoredLogin:
    """A login of our own, in auth.json."""

    id = OAUTH

    def __init__(self, store: AuthFile, provider: str) -> None:
        self._store, self._provider = store, provider
        self.remedy = f"hermes auth add {provider} --type oauth"

    # Looked for often, and mostly not there: what only a login needs is made when it is asked for.
    @cached_property
    def source(self) -> str:
        return f"login in {tilde(self._store.path)}"

    @cached_property
    def lock(self) -> Path:
        return self._store.lock_path(self._provider)

    def read(self) -> Tokens | None:
        raw = self._store.read().get(LOGIN_SECTION, {}).get(self._provider)
        try:
            return msgspec.convert(raw, Tokens)
        except msgspec.ValidationError:
            return None

    def save(self, tokens: Tokens) -> None:
        """A new login in the place of any older one."""
        with self._store.change() as data:
            data.setdefault(LOGIN_SECTION, {})[self._provider] = msgspec.to_builtins(tokens)

    def forget(self) -> bool:
        """Whether there was one."""
        with self._store.change() as data:
            return data.get(LOGIN_SECTION, {}).pop(self._provider, None) is not None

    def replace(self, old: Tokens, new: Tokens) -> None:
        with self._store.change() as data:
            raw = data.get(LOGIN_SECTION, {}).get(self._provider)
            if raw is not None and raw.get("refresh_token", "") == old.refresh_token:
                for name in Tokens.__struct_fields__:
                    raw.pop(name, None)
                raw.update(msgspec.to_builtins(new))

    def mark_gone(self, old: Tokens) -> None:
        self.replace(old, msgspec.structs.replace(old, gone=True))


class ForeignTokenFile:
    """The login of another program, read and renewed in its own file.

    A file that cannot be read or understood is as good as none: it is not ours to complain about.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        remedy: str,
        *,
        decode: Callable[[dict[str, Any]], Tokens | None],
        encode: Callable[[dict[str, Any], Tokens], None],
    ) -> None:
        self.id, self._path, self.remedy = name, path, remedy
        self._decode, self._encode = decode, encode
        self._gone = ""
        self.source = f"login of {name} in {tilde(path)}"
        self.lock = path.with_name(f"{path.name}.hermes-lock")

    def read(self) -> Tokens | None:
        tokens = self._decode(self._raw())
        if tokens is None or not tokens.access_token:
            return None
        gone = bool(self._gone) and tokens.refresh_token == self._gone
        return msgspec.structs.replace(tokens, gone=gone)

    def replace(self, old: Tokens, new: Tokens) -> None:
        raw = self._raw()
        current = self._decode(raw)
        if current is None or current.refresh_token != old.refresh_token:
            return
        self._encode(raw, new)
        text = msgspec.json.format(msgspec.json.encode(raw), indent=2)
        try:
            atomic.write_bytes(self._path, text, mode=0o600)
        except OSError as error:
            raise ConfigError(
                f"the renewed {self.source} cannot be written: {error.strerror}",
                hint=self.remedy,
            ) from error

    def mark_gone(self, old: Tokens) -> None:
        """Only for this process: the file belongs to somebody else."""
        self._gone = old.refresh_token

    def _raw(self) -> dict[str, Any]:
        try:
            return json_object(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("%s cannot be read: %s", tilde(self._path), error.strerror)
            return {}


def claude_code_file(folder: Path, login: LoginSpec = CLAUDE_CODE_LOGIN) -> ForeignTokenFile:
    """`folder` is `~/.claude`."""

    def decode(raw: dict[str, Any]) -> Tokens | None:
        held = raw.get("claudeAiOauth")
        if not isinstance(held, dict):
            return None
        scopes = held.get("scopes")
        return Tokens(
            access_token=_text(held, "accessToken"),
            refresh_token=_text(held, "refreshToken"),
            expires_at=from_milliseconds(held.get("expiresAt")),
            scope=" ".join(map(str, scopes)) if isinstance(scopes, list) else "",
            token_url=login.token_url,
            client_id=login.client_id,
        )

    def encode(raw: dict[str, Any], tokens: Tokens) -> None:
        raw["claudeAiOauth"] |= {
            "accessToken": tokens.access_token,
            "refreshToken": tokens.refresh_token,
            "expiresAt": _in_milliseconds(tokens.expires_at),
        }

    path = folder / ".credentials.json"
    remedy = "log in again with Claude Code: run `claude`, then /login"
    return ForeignTokenFile("claude-code", path, remedy, decode=decode, encode=encode)


def qwen_code_file(folder: Path, login: LoginSpec) -> ForeignTokenFile:
    """`folder` is `~/.qwen`."""

    def decode(raw: dict[str, Any]) -> Tokens | None:
        return Tokens(
            access_token=_text(raw, "access_token"),
            refresh_token=_text(raw, "refresh_token"),
            expires_at=from_milliseconds(raw.get("expiry_date")),
            token_url=login.token_url,
            client_id=login.client_id,
            base_url=qwen_api_url(_text(raw, "resource_url")),
        )

    def encode(raw: dict[str, Any], tokens: Tokens) -> None:
        raw |= {
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token,
            "expiry_date": _in_milliseconds(tokens.expires_at),
        }

    path = folder / "oauth_creds.json"
    remedy = "log in again with Qwen Code, or here: hermes auth add qwen-oauth --type oauth"
    return ForeignTokenFile("qwen-code", path, remedy, decode=decode, encode=encode)


def _text(raw: dict[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def from_milliseconds(value: object) -> float | None:
    """A time as programs in JavaScript write it."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000


def _in_milliseconds(value: float | None) -> int | None:
    return None if value is None else round(value * 1000)


# The login of the Gemini CLI, in `~/.gemini/oauth_creds.json`.
#
# It is only read: what is renewed here is kept in memory, which Google's refresh tokens allow.
# They
# are bound to the client they were given to, so renewing needs the id and the secret of that
# client;
# without them the access token is used while it lasts, and `gemini` renews it in the file. A
# Gemini
# CLI that keeps its login in the keychain of the system leaves no file.

_GEMINI_HINT = (
    f"run `gemini` once, which renews it, or set {GOOGLE_CLIENT_ID} and {GOOGLE_CLIENT_SECRET}"
    " and log in"
)
_WRONG_CLIENT_HINT = (
    f"run `gemini` once, which renews it; {GOOGLE_CLIENT_ID} is not the client it was given to"
)


class GeminiTokenFile(ForeignTokenFile):
    def __init__(self, folder: Path, google: GoogleClient | None, lock: Path) -> None:
        """`folder` is `~/.gemini`; `lock` is a file of ours that is no other place's."""
        remedy = _WRONG_CLIENT_HINT if google else _GEMINI_HINT
        path = folder / "oauth_creds.json"
        super().__init__(
            "gemini-cli", path, remedy, decode=self._tokens_in, encode=_leave_unchanged
        )
        self.lock, self._google = lock, google
        self._renewed: Tokens | None = None

    def read(self) -> Tokens | None:
        """Whichever lasts longer: what is in the file, or what was renewed since."""
        tokens = self._decode(self._raw())
        if tokens is None or not tokens.access_token:
            return None
        renewed = self._renewed
        if renewed is not None and renewed.refresh_token == tokens.refresh_token:
            tokens = max(tokens, renewed, key=lambda one: one.expires_at or 0.0)
        # By its access token: the Gemini CLI can renew what we could not.
        return msgspec.structs.replace(tokens, gone=tokens.access_token == self._gone)

    def replace(self, old: Tokens, new: Tokens) -> None:  # noqa: ARG002 - part of the Protocol
        self._renewed = new

    def mark_gone(self, old: Tokens) -> None:
        self._gone = old.access_token

    def _tokens_in(self, raw: dict[str, Any]) -> Tokens | None:
        access, refresh, scope = (
            value if isinstance(value := raw.get(name), str) else ""
            for name in ("access_token", "refresh_token", "scope")
        )
        expires_at = from_milliseconds(raw.get("expiry_date"))
        if self._google is None:
            return Tokens(access, expires_at=expires_at, scope=scope)
        return Tokens(
            access,
            refresh,
            expires_at=expires_at,
            scope=scope,
            token_url=self._google.token_url,
            client_id=self._google.id,
            client_secret=self._google.secret,
        )


def _leave_unchanged(_raw: dict[str, Any], _tokens: Tokens) -> None:
    """The file is never written."""


# Keeping the tokens of a login fresh, once for all processes.
#
# Refresh tokens are often good for one use: two processes that renew at the same time would end
# the
# login. So whoever renews holds a lock, and reads the tokens again before it asks: the second one
# finds what the first one got.

MARGIN_SECONDS = 300.0
"""A token that expires sooner is renewed before it is used."""

LOCK_SECONDS = 60.0
POLL_SECONDS = 0.05


class TokenRefresher:
    def __init__(self, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._unsaved: dict[Path, tuple[Tokens, Tokens]] = {}
        """Old and new tokens where the new ones could not be written, by lock file."""
        self._running: set[asyncio.Task[Tokens]] = set()

    async def tokens(self, place: TokenStore, provider: str, refused: str = "") -> Tokens:
        """Tokens that can be used for some minutes; `refused` is one that was just refused.

        Raises `CredentialRefused` when the login is gone. When the login server cannot be reached
        or fails, a token that is still valid is given all the same, else its error is raised.
        """
        tokens = self._read(place, provider)
        if not self._is_due(tokens, refused):
            return tokens
        # Whoever waits may be cancelled; a renewal under way must not be: its answer would be lost
        # and the old refresh token is burnt.
        task = asyncio.create_task(self._renewed(place, provider, refused))
        self._running.add(task)
        task.add_done_callback(self._finished)
        try:
            return await asyncio.shield(task)
        except ProviderError as error:
            tokens = self._read(place, provider)
            if tokens.access_token == refused or not tokens.is_valid(self._now()):
                raise
            log.warning("%s; the present token is used while it lasts", error)
            return tokens

    async def _renewed(self, place: TokenStore, provider: str, refused: str) -> Tokens:
        async with refresh_lock(place.lock, provider):
            old = self._read(place, provider)
            if not self._is_due(old, refused):
                return old
            new = await refresh_tokens(self._client, old, provider, self._now())
            if new is None:
                return await self._without(place, provider, old)
            await self._save(place, old, new)
            return new

    async def _without(self, place: TokenStore, provider: str, old: Tokens) -> Tokens:
        """The login server says that the login is over."""
        # The program a file belongs to knows nothing of our lock: it may have been quicker.
        current = place.read()
        if current is not None and current.refresh_token != old.refresh_token:
            return current
        try:
            await asyncio.to_thread(place.mark_gone, old)
        except ConfigError as error:
            log.warning("%s", error)
        raise _login_gone(place, provider)

    async def _save(self, place: TokenStore, old: Tokens, new: Tokens) -> None:
        written = self._unsaved.pop(place.lock, (old, new))[0]
        try:
            await asyncio.to_thread(place.replace, written, new)
        except ConfigError as error:
            self._unsaved[place.lock] = (written, new)
            log.error("a renewed login works only until this process ends: %s", error)

    def _read(self, place: TokenStore, provider: str) -> Tokens:
        tokens = place.read()
        old, new = self._unsaved.get(place.lock, (None, None))
        if tokens and old and new and tokens.refresh_token == old.refresh_token:
            return new
        if tokens is None or tokens.gone:
            raise _login_gone(place, provider)
        return tokens

    def _is_due(self, tokens: Tokens, refused: str) -> bool:
        if not tokens.refresh_token:
            return False
        return tokens.access_token == refused or not tokens.is_valid(self._now(), MARGIN_SECONDS)

    def _finished(self, task: asyncio.Task[Tokens]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it was raised to whoever waited; nobody else needs it

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _login_gone(place: TokenStore, provider: str) -> CredentialRefused:
    return CredentialRefused(
        f"the login for {provider} is gone ({place.source})", provider=provider, hint=place.remedy
    )


@asynccontextmanager
async def refresh_lock(path: Path, provider: str) -> AsyncIterator[None]:
    """Holds a lock file without stopping the event loop."""
    import filelock  # slow to load, and rarely needed

    lock = filelock.FileLock(path, mode=0o600, fallback_to_soft=False)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOCK_SECONDS
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except filelock.Timeout as error:
            if loop.time() >= deadline:
                raise Unreachable(
                    f"another process has been renewing the login for {provider} for too long",
                    provider=provider,
                ) from error
            await asyncio.sleep(POLL_SECONDS)
        except OSError as error:
            raise Unreachable(
                f"the login for {provider} cannot be renewed: cannot lock {tilde(path)}:"
                f" {(error.strerror or str(error)).lower()}",
                provider=provider,
                hint="change the owner or the permissions of the folder",
            ) from error
    try:
        yield
    finally:
        lock.release()
