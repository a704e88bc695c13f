"""Stores of login tokens (auth.json and files of other programs), and their renewal.

The macOS keychain is not read. Claude Code keeps its login there; set CLAUDE_CODE_OAUTH_TOKEN
instead.
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
"""The client that Claude Code's tokens were issued to; only this client can renew them."""


class TokenStore(Protocol):
    """The tokens of one login."""

    @property
    def id(self) -> str:
        """The id of the credential."""
        ...

    @property
    def source(self) -> str:
        """Location for messages."""
        ...

    @property
    def lock(self) -> Path:
        """Lock file to hold while the tokens are renewed."""
        ...

    @property
    def login_hint(self) -> str:
        """What to do when the login was revoked."""
        ...

    def read(self) -> Tokens | None: ...

    def replace(self, old: Tokens, new: Tokens) -> None:
        """Store `new`, unless the login has changed since. Raises `ConfigError`."""
        ...

    def mark_gone(self, old: Tokens) -> None: ...


class StoredLogin:
    """A login made by Hermes, in auth.json."""

    id = OAUTH

    def __init__(self, store: AuthFile, provider: str) -> None:
        self._store, self._provider = store, provider
        self.login_hint = f"hermes auth add {provider} --type oauth"

    # Computed on demand: this class is created often, mostly without a login.
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
        """Store a new login; an older one is replaced."""
        with self._store.change() as data:
            data.setdefault(LOGIN_SECTION, {})[self._provider] = msgspec.to_builtins(tokens)

    def forget(self) -> bool:
        """Remove the login; return whether there was one."""
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

    A file that is unreadable or invalid counts as missing: it belongs to the other program.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        login_hint: str,
        *,
        decode: Callable[[dict[str, Any]], Tokens | None],
        encode: Callable[[dict[str, Any], Tokens], None],
    ) -> None:
        self.id, self._path, self.login_hint = name, path, login_hint
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
                hint=self.login_hint,
            ) from error

    def mark_gone(self, old: Tokens) -> None:
        """Note it for this process only: the file belongs to another program."""
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
    """Return the store for `folder`, which is `~/.claude`."""

    def decode(raw: dict[str, Any]) -> Tokens | None:
        section = raw.get("claudeAiOauth")
        if not isinstance(section, dict):
            return None
        scopes = section.get("scopes")
        return Tokens(
            access_token=_text(section, "accessToken"),
            refresh_token=_text(section, "refreshToken"),
            expires_at=from_milliseconds(section.get("expiresAt")),
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
    login_hint = "log in again with Claude Code: run `claude`, then /login"
    return ForeignTokenFile("claude-code", path, login_hint, decode=decode, encode=encode)


def qwen_code_file(folder: Path, login: LoginSpec) -> ForeignTokenFile:
    """Return the store for `folder`, which is `~/.qwen`."""

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
    login_hint = "log in again with Qwen Code, or here: hermes auth add qwen-oauth --type oauth"
    return ForeignTokenFile("qwen-code", path, login_hint, decode=decode, encode=encode)


def _text(raw: dict[str, Any], name: str) -> str:
    value = raw.get(name)
    return value if isinstance(value, str) else ""


def from_milliseconds(value: object) -> float | None:
    """Convert a JavaScript time to seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000


def _in_milliseconds(value: float | None) -> int | None:
    return None if value is None else round(value * 1000)


# The login of the Gemini CLI, in `~/.gemini/oauth_creds.json`. The file is only read: renewed
# tokens are kept in memory, which Google's refresh tokens allow. A refresh token works only with
# the client it was issued to, so renewal needs the id and secret of that client. Without them the
# access token is used until it expires, and `gemini` renews it in the file. A Gemini CLI that uses
# the system keychain leaves no file.

_GEMINI_HINT = (
    f"run `gemini` once, which renews it, or set {GOOGLE_CLIENT_ID} and {GOOGLE_CLIENT_SECRET}"
    " and log in"
)
_WRONG_CLIENT_HINT = (
    f"run `gemini` once, which renews it; {GOOGLE_CLIENT_ID} is not the client it was given to"
)


class GeminiTokenFile(ForeignTokenFile):
    def __init__(self, folder: Path, google: GoogleClient | None, lock: Path) -> None:
        """`folder` is `~/.gemini`; `lock` is a lock file of Hermes."""
        login_hint = _WRONG_CLIENT_HINT if google else _GEMINI_HINT
        path = folder / "oauth_creds.json"
        super().__init__(
            "gemini-cli", path, login_hint, decode=self._tokens_in, encode=_leave_unchanged
        )
        self.lock, self._google = lock, google
        self._renewed: Tokens | None = None

    def read(self) -> Tokens | None:
        """Return the tokens that last longer: those in the file, or those renewed since."""
        tokens = self._decode(self._raw())
        if tokens is None or not tokens.access_token:
            return None
        renewed = self._renewed
        if renewed is not None and renewed.refresh_token == tokens.refresh_token:
            tokens = max(tokens, renewed, key=lambda one: one.expires_at or 0.0)
        # Compared by access token: the Gemini CLI may renew what Hermes could not.
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
    """Encode nothing: the file is never written."""


# Renewal, once for all processes. A refresh token often works only once, so two processes that
# renew at the same time would revoke the login. A renewal therefore holds a lock and reads the
# tokens again first: the second process finds what the first one stored.

MARGIN_SECONDS = 300.0
"""A token that expires sooner is renewed before use."""

LOCK_SECONDS = 60.0
POLL_SECONDS = 0.05


class TokenRefresher:
    def __init__(self, client: httpx2.AsyncClient, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._unsaved: dict[Path, tuple[Tokens, Tokens]] = {}
        """Old and new tokens that could not be written, by lock file."""
        self._running: set[asyncio.Task[Tokens]] = set()

    async def tokens(self, store: TokenStore, provider: str, refused: str = "") -> Tokens:
        """Return tokens that are valid for some minutes; `refused` is one that was just refused.

        Raises `CredentialRefused` when the login was revoked. When the login server is unreachable
        or fails, a token that is still valid is returned, otherwise its error is raised.
        """
        tokens = self._read(store, provider)
        if not self._needs_refresh(tokens, refused):
            return tokens
        # The waiting task may be cancelled, but not the renewal: its response would be lost, and
        # the old refresh token no longer works.
        task = asyncio.create_task(self._refresh(store, provider, refused))
        self._running.add(task)
        task.add_done_callback(self._on_done)
        try:
            return await asyncio.shield(task)
        except ProviderError as error:
            tokens = self._read(store, provider)
            if tokens.access_token == refused or not tokens.is_valid(self._now()):
                raise
            log.warning("%s; the present token is used while it lasts", error)
            return tokens

    async def _refresh(self, store: TokenStore, provider: str, refused: str) -> Tokens:
        async with refresh_lock(store.lock, provider):
            old = self._read(store, provider)
            if not self._needs_refresh(old, refused):
                return old
            new = await refresh_tokens(self._client, old, provider, self._now())
            if new is None:
                return await self._handle_revoked(store, provider, old)
            await self._save(store, old, new)
            return new

    async def _handle_revoked(self, store: TokenStore, provider: str, old: Tokens) -> Tokens:
        """Handle a revoked login: return tokens renewed elsewhere, or raise."""
        # The owner of the file does not use our lock and may have renewed first.
        current = store.read()
        if current is not None and current.refresh_token != old.refresh_token:
            return current
        try:
            await asyncio.to_thread(store.mark_gone, old)
        except ConfigError as error:
            log.warning("%s", error)
        raise _login_gone(store, provider)

    async def _save(self, store: TokenStore, old: Tokens, new: Tokens) -> None:
        written = self._unsaved.pop(store.lock, (old, new))[0]
        try:
            await asyncio.to_thread(store.replace, written, new)
        except ConfigError as error:
            self._unsaved[store.lock] = (written, new)
            log.error("a renewed login is lost when this process ends: %s", error)

    def _read(self, store: TokenStore, provider: str) -> Tokens:
        tokens = store.read()
        old, new = self._unsaved.get(store.lock, (None, None))
        if tokens and old and new and tokens.refresh_token == old.refresh_token:
            return new
        if tokens is None or tokens.gone:
            raise _login_gone(store, provider)
        return tokens

    def _needs_refresh(self, tokens: Tokens, refused: str) -> bool:
        if not tokens.refresh_token:
            return False
        return tokens.access_token == refused or not tokens.is_valid(self._now(), MARGIN_SECONDS)

    def _on_done(self, task: asyncio.Task[Tokens]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # already raised to the waiting task; avoids asyncio's warning

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _login_gone(store: TokenStore, provider: str) -> CredentialRefused:
    return CredentialRefused(
        f"the login for {provider} is gone ({store.source})",
        provider=provider,
        hint=store.login_hint,
    )


@asynccontextmanager
async def refresh_lock(path: Path, provider: str) -> AsyncIterator[None]:
    """Hold a lock file without blocking the event loop."""
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
