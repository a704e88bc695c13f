"""The tokens of a login, and how they are asked for."""

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
"""Longest time for one request to a login server."""

HEADERS = {"Accept": "application/json", "User-Agent": f"hermes/{__version__}"}

REVOKED_ERRORS = frozenset(
    {
        "invalid_grant",
        "refresh_token_expired",
        "refresh_token_reused",
        "refresh_token_invalidated",
    }
)
"""Answers that mean: this login will not come back."""

_OPENAI_CLAIMS = "https://api.openai.com/auth"
_NOT_IN_ERROR_CODE = re.compile(r"[^A-Za-z0-9_.\- ]")


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a login gave, as it is stored."""

    access_token: str
    refresh_token: str = ""
    expires_at: float | None = None
    """Seconds since the epoch; None when it is not known or never."""
    scope: str = ""
    token_url: str = ""
    client_id: str = ""
    client_secret: str = ""
    """Google gives one to installed programs too, and wants it back with each renewal."""
    account_id: str = ""
    base_url: str = ""
    """The address the login brought along."""
    gone: bool = False
    """The login server will not renew it any more."""

    def __repr__(self) -> str:
        return f"Tokens(expires_at={self.expires_at!r}, gone={self.gone!r})"

    def is_valid(self, now: float, margin: float = 0.0) -> bool:
        return self.expires_at is None or self.expires_at > now + margin


class TokenResponse(msgspec.Struct, frozen=True):
    """What a login server said. It may hold tokens: it is never shown."""

    status: int
    fields: dict[str, Any]

    def __repr__(self) -> str:
        return f"Answer({self.status}, error={self.error!r})"

    @property
    def ok(self) -> bool:
        return self.status == httpx2.codes.OK and not self.error

    @property
    def error(self) -> str:
        """The error code, in its several places; empty when there is none."""
        error = self.fields.get("error", "")
        if isinstance(error, dict):
            error = error.get("code", "")
        return _NOT_IN_ERROR_CODE.sub("", str(error or self.fields.get("code", "")))[:80]

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A number, also one written as text."""
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

    Raises a `Transient` when nothing came back, or a fault of the server.
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
    """The JSON object of a body; empty when it is something else."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return fields if isinstance(fields, dict) else {}


async def refresh_tokens(
    client: httpx2.AsyncClient, tokens: Tokens, provider: str, now: float
) -> Tokens | None:
    """New tokens for old; None when the login is gone. Raises a `ProviderError` otherwise."""
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
    raise login_error(answer, provider, "would not renew the login")


def parse_tokens(answer: TokenResponse, now: float, before: Tokens) -> Tokens:
    """The tokens of an answer; what it does not mention stays as it was in `before`."""
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
    """The address of the API on the host a Qwen login names; empty when it names none."""
    if not resource:
        return ""
    url = resource if resource.startswith(("http://", "https://")) else f"https://{resource}"
    url = url.rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def jwt_claims(token: str) -> dict[str, Any]:
    """What a JWT says of itself, unverified: it is our own token, only read for its dates."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}


def chatgpt_account_id(*tokens: str) -> str:
    """The ChatGPT account that a token of OpenAI names."""
    for token in tokens:
        held = jwt_claims(token).get(_OPENAI_CLAIMS)
        account = held.get("chatgpt_account_id") if isinstance(held, dict) else None
        if isinstance(account, str) and account:
            return account
    return ""


def login_error(answer: TokenResponse, provider: str, what: str) -> ProviderError:
    """The error for an answer that is neither tokens nor an end of the login."""
    said = f" ({answer.error})" if answer.error else ""
    message = f"the login server of {provider} {what}: status {answer.status}{said}"
    if answer.status == httpx2.codes.TOO_MANY_REQUESTS:
        return RateLimited(message, provider=provider, status=answer.status)
    if answer.status >= 500 or answer.status == httpx2.codes.OK:
        return ServerFault(message, provider=provider, status=answer.status)
    return CredentialRefused(message, provider=provider, status=answer.status)


# Where the browser comes back to after a login: an address on this machine, for one visit.

REDIRECT_PATH = "/oauth2callback"
VISIT_SECONDS = 10.0
"""Browsers open connections that they do not use."""

DONE = "You are logged in. You can close this page."
DECLINED = "The login was declined. You can close this page."
UNKNOWN_REQUEST = "This is not the login that is waited for."


class RedirectResult(NamedTuple):
    """What the browser brought: a code, or why there is none."""

    code: str
    error: str = ""


def parse_redirect(query: str, state: str) -> RedirectResult | None:
    """What a query says; None when it is not the answer to the question with this state."""
    fields = {name: values[0] for name, values in parse_qs(query).items()}
    if not hmac.compare_digest(fields.get("state", "").encode(), state.encode()):
        return None
    code, error = fields.get("code", ""), fields.get("error", "")
    return RedirectResult(code, error) if code or error else None


def parse_pasted_redirect(text: str, state: str) -> RedirectResult | None:
    """The same for what a person copied: the address the browser ended at, or the code in it.

    None when it is the address of another login.
    """
    text = text.strip()
    if "=" in text or "://" in text:
        return parse_redirect(text.partition("#")[0].rpartition("?")[2], state)
    return RedirectResult(unquote(text))


@asynccontextmanager
async def redirect_listener(
    state: str,
) -> AsyncIterator[tuple[str, asyncio.Future[RedirectResult]]]:
    """The address to send the browser to, and what it will have brought."""
    arrival: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
    visits: set[asyncio.Task[None]] = set()

    def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_handle_request(reader, writer, state, arrival))
        visits.add(task)
        task.add_done_callback(visits.discard)

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{REDIRECT_PATH}", arrival
    finally:
        server.close()
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)


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
