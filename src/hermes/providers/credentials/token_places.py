"""Where the tokens of a login are kept: in auth.json, or in the file of another program.

The macOS keychain is not read: there Claude Code keeps its login out of reach, and a token is
given by CLAUDE_CODE_OAUTH_TOKEN.
"""

import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hermes.config.home import tilde
from hermes.core.errors import ConfigError
from hermes.providers.credentials.auth_store import AuthStore
from hermes.providers.credentials.oauth import Tokens, api_address, fields_of
from hermes.providers.endpoint import Login
from hermes.providers.target import OAUTH
from hermes.util import atomic

log = logging.getLogger(__name__)

PROVIDERS = "providers"

CLAUDE_CODE = Login(
    client_id="9d1c250a-e61b-44d9-88ed-5944d1962f5e",
    device_url="",
    token_url="https://platform.claude.com/v1/oauth/token",
)
"""The client that Claude Code's tokens were given to: only it can renew them."""


class TokenPlace(Protocol):
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

    def __init__(self, store: AuthStore, provider: str) -> None:
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
        raw = self._store.read().get(PROVIDERS, {}).get(self._provider)
        try:
            return msgspec.convert(raw, Tokens)
        except msgspec.ValidationError:
            return None

    def save(self, tokens: Tokens) -> None:
        """A new login in the place of any older one."""
        with self._store.change() as data:
            data.setdefault(PROVIDERS, {})[self._provider] = msgspec.to_builtins(tokens)

    def forget(self) -> bool:
        """Whether there was one."""
        with self._store.change() as data:
            return data.get(PROVIDERS, {}).pop(self._provider, None) is not None

    def replace(self, old: Tokens, new: Tokens) -> None:
        with self._store.change() as data:
            raw = data.get(PROVIDERS, {}).get(self._provider)
            if raw is not None and raw.get("refresh_token", "") == old.refresh_token:
                for name in Tokens.__struct_fields__:
                    raw.pop(name, None)
                raw.update(msgspec.to_builtins(new))

    def mark_gone(self, old: Tokens) -> None:
        self.replace(old, msgspec.structs.replace(old, gone=True))


class ForeignFile:
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
            return fields_of(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("%s cannot be read: %s", tilde(self._path), error.strerror)
            return {}


def claude_code_file(folder: Path, login: Login = CLAUDE_CODE) -> ForeignFile:
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
    return ForeignFile("claude-code", path, remedy, decode=decode, encode=encode)


def qwen_code_file(folder: Path, login: Login) -> ForeignFile:
    """`folder` is `~/.qwen`."""

    def decode(raw: dict[str, Any]) -> Tokens | None:
        return Tokens(
            access_token=_text(raw, "access_token"),
            refresh_token=_text(raw, "refresh_token"),
            expires_at=from_milliseconds(raw.get("expiry_date")),
            token_url=login.token_url,
            client_id=login.client_id,
            base_url=api_address(_text(raw, "resource_url")),
        )

    def encode(raw: dict[str, Any], tokens: Tokens) -> None:
        raw |= {
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token,
            "expiry_date": _in_milliseconds(tokens.expires_at),
        }

    path = folder / "oauth_creds.json"
    remedy = "log in again with Qwen Code, or here: hermes auth add qwen-oauth --type oauth"
    return ForeignFile("qwen-code", path, remedy, decode=decode, encode=encode)


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
