"""Signing in to an MCP server: discovery of its login server, and the authorization code flow of
OAuth 2.1 with PKCE.

The user opens an address in a browser. On this machine the browser comes back to a local port; on
another one it ends at an address that does not load, which the user copies and pastes here. Nothing
is stored before the end, so a stopped login changes nothing.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import HermesError
from hermes.core.ports import Clock
from hermes.mcp.oauth.logins import (
    LoginStore,
    McpLogin,
    canonical_url,
    check_address,
    covers_url,
    issuer_metadata_urls,
    join_scopes,
    may_carry_tokens,
    origin_of,
    parse_bearer_challenge,
    quote_address,
    resource_metadata_urls,
    same_issuer,
)
from hermes.mcp.transport import LoginFailed, LoginRequired, ServerUnreachable
from hermes.providers.login import (
    AUTH_BASIC,
    AUTH_METHODS,
    AUTH_NONE,
    AUTH_POST,
    PASTE_HINT,
    BrowserLogin,
    OAuthClient,
    ReadPaste,
    RedirectResult,
    TokenResponse,
    browser_login,
    code_grant,
    refresh_grant,
)
from hermes.security import Redactor
from hermes.util.http import HttpError, HttpResponse, fetch, make_client

REQUEST_SECONDS = 30.0  #: Timeout of one request.
MAX_BYTES = 256_000
MAX_REDIRECTS = 3
HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"Hermes/{__version__}",
}
PING = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "ping"})
PING_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class LoginHttpClient:
    """HTTP client for signing in to the MCP server `name` at `url`, bounded in time and size."""

    def __init__(self, name: str, url: str) -> None:
        self.name, self.url = name, url
        self._client = make_client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def document(self, address: str, what: str) -> dict[str, Any] | None:
        """Return the JSON object at an address, or None if there is none: many servers answer with
        an HTML page. Raises `LoginFailed`, or `ServerUnreachable`."""

        def check(_before: str, after: str) -> None:
            check_address(after, what, self.url)

        check("", address)
        answer = await self._fetch("GET", address, what, check_redirect=check)
        fields = {name: it for name, it in answer.json_object().items() if it is not None}
        return (fields or None) if answer.status == httpx2.codes.OK else None

    async def post(
        self,
        address: str,
        what: str,
        *,
        form: dict[str, str] | None = None,
        document: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> TokenResponse:
        """Post a form or a document and return the answer.

        Redirects are not followed, because they would carry secrets to another host. Raises
        `LoginFailed`, or `ServerUnreachable` if a retry may help.
        """
        address = check_address(address, what, self.url)
        response = await self._fetch(
            "POST", address, what, data=form, json=document, headers=headers or {}
        )
        status = response.status
        if 300 <= status < 400:
            raise LoginFailed(f"{what} redirects to another address, which is not followed")
        answer = TokenResponse(status, response.json_object())
        if status >= httpx2.codes.INTERNAL_SERVER_ERROR or status == 429:
            raise ServerUnreachable(f"{what} fails: HTTP {status}{_error_text(answer)}")
        return answer

    async def challenge(self) -> str:
        """Return the server's login challenge to a request without a token, or ""."""
        what = f"the MCP server {self.name}"
        for method, headers, body in (
            ("POST", PING_HEADERS, PING),
            ("GET", {"Accept": "text/event-stream"}, None),  # the older transport, a stream
        ):
            answer = await self._fetch(
                method, self.url, what, content=body, headers=headers, max_bytes=0
            )
            if answer.status in (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN):
                return answer.headers.get("www-authenticate", "")
        return ""

    async def _fetch(
        self,
        method: str,
        address: str,
        what: str,
        *,
        headers: dict[str, str] | None = None,
        max_bytes: int = MAX_BYTES,
        **options: Any,
    ) -> HttpResponse:
        try:
            return await fetch(
                self._client,
                method,
                address,
                headers={**HEADERS, **(headers or {})},
                seconds=REQUEST_SECONDS,
                max_bytes=max_bytes,
                max_redirects=MAX_REDIRECTS,
                **options,
            )
        except HttpError as error:
            text = f"{what} {error} ({origin_of(address)})"
            retryable = error.kind in ("timeout", "unreachable")
            raise (ServerUnreachable if retryable else LoginFailed)(text) from error


