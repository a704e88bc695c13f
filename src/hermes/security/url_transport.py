"""An HTTP transport that connects only where the guard says."""

import ssl
from types import TracebackType

import httpx2

from hermes.security.urls import UrlGuard

MOST_ADDRESSES = 4
"""Addresses of one name that are tried."""

_ONE_REQUEST = httpx2.Limits(max_connections=1, max_keepalive_connections=0)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Vets every request and connects to a vetted address; `Host` and TLS keep the name.

    No connection is kept: it would be found again by its address, under another name. No proxy of
    the environment is used: it would look the name up once more, and elsewhere.
    """

    def __init__(self, guard: UrlGuard, context: ssl.SSLContext) -> None:
        self._guard = guard
        self._inner = httpx2.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=_ONE_REQUEST
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        vetted = await self._guard.vet(request.url)
        *others, last = vetted.addresses[:MOST_ADDRESSES]
        for address in others:
            try:
                return await self._inner.handle_async_request(_to(request, address, vetted.host))
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_to(request, last, vetted.host))

    async def __aenter__(self) -> "GuardedTransport":
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _to(request: httpx2.Request, address: str, name: str) -> httpx2.Request:
    """The same request, for the machine at `address`. Its headers name the host already."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": name},
    )
