"""`GET /metrics` on this machine, for Prometheus (`gateway.metrics_port`)."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable

log = logging.getLogger(__name__)

TYPE = "text/plain; version=0.0.4; charset=utf-8"
LONGEST_REQUEST = 8_192
SECONDS = 10.0


@contextlib.asynccontextmanager
async def metrics_served(port: int, text: Callable[[], bytes]) -> AsyncIterator[str]:
    """Served within it; port 0 is nobody. Gives why they are not, "" when all is well: chats matter
    more than a port that is taken."""
    if not port:
        yield ""
        return
    try:
        server = await asyncio.start_server(
            lambda reader, writer: _answer(reader, writer, text),
            "127.0.0.1",
            port,
            limit=LONGEST_REQUEST,
        )
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        yield (
            f"no metrics are served: gateway.metrics_port {port} cannot be used: {reason.lower()};"
            " set another, or 0 for none, and restart the gateway"
        )
        return
    try:
        yield ""
    finally:
        server.close()


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: Callable[[], bytes]
) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            wanted = head.split(b" ", 2)[:2]
            found = wanted == [b"GET", b"/metrics"]
            body = text() if found else b"only GET /metrics is here\n"
            status = "200 OK" if found else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {TYPE}\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        log.debug("a request for metrics was broken off: %r", error)
    finally:
        writer.close()
