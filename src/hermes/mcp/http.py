"""Streamable HTTP: each message a POST, answered with JSON or a stream of events."""

import asyncio
import logging
import time
from contextlib import suppress
from typing import ClassVar

import httpx2
import msgspec

from hermes.core.errors import HermesError
from hermes.mcp.failures import HttpRefused, Lost, McpError, SessionGone, Unavailable, Unreachable
from hermes.mcp.http_door import EVENTS, JSON, Answer, Door, can_be_sent, media_type
from hermes.mcp.messages import Message, decode
from hermes.mcp.transport import Listener

SESSION, VERSION, LAST_EVENT = "MCP-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"
MOST_TRIES = 5
"""How often in a row a stream is opened again without anything coming from it."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
GOODBYE_SECONDS = 2.0

log = logging.getLogger(__name__)


class Cursor(msgspec.Struct):
    """How far a stream was read."""

    last: str = ""
    events: int = 0
    pause: float = FIRST_PAUSE
    """Seconds the server wants us to wait before we come back."""


class HttpTransport:
    kind: ClassVar[str] = "http"

    def __init__(self, door: Door) -> None:
        self._door = door
        self._headers: dict[str, str] = {}
        """What identifies the session once there is one."""
        self._exchanges: dict[int, asyncio.Task[None]] = {}
        self._hearing: asyncio.Task[None] | None = None

    async def start(self, listener: Listener) -> None:
        self._listener = listener

    async def send(self, data: bytes, request: int | None = None) -> None:
        if request is None:
            try:
                async with self._post(data) as response:
                    await self._check(response)
            except SessionGone as error:
                self._listener.lost(Lost(str(error)))
                raise
            return
        task = asyncio.create_task(self._exchange(data, request))
        self._exchanges[request] = task
        task.add_done_callback(lambda _: self._exchanges.pop(request, None))

    def forget(self, request: int) -> None:
        if task := self._exchanges.get(request):
            task.cancel()

    def agreed(self, version: str) -> None:
        self._headers[VERSION] = version

    def listen(self) -> None:
        self._hearing = asyncio.create_task(self._hear())

    async def close(self, *, politely: bool) -> None:
        tasks = [*self._exchanges.values(), *((self._hearing,) if self._hearing else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if politely and SESSION in self._headers:
            with suppress(HermesError, TimeoutError):
                async with (
                    asyncio.timeout(GOODBYE_SECONDS),
                    self._door.open("DELETE", self._headers),
                ):
                    pass
        await self._door.close()

    def _post(self, data: bytes) -> Answer:
        headers = {"Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}", **self._headers}
        return self._door.open("POST", headers, data)

    async def _check(self, response: httpx2.Response) -> None:
        if response.status_code == httpx2.codes.NOT_FOUND and SESSION in self._headers:
            raise SessionGone(f"{self._door.name} has ended the session")
        await self._door.check(response)

    async def _exchange(self, data: bytes, request: int) -> None:
        """One request of ours, until its answer has come."""
        cursor = Cursor()
        try:
            if not await self._ask(data, request, cursor):
                await self._resume(request, cursor)
        except McpError as error:
            self._listener.failed(request, error)
            if isinstance(error, SessionGone):
                self._listener.lost(Lost(str(error)))  # the others may have been worked on
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            self._listener.failed(request, Lost(f"the connection to {self._door.name}: {error}"))

    async def _ask(self, data: bytes, request: int, cursor: Cursor) -> bool:
        """Whether the answer came."""
        async with self._post(data) as response:
            await self._check(response)
            self._keep_session(response.headers.get(SESSION, ""))
            if media_type(response) == EVENTS:
                return await self._read_events(response, request, cursor)
            messages = decode(await self._door.read(response))
        if not self._deliver(messages, request):
            raise Lost(
                f"{self._door.name} took the request but did not answer it",
                hint="check that `url` is the address of an MCP server",
            )
        return True

    def _keep_session(self, session: str) -> None:
        if not can_be_sent(session):
            raise Unavailable(f"{self._door.name} gave the session a name that cannot be sent back")
        if session:
            self._headers[SESSION] = session

    async def _resume(self, request: int, cursor: Cursor) -> None:
        """The stream ended early: go on where it did, as long as the server keeps the place."""
        tries = 0
        while cursor.last and tries < MOST_TRIES:
            await asyncio.sleep(cursor.pause)
            before = cursor.events
            try:
                async with self._get(cursor) as response:
                    await self._check(response)
                    if await self._read_events(response, request, cursor):
                        return
            except Unreachable:
                log.info("%s: the stream could not be taken up again", self._door.name)
            tries = 0 if cursor.events > before else tries + 1
        raise Lost(f"the connection to {self._door.name} ended before the answer came")

    async def _hear(self) -> None:
        """The server's own messages, for servers that offer a stream of them."""
        cursor, tries = Cursor(), 0
        while tries < MOST_TRIES:
            before, began = cursor.events, time.monotonic()
            try:
                async with self._get(cursor) as response:
                    await self._door.check(response)
                    if media_type(response) != EVENTS:
                        return
                    await self._read_events(response, None, cursor)
            except HttpRefused as error:
                if not error.transient:
                    return  # it offers none
            except HermesError as error:
                log.info("the stream of %s: %s", self._door.name, error)
            useful = cursor.events > before or time.monotonic() - began > LONGEST_PAUSE
            tries = 0 if useful else tries + 1
            await asyncio.sleep(min(max(cursor.pause, 2.0**tries / 2), LONGEST_PAUSE))

    def _get(self, cursor: Cursor) -> Answer:
        place = {LAST_EVENT: cursor.last} if cursor.last else {}
        return self._door.open("GET", {"Accept": EVENTS, **self._headers, **place})

    async def _read_events(
        self, response: httpx2.Response, request: int | None, cursor: Cursor
    ) -> bool:
        """Whether the answer to `request` came. False when the stream ended or broke before."""
        events = aiter(httpx2.EventSource(response, max_event_size=self._door.most_bytes))
        try:
            async for event in events:
                cursor.events += 1
                if event.id and can_be_sent(event.id):
                    cursor.last = event.id
                if event.retry is not None:
                    cursor.pause = min(max(event.retry, 0) / 1000, LONGEST_PAUSE)
                messages = decode(event.data)
                if self._deliver(messages, request):
                    return True
        except httpx2.SSEError as error:
            raise Lost(f"{self._door.name}: {error}") from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            log.info("the stream of %s broke: %s", self._door.name, error)
        return False

    def _deliver(self, messages: list[Message], request: int | None) -> bool:
        for message in messages:
            self._listener.received(message, request)
        return any(message.is_answer and message.id == request for message in messages)
