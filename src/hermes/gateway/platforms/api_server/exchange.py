"""One request and its answer, over ASGI. The client may leave at any moment."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec

from hermes.core.errors import HermesError
from hermes.gateway.platforms.api_server.options import Options
from hermes.gateway.platforms.api_server.refusals import (
    OUR_FAULT,
    Headers,
    Refused,
    invalid,
    refusal_of,
)
from hermes.gateway.platforms.bodies import ClientLeft, Receive, TooLarge, body_of, read_away

logger = logging.getLogger(__name__)

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
CLOSE = (("Connection", "close"),)
BEAT = b": still here\n\n"

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
T = TypeVar("T")


class Reply(msgspec.Struct, frozen=True):
    body: bytes = b""
    status: int = 200
    headers: Headers = ()
    kind: str = JSON
    stream: AsyncGenerator[bytes, None] | None = None
    """Instead of `body`: server-sent events. It is read to its end, also when nobody listens."""
    close: Callable[[], Awaitable[None]] | None = None
    """Called at the end, also of a stream that was never begun."""


def answered(value: Any, status: int = 200, headers: Headers = ()) -> Reply:
    return Reply(msgspec.json.encode(value), status, headers)


class Request:
    """What a client asked."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        """Names of `headers` are in small letters."""
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.places: Mapping[str, str] = {}
        """What stands in the path for `{name}`."""
        self._gone = False
        self._leaving: list[Callable[[], object]] = []
        self.watched: Callable[[], None] = lambda: None
        """Called when somebody wants to know whether the client leaves."""

    def decoded(self, kind: type[T]) -> T:
        """The body; raises `Refused` for one that is no JSON of this form."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except msgspec.ValidationError as error:
            text, _, where = str(error).partition(" - at `")
            place = where.rstrip("`").removeprefix("$.").removeprefix("$")
            raise invalid(f"{text} at {place or 'the top'}", param=place) from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise invalid(f"the body is not valid JSON: {said}", code="invalid_json") from None

    @property
    def left(self) -> bool:
        """Whether the client has left; only who waits for that with `on_gone` can know."""
        return self._gone

    def on_gone(self, do: Callable[[], object]) -> None:
        """`do` is called when the client leaves before its answer; now, when it has."""
        if self._gone:
            do()
        else:
            self._leaving.append(do)
            self.watched()

    def gone(self) -> None:
        self._gone = True
        for do in self._leaving:
            do()
        self._leaving.clear()


class Exchange:
    """The way to one client and back."""

    def __init__(self, receive: Receive, send: Send, options: Options, shared: Headers) -> None:
        """`shared` are headers that every answer has."""
        self._receive, self._send, self._options = receive, send, options
        self._shared = shared
        self._beats = self._spoke = False
        self._watcher: asyncio.Task[None] | None = None
        self._unread: TooLarge | None = None

    async def body(self, headers: Mapping[str, str]) -> bytes:
        """All of it. Raises `Refused` for too much, or for nothing in too long a time."""
        most = self._options.most_body_bytes
        try:
            return await body_of(self._soon, headers, most)
        except TooLarge as error:
            self._unread = error
            message = f"the body is larger than {most} bytes"
            raise Refused(413, message, code="request_too_large", headers=CLOSE) from None
        except ClientLeft:
            raise Refused(400, "the client left") from None
        except TimeoutError:
            message = "the request did not come to its end"
            raise Refused(408, message, code="timeout", headers=CLOSE) from None

    async def _soon(self) -> MutableMapping[str, Any]:
        async with asyncio.timeout(self._options.body_seconds):
            return await self._receive()

    def watch(self, request: Request) -> None:
        """Tell `request` when its client leaves, and let a silent stream show that it is alive."""
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch(request))

    async def _watch(self, request: Request) -> None:
        while True:
            try:
                async with asyncio.timeout(self._options.beat_seconds):
                    event = await self._receive()
            except TimeoutError:
                if self._beats and not self._spoke:
                    await self._write(BEAT, more=True)
                self._spoke = False
                continue
            if event["type"] == "http.disconnect":
                request.gone()
                return

    async def answer(self, reply: Reply) -> None:
        try:
            if reply.stream is None:
                await self._head(reply, (("Content-Length", str(len(reply.body))),))
                await self._write_last(reply.body)
            else:
                async with aclosing(to_the_end(reply.stream)) as pieces:
                    await self._streamed(reply, pieces)
        finally:
            await self._unwatch()
            if reply.close is not None:
                await reply.close()

    async def _write_last(self, piece: bytes) -> None:
        if self._unread is None:
            await self._end(piece)
            return
        await self._write(piece, more=True)
        await read_away(self._soon, self._unread)
        await self._end(b"")

    async def _streamed(self, reply: Reply, pieces: AsyncGenerator[bytes, None]) -> None:
        await self._head(reply, (("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no")))
        self._beats = True
        async for piece in pieces:
            self._spoke = True
            await self._write(piece, more=True)
        await self._end(b"")

    async def _unwatch(self) -> None:
        if self._watcher is not None and not self._watcher.done():
            self._watcher.cancel()
            await asyncio.wait([self._watcher])

    async def _end(self, piece: bytes) -> None:
        await self._unwatch()  # that the answer is complete looks like leaving
        await self._write(piece, more=False)

    async def _head(self, reply: Reply, more: Headers) -> None:
        kind = (("Content-Type", reply.kind),) if reply.kind else ()
        fields = (*kind, *more, *self._shared, *reply.headers)
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]
        await self._send(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )

    async def _write(self, piece: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": more})


async def to_the_end(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """`pieces`, and what became of them when they break off: the status was sent long ago."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                yield piece
        except HermesError as error:
            yield event_bytes(msgspec.json.encode(refusal_of(error).answer))
        except Exception:  # the client must not take half an answer for a whole one
            logger.exception("an answer broke off")
            yield event_bytes(msgspec.json.encode(OUR_FAULT.answer))


def event_bytes(data: bytes, name: str = "", number: int | None = None) -> bytes:
    """A server-sent event. `data` is JSON, so it has no line breaks."""
    head = f"event: {name}\n" if name else ""
    if number is not None:
        head = f"id: {number}\n{head}"
    return head.encode() + b"data: " + data + b"\n\n"
