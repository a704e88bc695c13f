"""A login server and an MCP server that it guards, each on a port of its own.

They check what real ones check: clients and their redirect addresses, PKCE, codes and refresh
tokens that are good for one use, the audience and the scopes of tokens.
"""

import base64
import hashlib
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from hermes.util.concurrency import in_thread

TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
WRITE = "tickets:write"
Handler = Callable[[RecordedRequest], Outgoing]


def reply(status: int, document: Any = None, **headers: str) -> Outgoing:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    body = b"" if document is None else json.dumps(document).encode()
    return Outgoing(status, {"Content-Type": "application/json", **fields}, [body])


def query_of(request: RecordedRequest) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}


def form_of(request: RecordedRequest) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.raw.decode()).items()}


class Site:
    """A server with pages; each request is kept."""

    def __init__(self) -> None:
        self.pages: dict[str, Handler] = {}
        self.requests: list[RecordedRequest] = []
        self._server = LoopbackServer(self._respond)
        self.origin = f"http://127.0.0.1:{self._server.port}"

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def seen(self, path: str) -> list[RecordedRequest]:
        return [each for each in self.requests if each.path.partition("?")[0] == path]

    def _respond(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        page = self.pages.get(request.path.partition("?")[0])
        return page(request) if page else reply(404)


class LoginSite(Site):
    """The authorization server, with the issuer `<origin>/tenant`."""

    def __init__(self) -> None:
        super().__init__()
        self.issuer = f"{self.origin}/tenant"
        self.metadata: dict[str, Any] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
        }
        self.clients: dict[str, dict[str, Any]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, dict[str, str]] = {}
        """Access tokens that are good, with what they are for."""
        self.refreshes: dict[str, dict[str, str]] = {}
        self.used: set[str] = set()
        self.lasting = 3600
        self.answers: dict[str, str] = {}
        """Fields of the answer to a login that are different."""
        self.pages = {
            "/.well-known/oauth-authorization-server/tenant": lambda _: reply(200, self.metadata),
            "/register": self.register,
            "/authorize": self.authorize,
            "/token": self.token,
            "/revoke": self.revoke,
        }

    def register(self, request: RecordedRequest) -> Outgoing:
        wanted = request.body
        assert wanted["redirect_uris"][0].startswith("http://127.0.0.1:")
        assert set(wanted["grant_types"]) == {"authorization_code", "refresh_token"}
        client = {"client_id": f"client-{len(self.clients)}", **wanted}
        self.clients[client["client_id"]] = client
        return reply(201, client)

    def authorize(self, request: RecordedRequest) -> Outgoing:
        given = query_of(request)
        client = self.clients.get(given["client_id"])
        if client is None or given["redirect_uri"] not in client["redirect_uris"]:
            return reply(400, {"error": "invalid_client"})
        if given["code_challenge_method"] != "S256" or given["response_type"] != "code":
            return reply(400, {"error": "invalid_request"})
        code = secrets.token_urlsafe(8)
        self.codes[code] = given
        answer = {"code": code, "state": given["state"], "iss": self.issuer, **self.answers}
        kept = {name: value for name, value in answer.items() if value}
        return reply(302, Location=f"{given['redirect_uri']}?{urlencode(kept)}")

    def token(self, request: RecordedRequest) -> Outgoing:
        given = form_of(request)
        client = self._client(request, given)
        if client is None:
            return reply(401, {"error": "invalid_client"})
        if given["grant_type"] == "refresh_token":
            return self._refreshed(given["refresh_token"])
        asked = self.codes.pop(given["code"], None)
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        right = asked is not None and (
            asked["client_id"] == client["client_id"]
            and asked["redirect_uri"] == given["redirect_uri"]
            and asked["resource"] == given["resource"]
            and asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
        )
        if asked is None or not right:
            return reply(400, {"error": "invalid_grant", "error_description": "wrong code"})
        return self._issued(asked["resource"], asked.get("scope", ""))

    def revoke(self, request: RecordedRequest) -> Outgoing:
        token = form_of(request)["token"]
        if self.refreshes.pop(token, None):
            self.tokens.clear()
        self.tokens.pop(token, None)
        return reply(200)

    def _client(self, request: RecordedRequest, given: dict[str, str]) -> dict[str, Any] | None:
        basic = request.headers.get("authorization", "")
        if basic.startswith("Basic "):
            name, _, secret = base64.b64decode(basic[6:]).decode().partition(":")
            client = self.clients.get(unquote(name))
            return client if client and client.get("client_secret") == unquote(secret) else None
        client = self.clients.get(given.get("client_id", ""))
        return client if client and not client.get("client_secret") else None

    def _issued(self, resource: str, scope: str) -> Outgoing:
        access, refresh = f"at-{secrets.token_hex(16)}", f"rt-{secrets.token_hex(16)}"
        self.tokens[access] = self.refreshes[refresh] = {"resource": resource, "scope": scope}
        fields = {"token_type": "Bearer", "expires_in": self.lasting, "scope": scope}
        return reply(200, {"access_token": access, "refresh_token": refresh, **fields})

    def _refreshed(self, token: str) -> Outgoing:
        held = self.refreshes.pop(token, None)
        if held is None:
            if token in self.used:  # stolen, or renewed twice at once: revoke all tokens
                self.tokens.clear()
                self.refreshes.clear()
            return reply(400, {"error": "invalid_grant", "error_description": f"no {token}"})
        self.used.add(token)
        self.tokens.clear()
        return self._issued(held["resource"], held["scope"])


class GuardedSite(Site):
    """The MCP server."""

    def __init__(self, login: LoginSite) -> None:
        super().__init__()
        self.login = login
        self.url = f"{self.origin}/mcp"
        self.place = "/.well-known/oauth-protected-resource/mcp"
        self.description: dict[str, Any] = {
            "resource": self.url,
            "authorization_servers": [login.issuer],
            "scopes_supported": ["tickets:read"],
        }
        self.challenge = f'Bearer resource_metadata="{self.origin}{self.place}"'
        self.audience = self.url
        self.pages = {"/mcp": self.mcp, self.place: lambda _: reply(200, self.description)}

    def mcp(self, request: RecordedRequest) -> Outgoing:
        if request.method != "POST":
            return reply(405 if self._token(request) else 401, WWW_Authenticate=self.challenge)
        token = self._token(request)
        if token is None or token["resource"] != self.audience:
            return reply(401, WWW_Authenticate=f'{self.challenge}, error="invalid_token"')
        message = request.body
        params = message.get("params") or {}
        if params.get("name") == "write" and WRITE not in token["scope"].split():
            wanted = f'error="insufficient_scope", scope="{WRITE}"'
            return reply(403, WWW_Authenticate=f"Bearer {wanted}")
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "tickets", "version": "1"},
            },
            "tools/list": {"tools": TOOLS},
            "tools/call": {"content": [{"type": "text", "text": f"{params.get('name')} done"}]},
        }
        if "id" not in message:
            return reply(202)
        return reply(
            200, {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
        )

    def _token(self, request: RecordedRequest) -> dict[str, str] | None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.login.tokens.get(given)


async def browse(address: str) -> None:
    """What a browser does, with a person who agrees at once. Unlike ours it logs nothing."""

    def visit() -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with suppress(urllib.error.HTTPError), opener.open(address, timeout=20) as page:
            page.read()

    await in_thread(visit)
