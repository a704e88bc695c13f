"""Whose host an address is, and so which keys may be sent to it.

A key goes to its own provider over TLS and to nobody else: not to an address put in the provider's
place, not to a look-alike, not along a redirect (the HTTP client follows none). Addresses are read
by the parser that will send the request, so both mean the same host.
"""

import re
from functools import lru_cache

import httpx2

from hermes.core.errors import ConfigError
from hermes.providers.endpoint import Endpoint
from hermes.providers.endpoints import ENDPOINTS

LOOPBACK = ("127.0.0.1", "localhost", "::1")

_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")
_HTTPS = 443


def may_receive(endpoint: Endpoint, url: str) -> bool:
    """Whether the keys of `endpoint` may be sent to `url`."""
    parsed = _parsed(url)
    if parsed is None:
        return False
    own = _parsed(endpoint.base_url)
    if own is not None and _place(parsed) == _place(own):
        return True
    if parsed.scheme != "https" or parsed.port not in (None, _HTTPS):
        return False
    return any(_matches(pattern, parsed.raw_host.decode()) for pattern in endpoint.key_hosts)


@lru_cache(maxsize=256)
def owner_of(url: str) -> Endpoint | None:
    """The provider whose host this is, or None."""
    return next((e for e in ENDPOINTS if (e.base_url or e.key_hosts) and may_receive(e, url)), None)


def is_loopback(url: str) -> bool:
    parsed = _parsed(url)
    return parsed is not None and parsed.host in LOOPBACK


def checked_address(url: str, said_by: str) -> str:
    """`url` as it is used, without a slash at the end. Raises `ConfigError` for no address.

    `said_by` names the setting or variable it came from.
    """
    parsed = _parsed(url)
    if (
        parsed is not None
        and parsed.host
        and not (parsed.userinfo or parsed.query or parsed.fragment)
    ):
        return url.rstrip("/")
    hint = "an address looks like http://127.0.0.1:8080/v1"
    if parsed is not None and parsed.userinfo:
        hint = "leave out the part before @; a key goes into model.api_key"
        url = f"{parsed.scheme}://…@{parsed.host}"
    raise ConfigError(f"{said_by}: {url!r} is not an address that can be used", hint=hint)


def _place(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.raw_host.decode(), url.port


@lru_cache(maxsize=256)
def _parsed(url: str) -> httpx2.URL | None:
    if _ODD.search(url) or not url.startswith(("http://", "https://")):
        return None
    try:
        return httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):
        return None


def _matches(pattern: str, host: str) -> bool:
    """`*` stands for one label, so `api.*.example.com` is never a host of somebody else."""
    wanted, labels = pattern.split("."), host.split(".")
    return len(wanted) == len(labels) and all(
        want in ("*", label) for want, label in zip(wanted, labels, strict=True)
    )
