from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes.core.errors import ProviderError

if TYPE_CHECKING:
    import httpx2


# Failures of a call. The tables that judge them, and the names of what the HTTP client raises,
# are loaded when there is one: most programs end without it, and importing a wire stays cheap.


def http_errors() -> tuple[type[Exception], ...]:
    """What the client raises when no complete answer comes, or for what is no address."""
    client = import_module("httpx2")
    return client.HTTPError, client.InvalidURL


def refused(
    provider: str, response: "httpx2.Response", body: bytes, *, secret: str = ""
) -> ProviderError:
    """`secret` is what was sent: some endpoints repeat it in their complaint."""
    if secret:
        body = body.replace(secret.encode(), b"[key]")
    error: ProviderError = _classify().refused(
        provider, response.status_code, response.headers, body
    )
    return error


def failed_inside(provider: str, told: object) -> ProviderError:
    error: ProviderError = _classify().failed_inside(provider, told)
    return error


def unreachable(provider: str, url: str, cause: Exception) -> ProviderError:
    error: ProviderError = _classify().unreachable(provider, url, cause)
    return error


def _classify() -> Any:
    return import_module("hermes.providers.failures.classify")
