"""Being a client of a login server: one it knows, or one that introduces itself now."""

from urllib.parse import urlsplit

from hermes.mcp.oauth.client import BASIC, METHODS, NONE, POST, Client
from hermes.mcp.oauth.discovery import LoginServer
from hermes.mcp.oauth.failures import LoginFailed
from hermes.mcp.oauth.web import Web, refusal


def known(client_id: str, secret: str, port: int, server: LoginServer) -> Client:
    """A client that somebody registered by hand."""
    method = NONE
    if secret:
        method = POST if POST in _methods(server) else BASIC
    return Client(client_id, secret, method, port)


async def registered(web: Web, server: LoginServer, redirect: str, scope: str) -> Client:
    """A new client (RFC 7591). Raises `LoginFailed`."""
    if not server.registration_endpoint:
        port = urlsplit(redirect).port
        raise LoginFailed(
            f"the login server of {web.name} has to know its clients beforehand",
            hint=f"register one there with the redirect address {redirect}, then "
            f"`hermes mcp login {web.name} --port {port} --client-id ID`",
        )
    wanted = next((each for each in METHODS if each in _methods(server)), NONE)
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
        raise refusal(what, answer, (secret,))
    method = answer.text("token_endpoint_auth_method") or (wanted if secret else NONE)
    if method not in METHODS or (method != NONE and not secret):
        raise LoginFailed(f"{what} in a way that is understood here ({method[:60]!r})")
    return Client(client_id, secret if method != NONE else "", method)


def _methods(server: LoginServer) -> tuple[str, ...]:
    """Many who leave it out take clients without a secret too."""
    return server.token_endpoint_auth_methods_supported or (NONE, BASIC)
