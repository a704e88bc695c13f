"""HTTP to the homeserver."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

from hermes.gateway.platforms.matrix.shapes import Json, number, word

PATIENCE = 30.0
"""Seconds for a call that does nothing long."""
TRANSFER = 300.0
"""Seconds for a file."""
CLIENT = "/_matrix/client/v3"


class Refusal(Exception):
    """The homeserver said no. Its words are its own and have no secrets of ours."""

    def __init__(self, status: int, code: str, said: str, seconds: float = 0.0) -> None:
        super().__init__(f"{code or status}: {said}" if said else code or str(status))
        self.status, self.code, self.seconds = status, code, seconds


TROUBLE = (Refusal, aiohttp.ClientError, TimeoutError)
"""All that a call may end with."""


def path(*parts: str, root: str = CLIENT) -> str:
    return "/".join((root, *(quote(part, safe="") for part in parts)))


class Wire:
    def __init__(self, homeserver: str) -> None:
        self._homeserver = homeserver
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self.token = ""

    async def close(self) -> None:
        await self.session.close()

    async def get(
        self, where: str, query: Mapping[str, str] | None = None, *, patience: float = PATIENCE
    ) -> Json:
        return await self.call("GET", where, query=query, patience=patience)

    async def call(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        patience: float = PATIENCE,
    ) -> Json:
        """Raises what `TROUBLE` names. What can be done twice is, when its connection breaks."""
        data = None if body is None else msgspec.json.encode(body)
        again = method in ("GET", "PUT")
        while True:
            try:
                return await self._call(method, where, data, query or {}, patience)
            except aiohttp.ClientConnectorError:
                raise
            except aiohttp.ClientConnectionError:
                if not again:
                    raise
                again = False

    async def upload(self, data: bytes, mime: str, name: str) -> str:
        """The mxc address of a file."""
        url = self._url("/_matrix/media/v3/upload", {"filename": name} if name else {})
        async with self._request("POST", url, data, TRANSFER, mime) as answer:
            return word(await _read(answer), "content_uri")

    @contextlib.asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[aiohttp.ClientResponse]:
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        new = path("media", "download", server, media, root="/_matrix/client/v1")
        old = path("download", server, media, root="/_matrix/media/v3")
        for where in (new, old):  # a server of before 2024 has only the old one
            async with self._request("GET", self._url(where, {}), None, TRANSFER) as answer:
                if answer.status == 200:
                    yield answer
                    return
                refusal = _refusal(answer, await answer.read())
                if where == old or refusal.code not in ("M_UNRECOGNIZED", ""):
                    raise refusal

    async def _call(
        self, method: str, where: str, data: bytes | None, query: Mapping[str, str], patience: float
    ) -> Json:
        async with self._request(method, self._url(where, query), data, patience) as answer:
            return await _read(answer)

    def _request(
        self,
        method: str,
        url: URL,
        data: bytes | None,
        patience: float,
        mime: str = "application/json",
    ) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if data is not None:
            headers["Content-Type"] = mime
        timeout = aiohttp.ClientTimeout(total=patience, connect=15.0)
        return self.session.request(
            method, url, data=data, headers=headers, timeout=timeout, allow_redirects=False
        )

    def _url(self, where: str, query: Mapping[str, str]) -> URL:
        asked = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._homeserver}{where}{asked}", encoded=True)


async def _read(answer: aiohttp.ClientResponse) -> Json:
    body = await answer.read()
    if answer.status != 200:
        raise _refusal(answer, body)
    found = _json(body)
    if found is None:
        raise Refusal(502, "", "the answer is not of a Matrix homeserver")
    return found


def _refusal(answer: aiohttp.ClientResponse, body: bytes) -> Refusal:
    """How long to wait stands in the answer, in a header, or in both."""
    said = _json(body) or {}
    header = answer.headers.get("Retry-After", "")
    seconds = number(said, "retry_after_ms") / 1000 or float(header if header.isdecimal() else 0)
    return Refusal(answer.status, word(said, "errcode"), word(said, "error")[:300], seconds)


def _json(body: bytes) -> Json | None:
    try:
        found = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None
