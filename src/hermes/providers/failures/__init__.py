"""Errors for failed model calls: each says whether to retry, rotate the key or give up.

The functions here import the classifier and its rule tables on the first failure, so a process
without one never loads them, and importing a wire does not load the HTTP client.
"""

import sys
from collections.abc import Mapping

from hermes.core.errors import ProviderError

__all__ = ["OTHER_HERMES", "failed_in_stream", "http_errors", "refused", "unreachable"]

OTHER_HERMES = "the other Hermes"  #: The provider of `gateway.proxy_url`.


def http_errors() -> tuple[type[Exception], ...]:
    """Return what the clients of model calls raise for an incomplete response or an invalid URL."""
    from hermes.providers.transport import CALL_ERRORS  # for the first request

    httpx2 = sys.modules.get("httpx2")  # used where the environment sets a proxy
    return (*CALL_ERRORS, httpx2.HTTPError, httpx2.InvalidURL) if httpx2 else CALL_ERRORS


def refused(
    provider: str, status: int, headers: Mapping[str, str], body: bytes, *, secret: str = ""
) -> ProviderError:
    """Return the error for a response with a status of 300 or more.

    `secret` is the key that was sent. Some endpoints repeat it in their message, so it is
    replaced before the body is read.
    """
    from hermes.providers.failures import classify  # rule tables: only after a failure

    if secret:
        body = body.replace(secret.encode(), b"[key]")
    return classify.refused(provider, status, headers, body)


def failed_in_stream(provider: str, error: object) -> ProviderError:
    """Return the error for decoded JSON that reports a failure inside a successful response."""
    from hermes.providers.failures import classify  # rule tables: only after a failure

    return classify.failed_in_stream(provider, error)


def unreachable(provider: str, url: str, cause: Exception) -> ProviderError:
    """Return the error for a request that got no complete response."""
    from hermes.providers.failures import classify  # rule tables: only after a failure

    return classify.unreachable(provider, url, cause)
