"""OAuth for providers and MCP servers: clients, login in the browser, renewal of tokens.

A refresh token often works only once, so two processes that renew at the same time would revoke the
login. A renewal therefore holds a lock and reads the tokens again first: the second process finds
what the first one stored.

httpx2 is not imported here: it is slow to load, and a stored login mostly needs no request.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlencode

import msgspec

from hermes.core.errors import ConfigError, HermesError
from hermes.core.ports import Clock
from hermes.util.lazy import late_pattern

log = logging.getLogger(__name__)

# Clients, and requests for tokens.

AUTH_NONE, AUTH_POST, AUTH_BASIC = "none", "client_secret_post", "client_secret_basic"
AUTH_METHODS = (AUTH_NONE, AUTH_POST, AUTH_BASIC)
"""Methods of client authentication, best for a program on a user's machine first."""


class OAuthClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client that the login server knows."""

    id: str  #: May be the https address of a client metadata document.
    secret: str = ""
    method: str = AUTH_NONE  #: Of `AUTH_METHODS`.
    port: int = 0
    """Port of the redirect address that the user registered with the client; 0 for a client that
    Hermes registered."""

    def __repr__(self) -> str:
        return f"OAuthClient({self.id!r})"

    def signed(self, form: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the form and the headers of a request to the login server."""
        if self.method == AUTH_BASIC and self.secret:
            pair = f"{quote(self.id, safe='')}:{quote(self.secret, safe='')}"
            return form, {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        secret = {"client_secret": self.secret} if self.secret else {}
        return {**form, "client_id": self.id, **secret}, {}


def code_grant(code: str, verifier: str, redirect_uri: str) -> dict[str, str]:
    """Return the form that exchanges an authorization code for tokens."""
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }


def refresh_grant(refresh_token: str) -> dict[str, str]:
    """Return the form that requests new tokens."""
    return {"grant_type": "refresh_token", "refresh_token": refresh_token}


_NOT_IN_ERROR_CODE = late_pattern(r"[^A-Za-z0-9_.\- ]")


class TokenResponse(msgspec.Struct, frozen=True):
    """Response of a login server. It may contain tokens and is never shown."""

    status: int
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return f"TokenResponse({self.status}, error={self.error!r})"

    @property
    def ok(self) -> bool:
        return self.status in (200, 201) and not self.error

    @property
    def error(self) -> str:
        """The error code from its various places; empty when there is none."""
        error = self.fields.get("error") or ""
        if isinstance(error, dict):
            error = error.get("code") or ""
        if not error and self.status >= 400:
            error = self.fields.get("code") or ""
        return _NOT_IN_ERROR_CODE.sub("", str(error))[:80]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """Return a finite number, also one written as text."""
        try:
            number = float(self.fields[name])
        except (KeyError, TypeError, ValueError):
            return None
        return number if math.isfinite(number) else None


def pkce_challenge(verifier: str) -> str:
    """Return the S256 challenge of RFC 7636."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# Login in the browser, which is redirected to a port on this machine.

VISIT_SECONDS = 10.0  #: Browsers open connections that they do not use.

DONE = "You are signed in. You can close this page and go back to Hermes."
DECLINED = "The login was declined. You can close this page."
UNKNOWN_REQUEST = "This is not the pending login."

PASTE_HINT = "copy the whole address of the page that does not load, from http://127.0.0.1 on"

ReadPaste = Callable[[], Awaitable[str]]
"""Returns what the user pasted; empty when there will be nothing. It may be cancelled."""


class RedirectResult(msgspec.Struct, frozen=True):
    """The parameters of the redirect: a code, or an error."""

    code: str
    error: str = ""
    description: str = ""
    issuer: str = ""  #: Issuer of the answer (RFC 9207), or "".

    def __repr__(self) -> str:
        return f"RedirectResult(error={self.error!r})"


def parse_redirect(address: str, state: str) -> RedirectResult | None:
    """Parse the address of a redirect; None when it does not carry this state."""
    query = address.partition("#")[0].rpartition("?")[2]
    fields = {name: values[0] for name, values in parse_qs(query).items()}
    if not hmac.compare_digest(fields.get("state", "").encode(), state.encode()):
        return None
    code, error = fields.get("code", ""), fields.get("error", "")
    if not code and not error:
        return None
    description = fields.get("error_description", "")
    return RedirectResult("" if error else code, error, description, fields.get("iss", ""))


class BrowserLogin(msgspec.Struct, frozen=True, eq=False):
    """A login in the browser with PKCE (RFC 7636), which ends at `redirect_uri` on this machine."""

    redirect_uri: str
    arrival: asyncio.Future[RedirectResult]
    state: str
    verifier: str

    def url(self, page: str, client_id: str, **fields: str) -> str:
        """Return the address that the user opens: the page of the login server with our query."""
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": pkce_challenge(self.verifier),
            "code_challenge_method": "S256",
            **fields,
        }
        return f"{page}{'&' if '?' in page else '?'}{urlencode(query)}"

    async def result(
        self, seconds: float, paste: ReadPaste | None, *, bare_code: bool = False
    ) -> RedirectResult | None:
        """Return what comes first: the redirect of the browser, or what the user pasted.

        The user pastes the address at which a browser on another machine ended or, with
        `bare_code`, the code in it. Empty text does not count. Returns None for the address of
        another login. Raises `TimeoutError`.
        """
        async with asyncio.timeout(seconds):
            if paste is None:
                return await self.arrival
            pasting = asyncio.ensure_future(paste())
            try:
                await asyncio.wait((self.arrival, pasting), return_when=asyncio.FIRST_COMPLETED)
                if self.arrival.done() or not (text := pasting.result().strip()):
                    return await self.arrival
            finally:
                pasting.cancel()
        if bare_code and "=" not in text and "://" not in text:
            return RedirectResult(unquote(text))
        return parse_redirect(text, self.state)


@asynccontextmanager
async def browser_login(path: str, port: int = 0) -> AsyncIterator[BrowserLogin]:
    """Wait on a loopback port (0 means any) for the redirect that ends a login.

    Raises `OSError` when the port is taken.
    """
    arrival: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
    tasks: set[asyncio.Task[None]] = set()

    def respond(head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        address = rest.partition(" ")[0]
        is_redirect = (method, address.partition("?")[0]) == ("GET", path)
        outcome = parse_redirect(address, state) if is_redirect else None
        if outcome is None:
            return _page("404 Not Found", UNKNOWN_REQUEST)
        if not arrival.done():
            arrival.set_result(outcome)
        return _page("200 OK", DONE if outcome.code else DECLINED)

    def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_handle_request(reader, writer, respond))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(on_connect, "127.0.0.1", port)
    try:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}"
        yield BrowserLogin(address, arrival, state, verifier)
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _handle_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Callable[[bytes], bytes]
) -> None:
    try:
        with suppress(
            TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(VISIT_SECONDS):
                writer.write(respond(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
    finally:
        writer.close()


def _page(status: str, words: str) -> bytes:
    body = f"<!doctype html><title>Hermes</title><p>{words}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\n"
        f"Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


# Renewal of tokens, once for all processes.

LOCK_SECONDS = 60.0  #: Timeout for the lock while another process renews the same login.


class RenewableTokens(Protocol):
    @property
    def access_token(self) -> str: ...
    @property
    def refresh_token(self) -> str: ...
    @property
    def gone(self) -> bool:
        """Whether the login server does not renew it any more."""
        ...

    def is_valid(self, now: float, margin: float = 0.0) -> bool: ...


T = TypeVar("T", bound=RenewableTokens)


class TokenStore(Protocol[T]):
    """The tokens of one login."""

    @property
    def name(self) -> str:
        """The provider or the server of the login."""
        ...

    @property
    def source(self) -> str:
        """Location for messages."""
        ...

    def read(self) -> T | None: ...

    def replace(self, old: T, new: T) -> None:
        """Store `new`, unless the login has changed since. Raises `ConfigError`."""
        ...

    def mark_gone(self, old: T) -> None: ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the login. Raises a `HermesError`."""
        ...

    def gone_error(self) -> HermesError:
        """Return the error for a login that does not exist or cannot be renewed."""
        ...


