"""HTTP with SSE, as in the protocol of 2024: one stream of events, and an address to post to."""

import asyncio
from typing import ClassVar

import httpx2

from hermes.mcp.failures import Lost, McpError, Misdirected, Unavailable
from hermes.mcp.http_door import EVENTS, JSON, Door, media_type
from hermes.mcp.messages import decode
from hermes.mcp.transport import Listener


class SseTransport:
    kind: ClassVar[str] = "sse"

    def __init__(self, door: Door) -> None:
        self._door = door
        self._reading: asyncio.Task[None] | None = None
        self._address: asyncio.Future[httpx2.URL] | None = None

    async def start(self, listener: Listener) -> None:
        self._listener = listener
        self._address = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(self._address))
        await asyncio.shield(self._address)

    async def send(self, data: bytes, request: int | None = None) -> None:  # noqa: ARG002 - one stream
        if self._address is None or not self._address.done():
            raise Lost(f"{self._door.name} is not connected")
        headers = {"Content-Type": JSON, "Accept": JSON}
        async with self._door.open("POST", headers, data, self._address.result()) as response:
            await self._door.check(response)

    def forget(self, request: int) -> None:
        pass

    def agreed(self, version: str) -> None:
        pass

    def listen(self) -> None:
        pass

    async def close(self, *, politely: bool) -> None:  # noqa: ARG002 - it knows no goodbye
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._address is not None:
            self._address.cancel()
        await self._door.close()

    async def _read(self, address: asyncio.Future[httpx2.URL]) -> None:
        error: McpError = Lost(f"{self._door.name} ended the connection")
        try:
            async with self._door.open("GET", {"Accept": EVENTS}) as response:
                await self._door.check(response)
                if media_type(response) != EVENTS:
                    raise Unavailable(f"{self._door.name} does not speak MCP at this address")
                await self._take_events(response, address)
        except McpError as problem:
            error = problem
        except (httpx2.HTTPError, httpx2.StreamError) as problem:
            error = Lost(f"the connection to {self._door.name} broke: {problem}")
        if address.done():
            self._listener.lost(error)
        else:
            address.set_exception(error)

    async def _take_events(
        self, response: httpx2.Response, address: asyncio.Future[httpx2.URL]
    ) -> None:
        async for event in httpx2.EventSource(response, max_event_size=self._door.most_bytes):
            if event.event == "endpoint" and not address.done():
                address.set_result(self._endpoint(event.data))
            elif event.event == "message":
                for message in decode(event.data):
                    self._listener.received(message, None)

    def _endpoint(self, text: str) -> httpx2.URL:
        """Where to post to. It must be the server itself: messages and credentials go there."""
        try:
            url = self._door.url.join(text.strip())
        except (httpx2.InvalidURL, ValueError) as error:
            raise Unavailable(f"{self._door.name} named no address to post to") from error
        if url.origin != self._door.url.origin:
            raise Misdirected(
                f"{self._door.name} wants its messages sent to another host, {url.host}",
                hint="set `url` to an address there if you trust it",
            )
        return url
