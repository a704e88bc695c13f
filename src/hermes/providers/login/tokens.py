"""Tokens of providers: requests to login servers, and stores: auth.json, files of other programs.

The macOS keychain is not read. Claude Code keeps its login there; set CLAUDE_CODE_OAUTH_TOKEN
instead.
"""

import base64
import binascii
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from hermes import __version__
from hermes.config.home import tilde
from hermes.core.errors import (
    ConfigError,
    CredentialMissing,
    CredentialRefused,
    ProviderError,
    RateLimited,
    ServerFault,
    Unreachable,
)
from hermes.core.ports import Clock
from hermes.providers.credentials.auth_file import AuthFile
from hermes.providers.endpoints import OAUTH, LoginSpec
from hermes.providers.failures import unreachable
from hermes.providers.login.oauth import (
    LOCK_SECONDS,
    OAuthClient,
    TokenRefresher,
    TokenResponse,
    TokenStore,
    refresh_grant,
)
from hermes.util import files
from hermes.util.concurrency import async_file_lock
from hermes.util.http import AnyClient, HttpError, fetch, json_object

log = logging.getLogger(__name__)

REQUEST_SECONDS = 30.0  #: Longest duration of one request to a login server.

HEADERS = {"Accept": "application/json", "User-Agent": f"hermes/{__version__}"}

REVOKED_ERRORS = frozenset(
    {"invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"}
)
"""Error codes after which a login cannot be renewed any more."""

