"""Signing in to an MCP server: the authorization code flow of OAuth 2.1 with PKCE.

The person opens an address in a browser. On this machine the browser comes back to a port of ours;
on another one it ends at an address that does not load, which is then copied and pasted here.
Nothing is stored before the end, so stopping at any moment leaves what was there.
"""

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec

from hermes.core.ports import Clock
from hermes.mcp.oauth.addresses import same_issuer
from hermes.mcp.oauth.challenges import scopes
from hermes.mcp.oauth.client import Client
from hermes.mcp.oauth.discovery import Discovered, LoginServer, discover
from hermes.mcp.oauth.exchange import redeemed
from hermes.mcp.oauth.failures import LoginFailed, LoginNeeded
from hermes.mcp.oauth.logins import Login, LoginStore
from hermes.mcp.oauth.redirect import Outcome, outcome_of, redirect_listener
from hermes.mcp.oauth.registration import known, registered
from hermes.mcp.oauth.web import Answer, Web, refusal
from hermes.util.waiting import arrived_or_typed

CONSENT_SECONDS = 900.0
OFFLINE = "offline_access"

Paste = Callable[[], Awaitable[str]]
"""Gives what the person pasted; empty when there will be nothing. It may be cancelled."""


class Wishes(msgspec.Struct, frozen=True):
    """What the person wants to be different from the usual."""

    client_id: str = ""
    """A client that is registered already, or the https address of a document about one."""
    client_secret: str = ""
    scope: str = ""
    """Exactly these, in place of what the server wants."""
    port: int = 0
    """Where the browser comes back to; 0 is any."""


class Person(msgspec.Struct, frozen=True):
    """How to reach whoever signs in."""

    show: Callable[[str], None]
    """Shows the address to open."""
    open_browser: Callable[[str], Awaitable[None]] | None = None
    """Opens it where there is a browser."""
    paste: Paste | None = None
    """For a browser on another machine."""


async def login(
    name: str,
    url: str,
    folder: Path,
    person: Person,
    clock: Clock,
    wishes: Wishes | None = None,
    *,
    seconds: float = CONSENT_SECONDS,
) -> Login:
    """Sign in and keep the login in `folder`. Raises `LoginFailed`, or `Unreachable`."""
    wishes = wishes or Wishes()
    store = LoginStore(folder, name)
    async with Web(name, url) as web:
        found = await discover(web)
        earlier = _earlier(store, url)
        wishes, scope = _as_before(found, wishes, earlier), _scope(found, wishes, earlier)
        state = secrets.token_urlsafe(32)
        async with redirect_listener(state, wishes.port) as (redirect, arrival):
            client = await _client(web, found.server, wishes, redirect, scope)
            verifier = secrets.token_urlsafe(48)
            address = _question(found, client, redirect, scope, state, verifier)
            person.show(address)
            outcome = await _answered(name, address, person, arrival, state, seconds)
        _check(name, found.server, outcome)
        blank = Login(
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
        made = await redeemed(web, blank, outcome.code, verifier, redirect, now)
    async with store.alone():
        store.save(made)
    return made


def _earlier(store: LoginStore, url: str) -> Login | None:
    """The last login, when it was for the same place."""
    try:
        held = store.load()
    except LoginNeeded:  # damaged, and about to be replaced
        return None
    return held if held is not None and held.url == url else None


def _as_before(found: Discovered, wishes: Wishes, earlier: Login | None) -> Wishes:
    """A client that was registered by hand is used again, at the login server that knows it."""
    if wishes.client_id or earlier is None or not earlier.client.port:
        return wishes
    if not same_issuer(earlier.issuer, found.server.issuer):
        return wishes
    client = earlier.client
    return msgspec.structs.replace(
        wishes,
        client_id=client.id,
        client_secret=client.secret,
        port=wishes.port or client.port,
    )


def _scope(found: Discovered, wishes: Wishes, earlier: Login | None) -> str:
    """What to ask for: what the person says, else what the server wants and lately wanted."""
    if wishes.scope:
        return scopes(wishes.scope)
    scope = scopes(found.scope, earlier.wanted if earlier else "")
    # Without it some give no refresh token, and one has to sign in every hour.
    return scopes(scope, OFFLINE) if scope and OFFLINE in found.server.scopes_supported else scope


async def _client(
    web: Web, server: LoginServer, wishes: Wishes, redirect: str, scope: str
) -> Client:
    if wishes.client_id:
        port = urlsplit(redirect).port or 0
        return known(wishes.client_id, wishes.client_secret, port, server)
    return await registered(web, server, redirect, scope)


def _question(
    found: Discovered, client: Client, redirect: str, scope: str, state: str, verifier: str
) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    fields = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        "code_challenge_method": "S256",
        "resource": found.resource,
    }
    if scope:
        fields["scope"] = scope
    if OFFLINE in scope.split():
        fields["prompt"] = "consent"  # OpenID Connect wants it with that scope
    page = found.server.authorization_endpoint
    return f"{page}{'&' if '?' in page else '?'}{urlencode(fields)}"


async def _answered(
    name: str,
    address: str,
    person: Person,
    arrival: asyncio.Future[Outcome],
    state: str,
    seconds: float,
) -> Outcome:
    opening = asyncio.ensure_future(person.open_browser(address)) if person.open_browser else None
    try:
        async with asyncio.timeout(seconds):
            return await _first(name, arrival, person.paste, state)
    except TimeoutError:
        raise LoginNeeded(name, f"nobody signed in to {name} in time") from None
    finally:
        if opening is not None:
            opening.cancel()


async def _first(
    name: str, arrival: asyncio.Future[Outcome], paste: Paste | None, state: str
) -> Outcome:
    """What comes first, from the browser or from the person."""
    came = await arrived_or_typed(arrival, paste)
    outcome = outcome_of(came, state) if isinstance(came, str) else came
    if outcome is None:
        raise LoginFailed(
            f"what was pasted is not the address at which the login to {name} ends",
            hint="copy the whole address of the page that does not load, from http://127.0.0.1 on",
        )
    return outcome


def _check(name: str, server: LoginServer, outcome: Outcome) -> None:
    """Raises `LoginFailed` unless there is a code, and from whom it should be (RFC 9207)."""
    promised = server.authorization_response_iss_parameter_supported
    if (outcome.issuer or promised) and not same_issuer(outcome.issuer, server.issuer):
        raise LoginFailed(
            f"the answer to the login to {name} came from another login server",
            hint="somebody may have tried to get at the login; nothing was sent to them",
        )
    if outcome.error == "access_denied":
        raise LoginFailed(f"the login to {name} was not granted")
    if not outcome.code:
        told = {"error": outcome.error, "error_description": outcome.description}
        raise refusal(f"the login server of {name} ended the login", Answer(400, told))
