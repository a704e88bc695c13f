"""From an HTTP failure to the error that decides what happens next."""

from contextlib import suppress
from typing import Any

import httpx2
import msgspec

from hermes.core import errors
from hermes.core.errors import ProviderError

BODY_SHOWN = 300
_CONTEXT_WORDS = (
    "context length",
    "context_length",
    "maximum context",
    "too many tokens",
    "prompt is too long",
    "exceeds the available context",
)
_FILTER_WORDS = ("content_filter", "content policy", "content management policy", "safety system")


def refused(status: int, headers: httpx2.Headers, body: bytes, provider: str) -> ProviderError:
    """The error for an answer with an error status."""
    detail = detail_of(body)
    kind = _kind_of(status, body.decode("utf-8", "replace").lower())
    label, hint = _WORDS.get(kind, ("refused the request", ""))
    message = f"{provider} {label} (HTTP {status})" + (f": {detail}" if detail else "")
    error = kind(message, provider=provider, status=status, body=detail, hint=hint)
    if isinstance(error, errors.RateLimited):
        with suppress(ValueError):
            error.retry_after = float(headers.get("retry-after", ""))
    return error


def unreachable(error: httpx2.HTTPError, url: str, provider: str) -> ProviderError:
    """The error for a request that got no complete answer."""
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.UnsupportedProtocol():
            return errors.Unreachable(
                f"cannot reach {provider} at {url}: {str(error) or type(error).__name__}",
                provider=provider,
                hint="check the address, the network, and whether the server runs",
            )
        case httpx2.TimeoutException():
            return errors.StreamStalled(f"{provider} stopped answering", provider=provider)
        case _:
            cause = str(error) or type(error).__name__
            return errors.StreamCut(
                f"the connection to {provider} was cut: {cause}", provider=provider
            )


def detail_of(body: bytes) -> str:
    """What the endpoint said, in one line."""
    text = body.decode("utf-8", "replace")
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        looks_like_page = text.lstrip()[:1] == "<"
        return "" if looks_like_page else " ".join(text.split())[:BODY_SHOWN]
    return " ".join(_message_in(data).split())[:BODY_SHOWN]


def _message_in(data: Any) -> str:
    if isinstance(data, dict):
        for name in ("error", "message", "detail"):
            if data.get(name):
                return _message_in(data[name])
        return msgspec.json.encode(data).decode()
    return data if isinstance(data, str) else msgspec.json.encode(data).decode()


def _kind_of(status: int, body: str) -> type[ProviderError]:
    if status == 413 or (status == 400 and any(word in body for word in _CONTEXT_WORDS)):
        return errors.ContextOverflow
    if status == 400 and any(word in body for word in _FILTER_WORDS):
        return errors.ContentRefused
    if status == 429 and "insufficient_quota" in body:
        return errors.QuotaSpent
    if status >= 500:
        return errors.ServerFault
    return _BY_STATUS.get(status, errors.RequestRefused)


_BY_STATUS: dict[int, type[ProviderError]] = {
    401: errors.CredentialRefused,
    402: errors.QuotaSpent,
    403: errors.CredentialRefused,
    404: errors.ModelNotFound,
    408: errors.ServerFault,
    429: errors.RateLimited,
}

_WORDS: dict[type[ProviderError], tuple[str, str]] = {
    errors.CredentialRefused: (
        "refused the key",
        "`hermes config explain model.provider` shows which key is used",
    ),
    errors.QuotaSpent: ("says the credit is used up", "top up the account or choose another model"),
    errors.RateLimited: ("is limiting requests", "wait a little, or choose another model"),
    errors.ModelNotFound: (
        "does not know this model or address",
        "choose one with --model, or `hermes config set model.default <name>`",
    ),
    errors.ContextOverflow: ("says the conversation is too long", "start anew with `hermes chat`"),
    errors.ContentRefused: ("refused the content", ""),
    errors.ServerFault: ("has trouble of its own", "try again in a moment"),
}
