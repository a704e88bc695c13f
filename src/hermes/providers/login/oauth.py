"""OAuth tokens: requests to login servers, refreshes, and the browser redirect."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, unquote

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import CredentialRefused, ProviderError, RateLimited, ServerFault
from hermes.providers.failures import unreachable
from hermes.util.http import HttpError, fetch

REQUEST_SECONDS = 30.0  #: Longest duration of one request to a login server.

HEADERS = {"Accept": "application/json", "User-Agent": f"hermes/{__version__}"}

REVOKED_ERRORS = frozenset(
    {
        "invalid_grant",
        "refresh_token_expired",
        "refresh_token_reused",
        "refresh_token_invalidated",
    }
)
"""Error codes after which a login cannot be renewed any more."""

_OPENAI_CLAIMS = "https://api.openai.com/auth"
_NOT_IN_ERROR_CODE = re.compile(r"[^A-Za-z0-9_.\- ]")


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

    def is_valid(self, now: float, margin: float = 0.0) -> bool:
        return self.expires_at is None or self.expires_at > now + margin


class TokenResponse(msgspec.Struct, frozen=True):
    """Response of a login server. It may contain tokens and is never shown."""

    status: int
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return f"TokenResponse({self.status}, error={self.error!r})"

    @property
    def ok(self) -> bool:
        return self.status in (httpx2.codes.OK, httpx2.codes.CREATED) and not self.error

    @property
    def error(self) -> str:
        """The error code from its various places; empty when there is none."""
        error = self.fields.get("error") or ""
        if isinstance(error, dict):
            error = error.get("code") or ""
        if not error and self.status >= httpx2.codes.BAD_REQUEST:
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


async def post_form(
    client: httpx2.AsyncClient,
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
    if answer.status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        raise login_error(answer, provider, "failed")
    return answer


def json_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object; an empty one for anything else."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


async def refresh_tokens(
    client: httpx2.AsyncClient, tokens: Tokens, provider: str, now: float
) -> Tokens | None:
    """Request new tokens; None when the login was revoked. Raises a `ProviderError` otherwise."""
    form = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh_token,
        "client_id": tokens.client_id,
    }
    if tokens.client_secret:
        form["client_secret"] = tokens.client_secret
    answer = await post_form(client, tokens.token_url, provider, form=form)
    if answer.ok and answer.text("access_token"):
        return parse_tokens(answer, now, before=tokens)
    if answer.error in REVOKED_ERRORS or answer.status == httpx2.codes.UNAUTHORIZED:
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
    if answer.status == httpx2.codes.TOO_MANY_REQUESTS:
        return RateLimited(message, provider=provider, status=answer.status)
    if answer.status >= 500 or answer.status == httpx2.codes.OK:
        return ServerFault(message, provider=provider, status=answer.status)
    return CredentialRefused(message, provider=provider, status=answer.status)


def pkce_challenge(verifier: str) -> str:
    """Return the S256 challenge of RFC 7636."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# Redirect of the browser after a login, to a port on this machine.

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


def parse_pasted_redirect(text: str, state: str) -> RedirectResult | None:
    """Parse what the user pasted: the URL where the browser ended, or the code in it.

    Returns None for the URL of another login.
    """
    text = text.strip()
    is_address = "=" in text or "://" in text
    return parse_redirect(text, state) if is_address else RedirectResult(unquote(text))


async def redirect_or_paste(
    arrival: asyncio.Future[RedirectResult],
    paste: ReadPaste | None,
    parse: Callable[[str], RedirectResult | None],
) -> RedirectResult | None:
    """Return what comes first: the redirect of the browser, or the pasted text, parsed.

    An empty text does not count; then the browser is awaited.
    """
    if paste is None:
        return await arrival
    pasting = asyncio.ensure_future(paste())
    try:
        await asyncio.wait((arrival, pasting), return_when=asyncio.FIRST_COMPLETED)
        if arrival.done() or not (text := pasting.result().strip()):
            return await arrival
    finally:
        pasting.cancel()
    return parse(text)


@asynccontextmanager
async def redirect_listener(
    state: str, path: str, port: int = 0
) -> AsyncIterator[tuple[str, asyncio.Future[RedirectResult]]]:
    """Listen on a loopback port; 0 means any. Yields the redirect URL and a future of the result.

    Raises `OSError` when the port is taken.
    """
    arrival: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
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
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{path}", arrival
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _handle_request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    respond: Callable[[bytes], bytes],
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