_OPENAI_CLAIMS = "https://api.openai.com/auth"


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens of a login, as they are stored."""

    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None  #: Seconds since the epoch; None when unknown or never.
    scope: str = ""
    token_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    """Google issues one to installed programs too and requires it for each refresh."""
    account_id: str = ""
    base_url: str = ""  #: Base URL that came with the login.
    gone: bool = False  #: The login server does not renew it any more. Stored under this name.

    def __repr__(self) -> str:
        return f"Tokens(expires_at={self.expires_at!r}, gone={self.gone!r})"

    def signed(self, form: dict[str, str]) -> dict[str, str]:
        """Return the form of a request to the login server."""
        return OAuthClient(self.client_id, self.client_secret).signed(form)[0]

    def is_valid(self, now: float, margin: float = 0.0) -> bool:
        return self.expires_at is None or self.expires_at > now + margin


async def post_form(
    client: AnyClient,
    url: str,
    provider: str,
    *,
    form: dict[str, str] | None = None,
    document: dict[str, str] | None = None,
) -> TokenResponse:
    """Post a form, or a JSON document.

    Raises a `Transient` error when there is no response or the server fails.
    """
    try:
        response = await fetch(
            client, "POST", url, data=form, json=document, headers=HEADERS, seconds=REQUEST_SECONDS
        )
    except HttpError as error:
        raise unreachable(provider, url, error) from error
    answer = TokenResponse(response.status, response.json_object())
    if answer.status >= 500:
        raise login_error(answer, provider, "failed")
    return answer


async def refresh_tokens(
    client: AnyClient, tokens: Tokens, provider: str, now: float
) -> Tokens | None:
    """Request new tokens; None when the login was revoked. Raises a `ProviderError` otherwise."""
    form = tokens.signed(refresh_grant(tokens.refresh_token))
    answer = await post_form(client, tokens.token_url, provider, form=form)
    if answer.ok and answer.text("access_token"):
        return parse_tokens(answer, now, before=tokens)
    if answer.error in REVOKED_ERRORS or answer.status == 401:
        return None
    raise login_error(answer, provider, "did not renew the login")


def parse_tokens(answer: TokenResponse, now: float, before: Tokens) -> Tokens:
    """Return the tokens of a response; missing fields stay as in `before`."""
    access = answer.text("access_token")
    lifetime = answer.number("expires_in")
    expires_at = now + lifetime if lifetime is not None else jwt_claims(access).get("exp")
    return msgspec.structs.replace(
        before,
        access_token=access,
        refresh_token=answer.text("refresh_token") or before.refresh_token,
        expires_at=float(expires_at) if isinstance(expires_at, int | float) else None,
        scope=answer.text("scope") or before.scope,
        account_id=chatgpt_account_id(answer.text("id_token"), access) or before.account_id,
        base_url=qwen_api_url(answer.text("resource_url")) or before.base_url,
    )


def qwen_api_url(resource: str) -> str:
    """Return the API URL on the host that a Qwen login names; empty when it names none."""
    if not resource:
        return ""
    url = resource if resource.startswith(("http://", "https://")) else f"https://{resource}"
    url = url.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def jwt_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT without verification: our own token, read only for its dates."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}


def chatgpt_account_id(*tokens: str) -> str:
    """Return the ChatGPT account that a token of OpenAI names."""
    for token in tokens:
        claim = jwt_claims(token).get(_OPENAI_CLAIMS)
        account = claim.get("chatgpt_account_id") if isinstance(claim, dict) else None
        if isinstance(account, str) and account:
            return account
    return ""


def login_error(answer: TokenResponse, provider: str, problem: str) -> ProviderError:
    """Return the error for a response that has neither tokens nor a known error."""
    code_note = f" ({answer.error})" if answer.error else ""
    message = f"the login server of {provider} {problem}: status {answer.status}{code_note}"
    if answer.status == 429:
        return RateLimited(message, provider=provider, status=answer.status)
    if answer.status >= 500 or answer.status == 200:
        return ServerFault(message, provider=provider, status=answer.status)
    return CredentialRefused(message, provider=provider, status=answer.status)


# The OAuth client of a Google login; only this client can renew it.

GOOGLE_CLIENT_ID = "HERMES_GEMINI_CLIENT_ID"
GOOGLE_CLIENT_SECRET = "HERMES_GEMINI_CLIENT_SECRET"
GOOGLE_PROJECT_ID = "HERMES_GEMINI_PROJECT_ID"

GOOGLE_SCOPES = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
    "https://www.googleapis.com/auth/userinfo.profile",
)

VariableLookup = Callable[[str], str | None]
"""Returns the value of a variable; None or empty when it is not set."""


class GoogleClient(msgspec.Struct, frozen=True):
    """A client of the type "desktop app". Google issues a secret for it and requires it."""

    client_id: str
    client_secret: str
    auth_url: str = "https://accounts.google.com/o/oauth2/v2/auth"
    token_url: str = "https://oauth2.googleapis.com/token"

    def __repr__(self) -> str:
        return f"GoogleClient({self.client_id!r})"


def google_client(variable: VariableLookup) -> GoogleClient | None:
    """Return the client that the user configured, or None."""
    held = [(variable(name) or "").strip() for name in (GOOGLE_CLIENT_ID, GOOGLE_CLIENT_SECRET)]
    return GoogleClient(*held) if all(held) else None


def blank_tokens(client: LoginSpec | GoogleClient) -> Tokens:
    """Return tokens without values for a login as `client`."""
    blank = Tokens("", token_url=client.token_url, client_id=client.client_id)
    if isinstance(client, GoogleClient):
        return msgspec.structs.replace(blank, client_secret=client.client_secret)
    return msgspec.structs.replace(blank, scope=client.scope)


def require_google_client(variable: VariableLookup, provider: str) -> GoogleClient:
    """Return the client to log in with. Raises `CredentialMissing`."""
    client = google_client(variable)
    if client is not None:
        return client
    raise CredentialMissing(
        f"logging in for {provider} needs an OAuth client of your own",
        provider=provider,
        hint=f'make one of the type "Desktop app" at console.cloud.google.com/apis/credentials and'
        f" set {GOOGLE_CLIENT_ID} and {GOOGLE_CLIENT_SECRET}; or log in with the Gemini CLI"
        " (`gemini`) and Hermes uses its login",
    )


# Stores of tokens.

LOGIN_SECTION = "providers"

CLAUDE_CODE_LOGIN = LoginSpec(
    client_id="9d1c250a-e61b-44d9-88ed-5944d1962f5e",
    device_url="",
    token_url="https://platform.claude.com/v1/oauth/token",
)
"""The client that Claude Code's tokens were issued to; only this client can renew them."""


