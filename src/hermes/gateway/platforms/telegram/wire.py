"""The library's client: addresses, proxy, time limits, and other ways to Telegram."""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import httpx
import msgspec
from telegram import Bot
from telegram.request import HTTPXRequest

from hermes.gateway.platforms.base import NotConnected
from hermes.gateway.platforms.telegram.failures import TooOften
from hermes.gateway.platforms.telegram.options import Options
from hermes.util.late_tls import LateTls

CONNECTIONS = 32
CONNECT, READ, WRITE, UPLOAD = 10.0, 30.0, 30.0, 120.0
"""Seconds."""


def bot_of(options: Options) -> Bot:
    """Raises `NotConnected` for a proxy that cannot be used."""
    # Both tell the log addresses, and the token is in them.
    for library in ("httpx", "telegram"):
        logging.getLogger(library).setLevel(logging.WARNING)
    more: dict[str, Any] = {"verify": LateTls()}
    if options.fallback_ips and not options.proxy:
        more["transport"] = FallbackTransport(options.fallback_ips)
    try:
        request = Request(
            connection_pool_size=CONNECTIONS,
            connect_timeout=CONNECT,
            read_timeout=READ,
            write_timeout=WRITE,
            media_write_timeout=UPLOAD,
            pool_timeout=CONNECT,
            proxy=options.proxy or None,
            httpx_kwargs=more,
        )
    except (RuntimeError, ValueError, httpx.InvalidURL) as error:
        raise NotConnected(
            f"the proxy to Telegram cannot be used: {type(error).__name__}",
            hint="telegram.proxy_url is http://host:port, or socks5:// with the package socksio",
        ) from None
    return Bot(
        options.token,
        base_url=f"{options.base_url}/bot",
        base_file_url=f"{options.base_url}/file/bot",
        request=request,
        get_updates_request=request,
    )


class Request(HTTPXRequest):
    async def do_request(self, *args: Any, **options: Any) -> tuple[int, bytes]:
        """Raises `TooOften` for 429."""
        status, body = await super().do_request(*args, **options)
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise TooOften(_retry_after(body))
        return status, body


class FallbackTransport(httpx.AsyncBaseTransport):
    """Other addresses of the same host, for when its name cannot be looked up or its first address
    not be reached. The name stays what certificates are checked against."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._inner = httpx.AsyncHTTPTransport(verify=LateTls())
        self._addresses: list[str | None] = [None, *addresses]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        failure: httpx.TransportError = httpx.ConnectError("no address")
        for address in tuple(self._addresses):
            try:
                response = await self._inner.handle_async_request(_to(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            else:
                # What works comes first from now on.
                self._addresses.remove(address)
                self._addresses.insert(0, address)
                return response
        raise failure

    async def aclose(self) -> None:
        await self._inner.aclose()


def _retry_after(body: bytes) -> float:
    try:
        return msgspec.json.decode(body, type=_Refusal).parameters.retry_after
    except msgspec.MsgspecError:
        return _Parameters().retry_after


class _Parameters(msgspec.Struct, frozen=True):
    retry_after: float = 5.0


class _Refusal(msgspec.Struct, frozen=True):
    parameters: _Parameters = _Parameters()


def _to(request: httpx.Request, address: str | None) -> httpx.Request:
    """The same request to another address. Nothing of it was sent, so its body is still whole."""
    if address is None:
        return request
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )
