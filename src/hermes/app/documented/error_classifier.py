"""`agent.error_classifier`: what a failure of a model endpoint means."""

import re
from typing import Any

import httpx2
import msgspec

from hermes.core import errors
from hermes.core.errors import ProviderError
from hermes.providers.failures.classify import failed_in_stream, refused, unreachable

RETRY = (
    errors.Transient,
    errors.RateLimited,
    errors.SignatureRefused,
    errors.UnicodeRefused,
    errors.OptionRefused,
)
ROTATE = (errors.CredentialRefused, errors.QuotaSpent, errors.RateLimited)
STAY = (
    errors.ContextOverflow,
    errors.ContentRefused,
    errors.SignatureRefused,
    errors.OptionRefused,
)
"""With these another model does not help, or not yet."""


class ClassifiedError(msgspec.Struct, frozen=True):
    reason: str
    """The class in words with underscores: `rate_limited`, `context_overflow`, `stream_cut`, …"""
    message: str
    status_code: int | None = None
    retry_after: float | None = None
    """Seconds the endpoint asked to wait."""
    retryable: bool = False
    """The same request may succeed later, or once it is mended."""
    should_compress: bool = False
    should_rotate_credential: bool = False
    should_fallback: bool = False
    hint: str = ""


def classify_api_error(
    error: BaseException,
    provider: str = "",
    model: str = "",  # noqa: ARG001 - documented; the class does not depend on it
    **_more: Any,
) -> ClassifiedError:
    """`error` is what a client of an API raised: ours, httpx2, or one with `status_code` and a
    `body` or `response`, as the SDKs of OpenAI and Anthropic have."""
    kind = _ours(error, provider)
    return ClassifiedError(
        reason=re.sub(r"(?<!^)(?=[A-Z])", "_", type(kind).__name__).lower(),
        message=str(kind),
        status_code=kind.status,
        retry_after=kind.retry_after,
        retryable=isinstance(kind, RETRY),
        should_compress=isinstance(kind, errors.ContextOverflow),
        should_rotate_credential=isinstance(kind, ROTATE),
        should_fallback=not isinstance(kind, STAY),
        hint=kind.hint,
    )


def _ours(error: BaseException, provider: str) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL):
        return unreachable(provider, _address(error), error)
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if isinstance(status, int) and status >= 300:
        headers = dict(getattr(response, "headers", None) or {})
        return refused(provider, status, headers, _body(error, response))
    if isinstance(error, TimeoutError):
        return errors.StreamStalled(f"no answer in time: {error}", provider=provider)
    if isinstance(error, ConnectionError):
        return errors.Unreachable(f"no connection: {error}", provider=provider)
    return failed_in_stream(provider, getattr(error, "body", None) or str(error))


def _address(error: httpx2.HTTPError | httpx2.InvalidURL) -> str:
    try:
        return str(error.request.url) if isinstance(error, httpx2.HTTPError) else ""
    except RuntimeError:  # the error knows of no request
        return ""


def _body(error: BaseException, response: Any) -> bytes:
    body = getattr(error, "body", None)
    if body is None:
        body = getattr(response, "content", None)
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body or str(error))