class ProviderTokenStore:
    """Base of the stores of a provider's tokens; `id` is that of the credential."""

    def __init__(
        self, credential: str, provider: str, path: Path, login_hint: str, lock: Callable[[], Path]
    ) -> None:
        self.id, self.name, self.login_hint = credential, provider, login_hint
        self._path, self._lock = path, lock

    @property
    def source(self) -> str:
        owner = "" if self.id == OAUTH else f" of {self.id}"
        return f"login{owner} in {tilde(self._path)}"

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        path = self._lock()
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(async_file_lock(path, LOCK_SECONDS))
            except TimeoutError as error:
                raise Unreachable(
                    f"another process has been renewing the login for {self.name} for too long",
                    provider=self.name,
                ) from error
            except OSError as error:
                raise Unreachable(
                    f"the login for {self.name} cannot be renewed: cannot lock {tilde(path)}:"
                    f" {(error.strerror or str(error)).lower()}",
                    provider=self.name,
                    hint="change the owner or the permissions of the folder",
                ) from error
            yield

    def gone_error(self) -> CredentialRefused:
        return CredentialRefused(
            f"the login for {self.name} is gone ({self.source})",
            provider=self.name,
            hint=self.login_hint,
        )


class StoredLogin(ProviderTokenStore):
    """A login made by Hermes, in auth.json."""

    def __init__(self, store: AuthFile, provider: str) -> None:
        hint = f"hermes auth add {provider} --type oauth"
        super().__init__(OAUTH, provider, store.path, hint, lambda: store.lock_path(provider))
        self._store = store

    def read(self) -> Tokens | None:
        raw = self._store.read().get(LOGIN_SECTION, {}).get(self.name)
        try:
            return msgspec.convert(raw, Tokens)
        except msgspec.ValidationError:
            return None

    def save(self, tokens: Tokens) -> None:
        """Store a new login; an older one is replaced."""
        with self._store.change() as data:
            data.setdefault(LOGIN_SECTION, {})[self.name] = msgspec.to_builtins(tokens)

    def forget(self) -> bool:
        """Remove the login; return whether there was one."""
        with self._store.change() as data:
            return data.get(LOGIN_SECTION, {}).pop(self.name, None) is not None

    def replace(self, old: Tokens, new: Tokens) -> None:
        with self._store.change() as data:
            raw = data.get(LOGIN_SECTION, {}).get(self.name)
            if raw is not None and raw.get("refresh_token", "") == old.refresh_token:
                for name in Tokens.__struct_fields__:
                    raw.pop(name, None)
                raw.update(msgspec.to_builtins(new))

    def mark_gone(self, old: Tokens) -> None:
        self.replace(old, msgspec.structs.replace(old, gone=True))


class ForeignFile(msgspec.Struct, frozen=True):
    """Where another program keeps its tokens, and under which names."""

    id: str
    provider: str
    path: str
    login_hint: str
    section: str = ""
    access: str = "access_token"
    refresh: str = "refresh_token"
    expires: str = "expiry_date"  #: A time in milliseconds.


CLAUDE_CODE = ForeignFile(
    "claude-code",
    "anthropic",
    ".credentials.json",
    "log in again with Claude Code: run `claude`, then /login",
    "claudeAiOauth",
    "accessToken",
    "refreshToken",
    "expiresAt",
)
QWEN_CODE = ForeignFile(
    "qwen-code",
    "qwen-oauth",
    "oauth_creds.json",
    "log in again with Qwen Code, or here: hermes auth add qwen-oauth --type oauth",
)
GEMINI_CLI = ForeignFile(
    "gemini-cli",
    "google-gemini-cli",
    "oauth_creds.json",
    f"run `gemini` once, which renews it, or set {GOOGLE_CLIENT_ID} and {GOOGLE_CLIENT_SECRET}"
    " and log in",
)


