"""Discovery of the login server of an MCP server, and the HTTP client for logins."""

from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2
import msgspec

from hermes import __version__
from hermes.mcp.errors import LoginFailed, ServerUnreachable
from hermes.mcp.oauth import addresses
from hermes.mcp.oauth.addresses import check_address, join_scopes, origin_of, parse_bearer_challenge
from hermes.providers.login import TokenResponse
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
    if not addresses.may_carry_tokens(web.url):
        raise LoginFailed(
            f"the url of {web.name} is not protected by TLS, so a login is not possible",
            hint="begin it with https://; only a server on this machine may do without",
        )
    challenge = parse_bearer_challenge(await web.challenge())
    described = await _find_resource(web, challenge.get("resource_metadata", ""))
    if described is None:
        # Servers of early 2025 have no metadata: they are their own login server.
        issuer = addresses.origin_of(web.url)
        described = ProtectedResource(addresses.canonical_url(web.url), (issuer,))
    for issuer in described.authorization_servers[:MAX_SERVERS]:
        addresses.check_address(issuer, f"the login server of {web.name}", web.url)
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
    usual = addresses.resource_metadata_urls(web.url)
    for place in dict.fromkeys([named, *usual] if named else usual):
        fields = await web.document(place, what)
        if fields is None:
            continue
        described = _convert(fields, ProtectedResource, what)
        if not addresses.covers_url(described.resource, web.url):
            raise LoginFailed(
                f"{what} is one of another server: {addresses.quote_address(described.resource)}",
                hint="the operator of the server has to correct that",
            )
        if not described.authorization_servers:
            raise LoginFailed(f"{what} names no login server")
        return described
    return None


async def _fetch_server(web: LoginHttpClient, issuer: str) -> AuthorizationServer | None:
    what = f"the description of the login server of {web.name}"
    for place in addresses.issuer_metadata_urls(issuer):
        fields = await web.document(place, what)
        if fields is None:
            continue
        server = _convert(fields, AuthorizationServer, what)
        # A foreign issuer could redirect codes and secrets to itself (RFC 8414, 3.3).
        if not addresses.same_issuer(server.issuer, issuer):
            raise LoginFailed(
                f"{what} belongs to {addresses.quote_address(server.issuer)} and not to "
                f"{addresses.quote_address(issuer)}"
            )
        if "S256" not in server.code_challenge_methods_supported:
            raise LoginFailed(
                f"the login server of {web.name} does not protect logins with PKCE (S256)",
                hint="its operator has to switch that on",
            )
        for field in ("authorization_endpoint", "token_endpoint"):
            addresses.check_address(getattr(server, field), f"{field} of {web.name}", web.url)
        return server
    return None


def _convert(fields: dict[str, Any], kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise LoginFailed(f"{what} is invalid: {error}") from error