class TokenRefresher(Generic[T]):
    """Returns valid tokens of a store. `refresh` requests new ones, or returns None when the login
    was revoked. A token that expires in less than `margin` seconds is renewed before use."""

    def __init__(
        self,
        refresh: Callable[[TokenStore[T], T, float], Awaitable[T | None]],
        clock: Clock,
        margin: float,
    ) -> None:
        self._request, self._clock, self._margin = refresh, clock, margin
        self._unsaved: dict[str, tuple[T, T]] = {}
        """Old and new tokens that could not be written, by store."""
        self._running: set[asyncio.Task[T]] = set()

    async def tokens(self, store: TokenStore[T], refused: str = "") -> T:
        """Return tokens that are valid for some time; `refused` is one that was just refused.

        Without a refresh token, the stored tokens are returned as they are. When the login server
        is unreachable or fails, a token that is still valid is returned, otherwise its error is
        raised.
        """
        tokens = self.read(store)
        if not self._needs_refresh(tokens, refused):
            return tokens
        # The waiting task may be cancelled, but not the renewal: its response would be lost, and
        # the old refresh token no longer works.
        task = asyncio.create_task(self._refresh(store, refused))
        self._running.add(task)
        task.add_done_callback(self._on_done)
        try:
            return await asyncio.shield(task)
        except HermesError as error:
            tokens = self.read(store)
            if tokens.access_token == refused or not tokens.is_valid(self._now()):
                raise
            log.warning("%s; the present token is used while it lasts", error)
            return tokens

    def read(self, store: TokenStore[T]) -> T:
        """Return the present tokens. Raises the error of the store when the login is gone."""
        tokens = store.read()
        old, new = self._unsaved.get(store.source, (None, None))
        if tokens and old and new and tokens.access_token == old.access_token:
            return new
        if tokens is None or tokens.gone:
            raise store.gone_error()
        return tokens

    async def _refresh(self, store: TokenStore[T], refused: str) -> T:
        async with store.locked():
            old = self.read(store)
            if not self._needs_refresh(old, refused):
                return old
            new = await self._request(store, old, self._now())
            if new is None:
                return await self._handle_revoked(store, old)
            written = self._unsaved.pop(store.source, (old, new))[0]
            try:
                await asyncio.to_thread(store.replace, written, new)
            except ConfigError as error:
                self._unsaved[store.source] = (written, new)
                log.error("a renewed login is lost when this process ends: %s", error)
            return new

    async def _handle_revoked(self, store: TokenStore[T], old: T) -> T:
        """Return tokens renewed elsewhere, or raise."""
        # The owner of the file may not use our lock and may have renewed first.
        current = store.read()
        if current is not None and current.refresh_token != old.refresh_token:
            return current
        try:
            await asyncio.to_thread(store.mark_gone, old)
        except ConfigError as error:
            log.warning("%s", error)
        raise store.gone_error()

    def _needs_refresh(self, tokens: T, refused: str) -> bool:
        if not tokens.refresh_token:
            return False
        return tokens.access_token == refused or not tokens.is_valid(self._now(), self._margin)

    def _on_done(self, task: asyncio.Task[T]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # already raised to the waiting task; avoids asyncio's warning

    def _now(self) -> float:
        return self._clock.now().timestamp()
