"""Requests to Discord, one attempt each: when to try again is for the gateway's outbox to decide.
The library's own client would sleep and repeat inside a call, for minutes at worst."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import aiohttp
import yarl
from discord import (
    ClientException,
    DiscordServerError,
    File,
    Forbidden,
    HTTPException,
    NotFound,
    RateLimited,
)
from discord.gateway import DiscordWebSocket
from discord.http import HTTPClient, Route, json_or_text

TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
LONGEST_LIMITS = 256
"""Limits remembered before those that are over are forgotten."""
EVERYTHING = ""
"""The limit of the whole account."""
ERRORS = {403: Forbidden, 404: NotFound}
UNLIMITED = ("/interactions/", "/webhooks/")
"""Answers to commands and buttons; the limit of the account does not count them."""


class NotDiscord(HTTPException):
    """A server before Discord refused the request: Discord has not seen it."""


class NoMoreSessions(ClientException):
    """We connected too often today. Once more, and Discord would take the token away."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Discord allows no new connection for {seconds / 60:.0f} minutes")


class Http(HTTPClient):
    """Speaks to `base_url` in place of discord.com, and obeys limits by raising `RateLimited`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, base_url: str, proxy: str | None) -> None:
        super().__init__(loop, proxy=proxy)
        self.base_url = base_url
        self.gateway: yarl.URL | None = None
        self._rest: aiohttp.ClientSession | None = None
        self._limits: dict[str, float] = {}
        """Until when, by the loop's clock, nothing may be asked."""

    async def request(
        self,
        route: Route,
        *,
        files: Sequence[File] | None = None,
        form: Iterable[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Any:
        key = f"{route.key}:{route.major_parameters}"
        self._wait_or_raise(key, EVERYTHING if not route.path.startswith(UNLIMITED) else key)
        for file in files or ():
            file.reset(seek=True)
        if form:
            kwargs["data"] = aiohttp.FormData(quote_fields=False)
            for field in form:
                kwargs["data"].add_field(**field)
        reason = kwargs.pop("reason", None)
        headers = {"User-Agent": self.user_agent}
        if reason:
            headers["X-Audit-Log-Reason"] = reason
        if self.token is not None:
            headers["Authorization"] = f"Bot {self.token}"
        url = yarl.URL(self.base_url + route.url.removeprefix(Route.BASE), encoded=True)
        async with self._session().request(
            route.method, url, headers=headers, proxy=self.proxy, **kwargs
        ) as response:
            data = await json_or_text(response)
            self._learn(key, response.status, response.headers, data)
            if response.status < 300:
                return data
            if response.status >= 500:
                raise DiscordServerError(response, data)
            kind = ERRORS.get(response.status, HTTPException)
            raise (kind if isinstance(data, dict) else NotDiscord)(response, data)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        """The library begins at an address of its own; begin at the one that Discord gives."""
        asked = yarl.URL(url)
        if self.gateway is not None and asked.host == DiscordWebSocket.DEFAULT_GATEWAY.host:
            url = str(self.gateway.with_query(asked.query))
        return await super().ws_connect(url, compress=compress)

    async def find_gateway(self) -> None:
        answer = await self.request(Route("GET", "/gateway/bot"))
        limit = answer.get("session_start_limit") or {}
        if limit.get("remaining", 1) <= 0:
            raise NoMoreSessions(limit.get("reset_after", 0) / 1000)
        self.gateway = yarl.URL(answer["url"])

    async def download(self, url: str) -> aiohttp.ClientResponse:
        """A file of the CDN; without our token."""
        return await self._session().get(yarl.URL(url, encoded=True), proxy=self.proxy)

    def _session(self) -> aiohttp.ClientSession:
        """Shares the connections of the library's own session, which it hides, and ends with it."""
        if self._rest is None:
            self._rest = aiohttp.ClientSession(
                connector=self.connector,
                connector_owner=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=TIMEOUT,
            )
        if self._rest.closed:
            raise aiohttp.ClientConnectionError("the connection was closed")
        return self._rest

    def _wait_or_raise(self, *keys: str) -> None:
        now = self.loop.time()
        until = max(self._limits.get(key, 0.0) for key in keys)
        if until > now:
            raise RateLimited(until - now)

    def _learn(self, key: str, status: int, headers: Mapping[str, str], data: Any) -> None:
        now = self.loop.time()
        if len(self._limits) > LONGEST_LIMITS:
            self._limits = {name: until for name, until in self._limits.items() if until > now}
        if status == 429:
            body = data if isinstance(data, dict) else {}
            seconds = float(body.get("retry_after") or headers.get("Retry-After") or 5.0)
            # Without a body it is the server before Discord, which shuts out this machine.
            everything = body.get("global") or not body
            self._limits[EVERYTHING if everything else key] = now + seconds
            raise RateLimited(seconds)
        if headers.get("X-RateLimit-Remaining") == "0":
            self._limits[key] = now + float(headers.get("X-RateLimit-Reset-After", 0.0))
