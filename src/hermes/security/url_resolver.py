"""From a name to its addresses."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol

from hermes.util.threads import in_thread

LONGEST_LOOKUP = 10.0
"""Seconds for a name server to answer."""


class Resolver(Protocol):
    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Every address of `host`, best first. Raises `OSError` when there is none; that it took
        too long is one, too (`TimeoutError`)."""
        ...


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """What the operating system answers."""
    async with asyncio.timeout(LONGEST_LOOKUP):
        found = await in_thread(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))
