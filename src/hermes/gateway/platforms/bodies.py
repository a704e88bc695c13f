"""The body of a request over ASGI, up to a limit.

A client that sends more is answered at once, but its connection is not closed as long as it sends:
it looks for the answer only then, and of a connection that is closed before it sees nothing at all.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

MOST_READ_AWAY = 64_000_000
"""Bytes."""
READ_AWAY_SECONDS = 20.0

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class TooLarge(Exception):
    def __init__(self, *, waits: bool, more: bool = True) -> None:
        super().__init__("the body is too large")
        self.sends = more and not waits
        """The client goes on sending; else it has ended, or waits for a word of ours."""


class ClientLeft(Exception):
    """Before its body was complete."""


async def body_of(receive: Receive, headers: Mapping[str, str], most: int) -> bytes:
    """Raises `TooLarge` and `ClientLeft`."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise TooLarge(waits="expect" in headers)
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ClientLeft
        body += event.get("body", b"")
        more = event.get("more_body", False)
        if len(body) > most:
            raise TooLarge(waits=False, more=more)
        if not more:
            return bytes(body)


async def read_away(receive: Receive, too_large: TooLarge) -> None:
    """Between the answer and its end, which closes the connection."""
    left = MOST_READ_AWAY
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READ_AWAY_SECONDS):
            while too_large.sends and left > 0:
                event = await receive()
                left -= len(event.get("body", b""))
                if not event.get("more_body", False):
                    return