def refusal_error(what: str, answer: TokenResponse, secrets: tuple[str, ...] = ()) -> LoginFailed:
    """Return the error for an unsuccessful answer; `secrets` are redacted in its text."""
    said = Redactor(secrets).redact(_error_text(answer))
    return LoginFailed(f"{what}: HTTP {answer.status}{said}")


def _error_text(answer: TokenResponse) -> str:
    why = " ".join(answer.text("error_description").split())[:200]
    words = "".join(": " + word for word in (answer.error, why) if word)
    return "".join(letter for letter in words if letter.isprintable())


MAX_SERVERS = 5

T = TypeVar("T")


class ProtectedResource(msgspec.Struct, frozen=True):
    """Metadata of the MCP server (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()


class AuthorizationServer(msgspec.Struct, frozen=True):
    """Metadata of a login server (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    code_challenge_methods_supported: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False


class DiscoveryResult(msgspec.Struct, frozen=True):
    server: AuthorizationServer
    resource: str  #: Identifier of the resource that the tokens are for (RFC 8707).
    scope: str  #: Scope that the MCP server requests; empty if it names none.


async def discover(web: LoginHttpClient) -> DiscoveryResult:
    """Find the login server of an MCP server. Raises `LoginFailed`, or `ServerUnreachable`."""
    if not may_carry_tokens(web.url):
        raise LoginFailed(
            f"the url of {web.name} is not protected by TLS, so a login is not possible",
            hint="begin it with https://; only a server on this machine may do without",
        )
    challenge = parse_bearer_challenge(await web.challenge())
    described = await _find_resource(web, challenge.get("resource_metadata", ""))
    if described is None:
        # Servers of early 2025 have no metadata: they are their own login server.
        issuer = origin_of(web.url)
        described = ProtectedResource(canonical_url(web.url), (issuer,))
    for issuer in described.authorization_servers[:MAX_SERVERS]:
        check_address(issuer, f"the login server of {web.name}", web.url)
        server = await _fetch_server(web, issuer)
        if server is not None:  # the first one that publishes metadata
            break
    else:
        raise LoginFailed(
            f"{web.name} names no login server that describes itself",
            hint="it may want a key instead: `headers` of the server in mcp_servers",
        )
    scope = challenge.get("scope") or " ".join(described.scopes_supported)
    return DiscoveryResult(server, described.resource, join_scopes(scope))


async def _find_resource(web: LoginHttpClient, named: str) -> ProtectedResource | None:
    what = f"the description of {web.name}"
    usual = resource_metadata_urls(web.url)
    for place in dict.fromkeys([named, *usual] if named else usual):
        fields = await web.document(place, what)
        if fields is None:
            continue
        described = _convert(fields, ProtectedResource, what)
        if not covers_url(described.resource, web.url):
            raise LoginFailed(
                f"{what} is one of another server: {quote_address(described.resource)}",
                hint="the operator of the server has to correct that",
            )
        if not described.authorization_servers:
            raise LoginFailed(f"{what} names no login server")
        return described
    return None


async def _fetch_server(web: LoginHttpClient, issuer: str) -> AuthorizationServer | None:
    what = f"the description of the login server of {web.name}"
    for place in issuer_metadata_urls(issuer):
        fields = await web.document(place, what)
        if fields is None:
            continue
        server = _convert(fields, AuthorizationServer, what)
        # A foreign issuer could redirect codes and secrets to itself (RFC 8414, 3.3).
        if not same_issuer(server.issuer, issuer):
            raise LoginFailed(
                f"{what} belongs to {quote_address(server.issuer)} and not to "
                f"{quote_address(issuer)}"
            )
        if "S256" not in server.code_challenge_methods_supported:
            raise LoginFailed(
                f"the login server of {web.name} does not protect logins with PKCE (S256)",
                hint="its operator has to switch that on",
            )
        for field in ("authorization_endpoint", "token_endpoint"):
            check_address(getattr(server, field), f"{field} of {web.name}", web.url)
        return server
    return None


def _convert(fields: dict[str, Any], kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise LoginFailed(f"{what} is invalid: {error}") from error


# Client registration.


def configured_client(
    client_id: str, secret: str, port: int, server: AuthorizationServer
) -> OAuthClient:
    """Return a client that the user registered with the login server."""
    method = AUTH_NONE
    if secret:
        method = AUTH_POST if AUTH_POST in _methods(server) else AUTH_BASIC
    return OAuthClient(client_id, secret, method, port)


async def register_client(
    web: LoginHttpClient, server: AuthorizationServer, redirect: str, scope: str
) -> OAuthClient:
    """Register a new client (RFC 7591). Raises `LoginFailed`."""
    if not server.registration_endpoint:
        port = urlsplit(redirect).port
        raise LoginFailed(
            f"the login server of {web.name} has to know its clients beforehand",
            hint=f"register one there with the redirect address {redirect}, then "
            f"`hermes mcp login {web.name} --port {port} --client-id ID`",
        )
    wanted = next((each for each in AUTH_METHODS if each in _methods(server)), AUTH_NONE)
    what = f"the login server of {web.name} does not take Hermes as a client"
    answer = await web.post(
        server.registration_endpoint,
        f"the registration at the login server of {web.name}",
        document={
            "client_name": "Hermes",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": wanted,
            "application_type": "native",
            **({"scope": scope} if scope else {}),
        },
    )
    client_id, secret = answer.text("client_id"), answer.text("client_secret")
    if not answer.ok or not client_id:
        raise refusal_error(what, answer, (secret,))
    method = answer.text("token_endpoint_auth_method") or (wanted if secret else AUTH_NONE)
    if method not in AUTH_METHODS or (method != AUTH_NONE and not secret):
        raise LoginFailed(f"{what} in a way that is understood here ({method[:60]!r})")
    return OAuthClient(client_id, secret if method != AUTH_NONE else "", method)


def _methods(server: AuthorizationServer) -> tuple[str, ...]:
    """Return the methods; servers that name none often accept clients without a secret."""
    return server.token_endpoint_auth_methods_supported or (AUTH_NONE, AUTH_BASIC)


# Token requests.

GONE = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""Errors after which a login cannot be renewed any more."""
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")


async def redeem_code(
    web: LoginHttpClient, login: McpLogin, code: str, verifier: str, redirect: str, now: float
) -> McpLogin:
    """Exchange the code for the first tokens. Raises `LoginFailed`, or `ServerUnreachable`."""
    answer = await _post_token_request(web, login, code_grant(code, verifier, redirect))
    what = f"the login server of {web.name} gives no tokens"
    if not answer.ok:
        raise refusal_error(what, answer, (code, verifier, login.client.secret))
    return _with_tokens(login, answer, now, what)


async def refresh_login(web: LoginHttpClient, login: McpLogin, now: float) -> McpLogin | None:
    """Renew the tokens; return None if the login has ended. Raises `LoginFailed`, or
    `ServerUnreachable`."""
    answer = await _post_token_request(web, login, refresh_grant(login.refresh_token))
    if answer.error in GONE:
        return None
    what = f"the login server of {web.name} does not renew the login"
    if not answer.ok:
        raise refusal_error(what, answer, (login.refresh_token, login.client.secret))
    return _with_tokens(login, answer, now, what)


async def revoke_login(web: LoginHttpClient, login: McpLogin) -> None:
    """Revoke the login (RFC 7009). Raises `LoginFailed`, or `ServerUnreachable`."""
    token = login.refresh_token or login.access_token
    form, headers = login.client.signed({"token": token})
    what = f"the login server of {web.name} does not end the login"
    answer = await web.post(login.revocation_endpoint, what, form=form, headers=headers)
    if answer.status >= 400:
        raise refusal_error(what, answer, (token, login.client.secret))


async def _post_token_request(
    web: LoginHttpClient, login: McpLogin, form: dict[str, str]
) -> TokenResponse:
    fields, headers = login.client.signed({**form, "resource": login.resource})
    what = f"the login server of {web.name}"
    return await web.post(login.token_endpoint, what, form=fields, headers=headers)


def _with_tokens(login: McpLogin, answer: TokenResponse, now: float, what: str) -> McpLogin:
    access, refresh = answer.text("access_token"), answer.text("refresh_token")
    if answer.text("token_type").lower() != "bearer":
        raise LoginFailed(f"{what} of the kind Bearer")
    if not _TOKEN.fullmatch(access) or (refresh and not _TOKEN.fullmatch(refresh)):
        raise LoginFailed(f"{what} that can be used")
    seconds = answer.number("expires_in") or 0.0
    return msgspec.structs.replace(
        login,
        access_token=access,
        refresh_token=refresh or login.refresh_token,
        expires_at=now + seconds if seconds > 0 else None,
        obtained_at=now,
        scope=answer.text("scope") or login.scope,
        gone=False,
    )


LOGIN_SECONDS = 900.0
OFFLINE = "offline_access"
REDIRECT_PATH = "/callback"


class LoginOptions(msgspec.Struct, frozen=True):
    """Options of the user for a login."""

    client_id: str = ""
    """Id of a registered client, or the https address of a client metadata document."""
    client_secret: str = ""
    scope: str = ""  #: Scope to request instead of the server's.
    port: int = 0  #: Port of the redirect address; 0 for any.


class McpLoginPrompt(msgspec.Struct, frozen=True):
    """How to reach the user who signs in."""

    show: Callable[[str], None]  #: Shows the address to open.
    open_browser: Callable[[str], Awaitable[None]] | None = None
    """Opens the address, if there is a browser."""
    paste: ReadPaste | None = None
    """Asks for the redirect address, for a browser on another machine."""


async def login(
    name: str,
    url: str,
    folder: Path,
    person: McpLoginPrompt,
    clock: Clock,
    wishes: LoginOptions | None = None,
    *,
    seconds: float = LOGIN_SECONDS,
) -> McpLogin:
    """Sign in and store the login in `folder`. Raises `LoginFailed`, or `ServerUnreachable`."""
    wishes = wishes or LoginOptions()
    store = LoginStore(folder, name)
    async with LoginHttpClient(name, url) as web:
        found = await discover(web)
        try:
            earlier = store.load()
        except LoginRequired:  # a damaged file, which is about to be replaced
            earlier = None
        if earlier is not None and earlier.url != url:
            earlier = None
        wishes, scope = _reuse_client(found, wishes, earlier), _choose_scope(found, wishes, earlier)
        async with AsyncExitStack() as stack:
            try:
                browser = await stack.enter_async_context(browser_login(REDIRECT_PATH, wishes.port))
            except OSError as error:
                raise LoginFailed(
                    f"the browser cannot come back to port {wishes.port}:"
                    f" {(error.strerror or '').lower()}",
                    hint="stop what uses it, or choose another one with --port",
                ) from error
            redirect = browser.redirect_uri
            if wishes.client_id:
                registered = urlsplit(redirect).port or 0
                client = configured_client(
                    wishes.client_id, wishes.client_secret, registered, found.server
                )
            else:
                client = await register_client(web, found.server, redirect, scope)
            fields = {"resource": found.resource} | ({"scope": scope} if scope else {})
            if OFFLINE in scope.split():
                fields["prompt"] = "consent"  # OpenID Connect requires it with that scope
            address = browser.url(found.server.authorization_endpoint, client.id, **fields)
            person.show(address)
            outcome = await _wait_for_redirect(name, address, person, browser, seconds)
        _check_redirect(name, found.server, outcome)
        blank = McpLogin(
            url=url,
            issuer=found.server.issuer,
            resource=found.resource,
            token_endpoint=found.server.token_endpoint,
            client=client,
            access_token="",
            scope=scope,
            revocation_endpoint=found.server.revocation_endpoint,
        )
        now = clock.now().timestamp()
        made = await redeem_code(web, blank, outcome.code, browser.verifier, redirect, now)
    async with store.locked():
        store.save(made)
    return made


def _reuse_client(
    found: DiscoveryResult, wishes: LoginOptions, earlier: McpLogin | None
) -> LoginOptions:
    """Use a client registered by the user again, at the same login server."""
    if wishes.client_id or earlier is None or not earlier.client.port:
        return wishes
    if not same_issuer(earlier.issuer, found.server.issuer):
        return wishes
    client = earlier.client
    return msgspec.structs.replace(
        wishes, client_id=client.id, client_secret=client.secret, port=wishes.port or client.port
    )


def _choose_scope(found: DiscoveryResult, wishes: LoginOptions, earlier: McpLogin | None) -> str:
    """Return the scope to request: the user's, else the server's present and earlier demands."""
    if wishes.scope:
        return join_scopes(wishes.scope)
    scope = join_scopes(found.scope, earlier.wanted if earlier else "")
    # Without it some servers issue no refresh token, and the login lasts only an hour.
    return (
        join_scopes(scope, OFFLINE) if scope and OFFLINE in found.server.scopes_supported else scope
    )


async def _wait_for_redirect(
    name: str, address: str, person: McpLoginPrompt, browser: BrowserLogin, seconds: float
) -> RedirectResult:
    """Return the first result, from the browser or pasted by the user."""
    opening = asyncio.ensure_future(person.open_browser(address)) if person.open_browser else None
    try:
        outcome = await browser.result(seconds, person.paste)
    except TimeoutError:
        raise LoginRequired(name, f"the login to {name} was not completed in time") from None
    finally:
        if opening is not None:
            opening.cancel()
    if outcome is None:
        raise LoginFailed(
            f"what was pasted is not the address at which the login to {name} ends", hint=PASTE_HINT
        )
    return outcome


def _check_redirect(name: str, server: AuthorizationServer, outcome: RedirectResult) -> None:
    """Raise `LoginFailed` unless there is a code from the right issuer (RFC 9207)."""
    promised = server.authorization_response_iss_parameter_supported
    if (outcome.issuer or promised) and not same_issuer(outcome.issuer, server.issuer):
        raise LoginFailed(
            f"the answer to the login to {name} came from another login server",
            hint="this may be an attempt to steal the login; nothing was sent there",
        )
    if outcome.error == "access_denied":
        raise LoginFailed(f"the login to {name} was not granted")
    if not outcome.code:
        answer = {"error": outcome.error, "error_description": outcome.description}
        what = f"the login server of {name} ended the login"
        raise refusal_error(what, TokenResponse(400, answer))


async def logout(name: str, folder: Path) -> str | None:
    """Delete the login and revoke it at the login server.

    None when there was none; else what could not be done, or nothing. Raises `ConfigError`.
    """
    store = LoginStore(folder, name)
    if not store.path.exists():
        return None
    async with store.locked():
        try:
            login = store.load()
        except LoginRequired:  # damaged: there is nothing to revoke
            login = None
        store.remove()
    if login is None or login.gone:
        return ""
    if not login.revocation_endpoint:
        return "its login server offers no way to end a login, so the tokens last until they expire"
    try:
        async with LoginHttpClient(name, login.url) as web:
            await revoke_login(web, login)
    except HermesError as error:
        return f"{error}; the tokens last until they expire"
    return ""
