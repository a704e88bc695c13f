"""One request to a search service, and its refusals in words."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec

from hermes import __version__
from hermes.core.errors import ToolError, ToolTimedOut
from hermes.tools.web.services import SearchOptions, Service
from hermes.util.late_tls import LateTls

LARGEST = 5_000_000
"""Bytes of an answer."""
QUOTED = 200
"""Characters of a refusal that are shown."""

Connect = Callable[[], httpx2.AsyncClient]

_ANOTHER = "the user can choose another service with the setting web.backend"


def service_client() -> httpx2.AsyncClient:
    """For services the user configured: their proxy is all right, a redirect is not."""
    return httpx2.AsyncClient(follow_redirects=False, trust_env=True, verify=LateTls())


async def ask(
    service: Service, options: SearchOptions, connect: Connect, path: str, body: dict[str, Any]
) -> Any:
    """The decoded answer. Raises `ToolError`; no message has a key in it."""
    key = options.keys.get(service.name, "")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ToolError(f"the key of {service.name} has odd characters in it", hint=_key(service))
    url = f"{service.address(options)}{path}"
    sent: dict[str, Any] = {"params": body} if service.method == "GET" else {"json": body}
    headers = {
        "Accept": "application/json",
        "User-Agent": f"Hermes/{__version__}",
        **service.headers(options),
    }
    try:
        async with asyncio.timeout(options.seconds), connect() as client:
            asked = client.stream(
                service.method, url, headers=headers, timeout=options.seconds, **sent
            )
            async with asked as response:
                data = await _body(response, service.name)
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise ToolTimedOut(f"{service.name} did not answer in time", hint=_ANOTHER) from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        words = _without_key(f"{service.name} cannot be reached: {error}", service, options)
        raise ToolError(words, hint=_where(service)) from error
    if response.status_code >= 300:
        raise refusal(service, options, response.status_code, data)
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ToolError(f"{service.name} did not answer with JSON", hint=_where(service)) from error


async def _body(response: httpx2.Response, name: str) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > LARGEST:
            raise ToolError(f"the answer of {name} is too large")
    return bytes(data)


def refusal(service: Service, options: SearchOptions, status: int, body: bytes) -> ToolError:
    """What a status of a service means, and what to do."""
    name = service.name
    if name == "searxng" and status == 403:
        hint = "the server must list json under search.formats in its settings.yml"
        return ToolError("searxng does not answer in JSON (HTTP 403)", hint=hint)
    if status in (401, 403):
        return ToolError(f"{name} refused the key (HTTP {status})", hint=_key(service))
    if status in (402, 432, 433):
        return ToolError(f"the plan of {name} is used up (HTTP {status})", hint=_ANOTHER)
    if status == 429:
        hint = f"wait a little; {_ANOTHER}"
        return ToolError(f"{name} gets too many searches (HTTP 429)", hint=hint)
    if status >= 500:
        return ToolError(f"{name} has a problem (HTTP {status}); try again later", hint=_ANOTHER)
    if status < 400:
        return ToolError(f"{name} redirects (HTTP {status})", hint=_where(service))
    said = " ".join(body.decode("utf-8", "replace").split())
    words = _without_key(f"{name} refused the search (HTTP {status}): {said}", service, options)
    return ToolError(words[:QUOTED], hint=_ANOTHER)


def _key(service: Service) -> str:
    return f"the user should check {service.variable}" if service.variable else _where(service)


def _where(service: Service) -> str:
    if service.url_variable:
        return f"the user should check {service.url_variable}"
    return _ANOTHER


def _without_key(text: str, service: Service, options: SearchOptions) -> str:
    key = options.keys.get(service.name, "")
    return text.replace(key, "…") if key else text
