"""Stored logins, one private file per server in `<home>/mcp-tokens`, and requests with them; which
addresses may be visited for a login, and login challenges.

Everything but the address of the MCP server comes from other people: the server names a login
server, and that one names its pages. Tokens travel over TLS, or do not leave this machine; and a
server elsewhere cannot send us to an address on this machine.
"""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import msgspec

from hermes.config.home import tilde, unusable
from hermes.core.ports import Clock
from hermes.mcp.catalog import server_file
from hermes.mcp.transport import LoginFailed, LoginRequired, ServerUnreachable
from hermes.providers.login import OAuthClient, TokenRefresher, TokenStore
from hermes.providers.login.oauth import LOCK_SECONDS
from hermes.util import files
from hermes.util.concurrency import SystemClock, async_file_lock
from hermes.util.http import is_loopback

MAX_ADDRESS_CHARS = 2_000
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
OAUTH_SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\x00-\x1f\x7f\"<>\\^`{|}]")


def may_carry_tokens(url: str) -> bool:
    """Return whether the connection is protected: TLS, or on this machine."""
    parts = _split(url)
    if parts is None:
        return False
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def check_address(address: str, what: str, server: str) -> str:
    """Return `address` if it may be visited to sign in to the MCP server at `server`.

    Raises `LoginFailed`, which names the address `what`.
    """
    parts = _split(address)
    if parts is None or parts.username is not None or parts.fragment or _ODD.search(address):
        raise LoginFailed(f"{what} is not a usable address: {quote_address(address)}")
    here = is_loopback(parts.hostname or "")
    if here and not is_loopback(urlsplit(server).hostname or ""):
        raise LoginFailed(f"{what} is an address on this machine, which is not visited for others")
    if not here and parts.scheme != "https":
        raise LoginFailed(f"{what} is not protected by TLS: {quote_address(address)}")
    return address


def canonical_url(url: str) -> str:
    """Return the server's resource identifier (RFC 8707): no query, fragment or final `/`."""
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return f"{_origin(parts)}{path}"


def covers_url(resource: str, url: str) -> bool:
    """Return whether the identifier `resource` is the server at `url` or a parent of it."""
    theirs, ours = _split(resource), urlsplit(url)
    if theirs is None or _origin(theirs) != _origin(ours):
        return False
    above, below = theirs.path.rstrip("/"), ours.path.rstrip("/")
    return below == above or below.startswith(f"{above}/")


def same_issuer(one: str, other: str) -> bool:
    """Compare two issuers, ignoring a final `/`, which many servers add."""
    return bool(one) and one.removesuffix("/") == other.removesuffix("/")


def origin_of(url: str) -> str:
    return _origin(urlsplit(url))


def resource_metadata_urls(url: str) -> list[str]:
    """Return the addresses of a server's metadata (RFC 9728), most likely first."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    root = f"{_origin(parts)}{PROTECTED_RESOURCE}"
    return [f"{root}{path}", root] if path else [root]


def issuer_metadata_urls(issuer: str) -> list[str]:
    """Return the addresses of a login server's metadata (RFC 8414, OpenID Connect Discovery)."""
    parts = urlsplit(issuer)
    origin, path = _origin(parts), parts.path.rstrip("/")
    places = [f"{origin}{OAUTH_SERVER}{path}", f"{origin}{OPENID}{path}"]
    return [*places, f"{origin}{path}{OPENID}"] if path else places


def quote_address(address: str) -> str:
    """Return the quoted address for a message, shortened."""
    return repr(address[:120])


def _split(address: str) -> SplitResult | None:
    """Return the parts of an HTTP address, or None."""
    if len(address) > MAX_ADDRESS_CHARS:
        return None
    try:
        parts = urlsplit(address)
        usable = parts.scheme in _PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _origin(parts: SplitResult) -> str:
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = parts.port or _PORTS.get(parts.scheme)
    return f"{parts.scheme}://{host}" + ("" if port == _PORTS.get(parts.scheme) else f":{port}")


# The header `WWW-Authenticate` of a refused request.

MAX_CHALLENGE_CHARS = 4_000
MAX_SCOPE_CHARS = 1_000
_PARAMETER = re.compile(
    r"""([A-Za-z0-9!#$%&'*+.^_`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))"""
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?=[\s,]|$)")
_GAP, _OTHER = re.compile(r"[\s,]*"), re.compile(r"[^\s,]*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def parse_bearer_challenge(header: str) -> dict[str, str]:
    """Return the parameters of the first `Bearer` challenge, with names in lower case."""
    text, position, scheme = header[:MAX_CHALLENGE_CHARS], 0, ""
    found: dict[str, str] = {}
    while (position := _end(_GAP, text, position)) < len(text):
        if parameter := _PARAMETER.match(text, position):
            if scheme == "bearer":
                name, quoted, plain = parameter.groups()
                value = re.sub(r"\\(.)", r"\1", quoted) if plain is None else plain
                found.setdefault(name.lower(), value)
            position = parameter.end()
        elif word := _SCHEME.match(text, position):
            if scheme == "bearer":
                break
            scheme, position = word[1].lower(), word.end()
        else:
            position = _end(_OTHER, text, position)
    return found


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def join_scopes(*texts: str) -> str:
    """Return the distinct scopes of all texts, in order; invalid ones are dropped."""
    words = [word for text in texts for word in text.split() if _SCOPE.fullmatch(word)]
    joined = ""
    for word in dict.fromkeys(words):
        if len(joined) + len(word) < MAX_SCOPE_CHARS:
            joined = f"{joined} {word}".lstrip()
    return joined


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
        """Return whether the token is valid for `margin` more seconds, or for a quarter of its
        lifetime if that is shorter: otherwise a short-lived token would never be valid."""
        if self.gone or self.expires_at is None:
            return not self.gone
        return self.expires_at > now + min(margin, (self.expires_at - self.obtained_at) / 4)

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
        from hermes.mcp.oauth.flow import LoginHttpClient, refresh_login

        async with LoginHttpClient(store.name, self._store.url) as client:
            return await refresh_login(client, login, now)


def stored_authorizer(name: str, url: str, folder: Path) -> StoredLoginAuthorizer:
    """Return the authorizer for the server `name` at `url`, with the login stored in `folder`
    (`<home>/mcp-tokens`)."""
    return StoredLoginAuthorizer(LoginStore(folder, name, url), SystemClock())
