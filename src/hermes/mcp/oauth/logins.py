"""Stored logins, one private file per server in `<home>/mcp-tokens`, and requests with them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.ports import Clock
from hermes.mcp.catalog import server_file
from hermes.mcp.errors import LoginFailed, LoginRequired, ServerUnreachable
from hermes.mcp.oauth.addresses import join_scopes, may_carry_tokens, parse_bearer_challenge
from hermes.providers.login import OAuthClient, TokenRefresher, TokenStore
from hermes.providers.login.oauth import LOCK_SECONDS
from hermes.util import files
from hermes.util.concurrency import SystemClock, async_file_lock


class McpLogin(msgspec.Struct, frozen=True, omit_defaults=True):
    url: str  #: Address of the server; tokens are sent only there.
    issuer: str
    resource: str
    token_endpoint: str
    client: OAuthClient
    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None  #: Seconds since the epoch; None if unknown or never.
    obtained_at: float = 0.0
    scope: str = ""  #: Granted scope.
    wanted: str = ""  #: Scope for the next login, after the server demanded more.
    revocation_endpoint: str = ""
    gone: bool = False  #: True when the login server does not renew it any more.

    def __repr__(self) -> str:
        return f"Login({self.url!r}, expires_at={self.expires_at!r}, gone={self.gone!r})"

    def is_valid(self, now: float, margin: float = 0.0) -> bool:
        return not self.gone and (self.expires_at is None or self.expires_at > now + margin)

    def is_usable(self, now: float) -> bool:
        """Return whether the login is valid or can be renewed."""
        return not self.gone and (self.is_valid(now) or bool(self.refresh_token))


class LoginStore:
    """The login of one server. Reading needs no lock, because the file is replaced atomically.

    `read` raises `LoginRequired` unless the login is for `url`.
    """

    def __init__(self, folder: Path, name: str, url: str = "") -> None:
        self._folder, self.name, self.url = folder, name, url
        self.source = f"login of {name}"
        self.path = server_file(folder, name, ".json")
        self._lock = self.path.with_name(f".{self.path.stem}.lock")

    def load(self) -> McpLogin | None:
        """Return the login or None. Raises `ConfigError`, or `LoginRequired` for a damaged file."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=McpLogin)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unusable(self.path, error) from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise LoginRequired(self.name, f"{tilde(self.path)} is damaged") from None

    def save(self, login: McpLogin) -> None:
        """Write the login. Raises `ConfigError`."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            data = msgspec.json.format(msgspec.json.encode(login), indent=2)
            files.write_bytes(self.path, data, mode=0o600)
        except OSError as error:
            raise unusable(self.path, error) from error

    def remove(self) -> bool:
        """Delete the login. Return False if there was none."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unusable(self.path, error) from error
        return True

    def read(self) -> McpLogin:
        """Return the login for `url`. Raises `LoginRequired`, `LoginFailed` or `ConfigError`."""
        if not may_carry_tokens(self.url):
            raise LoginFailed(
                "its url is not protected by TLS, so no token is sent there",
                hint="begin `url` with https://; only a server on this machine may do without",
            )
        login = self.load()
        if login is None:
            raise LoginRequired(self.name, "no user has signed in to it yet")
        if login.url != self.url:
            raise LoginRequired(self.name, "the login is for another address than its `url`")
        return login

    def replace(self, old: McpLogin, new: McpLogin) -> None:  # noqa: ARG002 - part of TokenStore
        self.save(new)

    def mark_gone(self, old: McpLogin) -> None:
        self.save(msgspec.structs.replace(old, gone=True, refresh_token=""))

    def gone_error(self) -> LoginRequired:
        return LoginRequired(self.name, "the login has ended")

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold the lock between processes. Raises `ServerUnreachable` or `ConfigError`."""
        async with AsyncExitStack() as stack:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                await stack.enter_async_context(async_file_lock(self._lock, LOCK_SECONDS))
            except TimeoutError:
                raise ServerUnreachable(
                    f"another process has been busy with the login of {self.name} for too long"
                ) from None
            except OSError as error:
                raise unusable(self._lock, error) from error
            yield


MARGIN_SECONDS = 60.0  #: A token that expires sooner is renewed before its use.
YOUNG_SECONDS = 30.0
"""A token that is refused so soon after it was issued is not renewed: that would not help."""
UNAUTHORIZED, FORBIDDEN = 401, 403


class StoredLoginAuthorizer:
    """Authorizes requests with the stored login and renews it; the user is not asked.

    Processes share the login through `store`.
    """

    def __init__(self, store: LoginStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._refresher = TokenRefresher(self._refresh, clock, MARGIN_SECONDS)
        self._given = ""  #: The token of the last request.

    async def headers(self) -> dict[str, str]:
        """Return the headers that authorize a request now. Raises `LoginRequired`."""
        login = await self._fresh()
        self._given = login.access_token
        return {"Authorization": f"Bearer {login.access_token}"}

    async def refused(self, response_status: int, www_authenticate: str) -> bool:
        """Handle a 401 or 403. Return True if the request may be repeated, with new headers."""
        login = self._refresher.read(self._store)
        if login.access_token != self._given:
            return True  # renewed meanwhile, here or by another process
        if response_status == UNAUTHORIZED:
            # Of several concurrent requests the first renewed it; the others only repeat theirs.
            if self._clock.now().timestamp() - login.obtained_at > YOUNG_SECONDS:
                await self._fresh(refused=login.access_token)
            return True
        challenge = parse_bearer_challenge(www_authenticate)
        if response_status != FORBIDDEN or challenge.get("error") != "insufficient_scope":
            return False
        return await self._wants_more(login, join_scopes(challenge.get("scope", "")))

    async def _wants_more(self, login: McpLogin, wanted: str) -> bool:
        """Store the scope that the next login has to request. Raises `LoginRequired`."""
        missing = join_scopes(
            " ".join(each for each in wanted.split() if each not in login.scope.split())
        )
        if not missing:
            return False  # the login has all scopes: signing in again would not help
        async with self._store.locked():
            login = self._refresher.read(self._store)
            more = join_scopes(login.wanted or login.scope, missing)
            if more != login.wanted:
                self._store.save(msgspec.structs.replace(login, wanted=more))
        raise LoginRequired(self._store.name, f"the login has not the rights for this ({missing})")

    async def _fresh(self, refused: str = "") -> McpLogin:
        login = await self._refresher.tokens(self._store, refused)
        # Without a refresh token, the stored one comes back as it is.
        if login.access_token == refused or not login.is_valid(self._clock.now().timestamp()):
            raise self._store.gone_error()
        return login

    async def _refresh(
        self, store: TokenStore[McpLogin], login: McpLogin, now: float
    ) -> McpLogin | None:
        # Imported here: httpx2 is slow to load, and renewals are rare.
        from hermes.mcp.oauth.discovery import LoginHttpClient
        from hermes.mcp.oauth.flow import refresh_login

        async with LoginHttpClient(store.name, self._store.url) as client:
            return await refresh_login(client, login, now)


def stored_authorizer(name: str, url: str, folder: Path) -> StoredLoginAuthorizer:
    """Return the authorizer for the server `name` at `url`, with the login stored in `folder`
    (`<home>/mcp-tokens`)."""
    return StoredLoginAuthorizer(LoginStore(folder, name, url), SystemClock())
