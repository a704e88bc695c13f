"""From the address of an MCP server to the login server that guards it."""

from typing import Any, TypeVar

import msgspec

from hermes.mcp.oauth import addresses
from hermes.mcp.oauth.challenges import bearer, scopes
from hermes.mcp.oauth.failures import LoginFailed
from hermes.mcp.oauth.web import Web

MOST_SERVERS = 5

T = TypeVar("T")


class ProtectedResource(msgspec.Struct, frozen=True):
    """What the MCP server says of itself (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()


class LoginServer(msgspec.Struct, frozen=True):
    """What a login server says of itself (RFC 8414, OpenID Connect Discovery)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    code_challenge_methods_supported: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False


class Discovered(msgspec.Struct, frozen=True):
    server: LoginServer
    resource: str
    """What the tokens are asked for (RFC 8707)."""
    scope: str
    """What the MCP server wants; empty when it does not say."""


async def discover(web: Web) -> Discovered:
    """Raises `LoginFailed`, or `Unreachable`."""
    if not addresses.may_carry_tokens(web.url):
        raise LoginFailed(
            f"the url of {web.name} is not protected by TLS, so nobody can sign in to it",
            hint="begin it with https://; only a server on this machine may do without",
        )
    challenge = bearer(await web.challenge())
    described = await _resource(web, challenge.get("resource_metadata", ""))
    if described is None:
        # Servers of early 2025 do not describe themselves: they are their own login server.
        issuer = addresses.origin_of(web.url)
        described = ProtectedResource(addresses.canonical(web.url), (issuer,))
    server = await _first(web, described.authorization_servers[:MOST_SERVERS])
    if server is None:
        raise LoginFailed(
            f"{web.name} names no login server that describes itself",
            hint="it may want a key instead: `headers` of the server in mcp_servers",
        )
    scope = challenge.get("scope") or " ".join(described.scopes_supported)
    return Discovered(server, described.resource, scopes(scope))


async def _resource(web: Web, told: str) -> ProtectedResource | None:
    what = f"the description of {web.name}"
    for place in dict.fromkeys([*([told] if told else []), *addresses.resource_places(web.url)]):
        fields = await web.document(place, what)
        if fields is None:
            continue
        described = _converted(fields, ProtectedResource, what)
        if not addresses.covers(described.resource, web.url):
            raise LoginFailed(
                f"{what} is one of another server: {addresses.shown(described.resource)}",
                hint="whoever runs the server has to correct that",
            )
        if not described.authorization_servers:
            raise LoginFailed(f"{what} names no login server")
        return described
    return None


async def _first(web: Web, issuers: tuple[str, ...]) -> LoginServer | None:
    """The first one that describes itself."""
    for issuer in issuers:
        addresses.checked(issuer, f"the login server of {web.name}", web.url)
        server = await _described(web, issuer)
        if server is not None:
            return server
    return None


async def _described(web: Web, issuer: str) -> LoginServer | None:
    what = f"the description of the login server of {web.name}"
    for place in addresses.issuer_places(issuer):
        fields = await web.document(place, what)
        if fields is None:
            continue
        server = _converted(fields, LoginServer, what)
        # Another one could make us send codes and secrets to the wrong place (RFC 8414, 3.3).
        if not addresses.same_issuer(server.issuer, issuer):
            raise LoginFailed(
                f"{what} belongs to {addresses.shown(server.issuer)} and not to "
                f"{addresses.shown(issuer)}"
            )
        if "S256" not in server.code_challenge_methods_supported:
            raise LoginFailed(
                f"the login server of {web.name} does not protect logins with PKCE (S256)",
                hint="whoever runs it has to switch that on",
            )
        for field in ("authorization_endpoint", "token_endpoint"):
            addresses.checked(getattr(server, field), f"{field} of {web.name}", web.url)
        return server
    return None


def _converted(fields: dict[str, Any], kind: type[T], what: str) -> T:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise LoginFailed(f"{what} makes no sense: {error}") from error