class ForeignTokenFile(ProviderTokenStore):
    """The login of another program, read and renewed in its own file.

    A file that is unreadable or invalid counts as missing: it belongs to the other program.
    """

    def __init__(
        self,
        file: ForeignFile,
        folder: Path,
        client: LoginSpec | GoogleClient | None,
        lock: Path | None = None,
    ) -> None:
        """`client` is the one that the tokens were issued to; without it they are not renewed."""
        path = folder / file.path
        lock_path = lock or path.with_name(f"{path.name}.hermes-lock")
        super().__init__(file.id, file.provider, path, file.login_hint, lambda: lock_path)
        self._file, self._client = file, client
        self._gone = ""

    def read(self) -> Tokens | None:
        tokens = self._decode(self._raw())
        if tokens is None or not tokens.access_token:
            return None
        gone = bool(self._gone) and tokens.refresh_token == self._gone
        return msgspec.structs.replace(tokens, gone=gone)

    def replace(self, old: Tokens, new: Tokens) -> None:
        raw, file = self._raw(), self._file
        current = self._decode(raw)
        if current is None or current.refresh_token != old.refresh_token:
            return
        section = raw[file.section] if file.section else raw
        expires_at = None if new.expires_at is None else round(new.expires_at * 1000)
        section |= {
            file.access: new.access_token,
            file.refresh: new.refresh_token,
            file.expires: expires_at,
        }
        text = msgspec.json.format(msgspec.json.encode(raw), indent=2)
        try:
            files.write_bytes(self._path, text, mode=0o600)
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

    def _decode(self, raw: dict[str, Any]) -> Tokens | None:
        file, client = self._file, self._client
        section = raw.get(file.section) if file.section else raw
        if not isinstance(section, dict):
            return None
        access, refresh, scope, resource = (
            value if isinstance(value := section.get(name), str) else ""
            for name in (file.access, file.refresh, "scope", "resource_url")
        )
        expires = section.get(file.expires)
        if isinstance(expires, bool) or not isinstance(expires, int | float):
            expires = None
        return msgspec.structs.replace(
            blank_tokens(client) if client else Tokens(""),
            access_token=access,
            refresh_token=refresh if client else "",
            expires_at=None if expires is None else expires / 1000,
            scope=scope,
            base_url=qwen_api_url(resource),
        )


# The file of the Gemini CLI is only read: renewed tokens are kept in memory, which Google's refresh
# tokens allow. A refresh token works only with the client it was issued to, so renewal needs the id
# and secret of that client. Without them the access token is used until it expires, and `gemini`
# renews it in the file. A Gemini CLI that uses the system keychain leaves no file.


class GeminiTokenFile(ForeignTokenFile):
    def __init__(self, folder: Path, google: GoogleClient | None, lock: Path) -> None:
        """`folder` is `~/.gemini`; `lock` is a lock file of Hermes."""
        super().__init__(GEMINI_CLI, folder, google, lock)
        if google:
            self.login_hint = (
                f"run `gemini` once, which renews it; {GOOGLE_CLIENT_ID} is not the client it was"
                " given to"
            )
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


MARGIN_SECONDS = 300.0  #: A token that expires sooner is renewed before use.


def token_refresher(client: AnyClient, clock: Clock) -> TokenRefresher[Tokens]:
    """Return the refresher for the logins of all providers."""

    async def refresh(store: TokenStore[Tokens], tokens: Tokens, now: float) -> Tokens | None:
        return await refresh_tokens(client, tokens, store.name, now)

    return TokenRefresher(refresh, clock, MARGIN_SECONDS)
