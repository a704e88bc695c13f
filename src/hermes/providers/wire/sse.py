"""Server-sent events from a byte stream."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import NamedTuple


class ServerEvent(NamedTuple):
    name: bytes
    data: bytes


async def server_events(chunks: AsyncIterable[bytes]) -> AsyncIterator[ServerEvent]:
    """The events in `chunks`, whose borders mean nothing. Comments and empty events are dropped."""
    buffer, name, data = b"", b"", list[bytes]()
    async for chunk in chunks:
        *lines, buffer = (buffer + chunk).split(b"\n")
        for raw in lines:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            if not line:
                if data:
                    yield ServerEvent(name, b"\n".join(data))
                name, data = b"", []
            elif line.startswith(b"data:"):
                data.append(line[5:].lstrip(b" "))
            elif line.startswith(b"event:"):
                name = line[6:].strip()
    if buffer.startswith(b"data:"):
        data.append(buffer[5:].strip())
    if data:
        yield ServerEvent(name, b"\n".join(data))
