"""OAuth tokens: requests to login servers, refreshes, and the browser redirect."""

import asyncio
import base64
import binascii
import hmac
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import CredentialRefused, ProviderError, RateLimited, ServerFault
from hermes.providers.failures import unreachable

REQUEST_SECONDS = 30.0
"""Longest duration of one request to a login server."""

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
    expires_at: float | None = None
    """Seconds since the epoch; None when unknown or never."""
    scope: str = ""
    token_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    """Google issues one to installed programs too and requires it for each refresh."""
    account_id: str = ""
    base_url: str = ""
    """Base URL that came with the login."""
    gone: bool = False
    """The login server does not renew it any more. Stored under this name."""

    def __repr__(self) -> str:
        return f"Tokens(expires_at={self.expires_at!r}, gone={self.gone!r})"

    def is_valid(self, now: float, margin: float = 0.0) -> bool:
        return self.expires_at is None or self.expires_at > now + margin


class TokenResponse(msgspec.Struct, frozen=True):
    """Response of a login server. It may contain tokens and is never shown."""

    status: int
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status}, error={self.error!r})"

    @property
    def ok(self) -> bool:
        return self.status == httpx2.codes.OK and not self.error

    @property
    def error(self) -> str:
        """The error code from its various places; empty when there is none."""
        error = self.fields.get("error", "")
        if isinstance(error, dict):
            error = error.get("code", "")
        return _NOT_IN_ERROR_CODE.sub("", str(error or self.fields.get("code", "")))[:80]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """Return a number, also one written as text."""
        try:
            return float(self.fields[name])
        except (KeyError, TypeError, ValueError):
            return None


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
        response = await client.post(
            url,
            data=form,
            json=document,
            headers=HEADERS,
            timeout=REQUEST_SECONDS,
            follow_redirects=False,
        )
    except httpx2.HTTPError as error:
        raise unreachable(provider, url, error) from error
    answer = TokenResponse(response.status_code, json_object(response.content))
    if answer.status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        raise login_error(answer, provider, "failed")
    return answer


def json_object(body: bytes) -> dict[str, Any]:
    """Decode a JSON object; an empty one for anything else."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
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


# Redirect of the browser after a login, to a port on this machine.

REDIRECT_PATH = "/oauth2callback"
VISIT_SECONDS = 10.0
"""Browsers open connections that they do not use."""

DONE = "You are logged in. You can close this page."
DECLINED = "The login was declined. You can close this page."
UNKNOWN_REQUEST = "This is not the pending login."


class RedirectResult(NamedTuple):
    """What the browser sent: a code, or an error."""

    code: str
    error: str = ""


def parse_redirect(query: str, state: str) -> RedirectResult | None:
    """Parse the query of a redirect; None when it does not carry this state."""
    fields = {name: values[0] for name, values in parse_qs(query).items()}
    if not hmac.compare_digest(fields.get("state", "").encode(), state.encode()):
        return None
    code, error = fields.get("code", ""), fields.get("error", "")
    return RedirectResult(code, error) if code or error else None


def parse_pasted_redirect(text: str, state: str) -> RedirectResult | None:
    """Parse what the user pasted: the URL where the browser ended, or the code in it.

    Returns None for the URL of another login.
    """
    text = text.strip()
    if "=" in text or "://" in text:
        return parse_redirect(text.partition("#")[0].rpartition("?")[2], state)
    return RedirectResult(unquote(text))


@asynccontextmanager
async def redirect_listener(
    state: str,
) -> AsyncIterator[tuple[str, asyncio.Future[RedirectResult]]]:
    """Listen on a loopback port. Yields the redirect URL and a future of the result."""
    arrival: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
    tasks: set[asyncio.Task[None]] = set()

    def on_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_handle_request(reader, writer, state, arrival))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(on_connect, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{REDIRECT_PATH}", arrival
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _handle_request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    state: str,
    arrival: asyncio.Future[RedirectResult],
) -> None:
    try:
        with suppress(
            TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(VISIT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_redirect_response(head, state, arrival))
                await writer.drain()
    finally:
        writer.close()


def _redirect_response(head: bytes, state: str, arrival: asyncio.Future[RedirectResult]) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    outcome = parse_redirect(query, state) if (method, path) == ("GET", REDIRECT_PATH) else None
    if outcome is None:
        return _page("404 Not Found", UNKNOWN_REQUEST)
    if not arrival.done():
        arrival.set_result(outcome)
    return _page("200 OK", DONE if outcome.code else DECLINED)


def _page(status: str, words: str) -> bytes:
    body = f"<!doctype html><title>Hermes</title><p>{words}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
