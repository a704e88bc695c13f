"""HTTP by hand, for what no client library would send."""

import asyncio
import json
from typing import Any

from tests.integration.platforms.api_server.conftest import Served


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(first.split()[1]), headers, body

    async def until(self, text: bytes) -> bytes:
        return await self._reader.readuntil(text)

    async def rest(self) -> bytes:
        """Everything until the server closes, or cuts."""
        try:
            return await self._reader.read()
        except ConnectionError:
            return b""

    def close(self) -> None:
        self.writer.close()


async def dialled(server: Served) -> Wire:
    return Wire(*await asyncio.open_connection("127.0.0.1", server.port))


def post(server: Served, path: str, body: Any, *lines: str) -> bytes:
    """A whole request; `lines` are more headers."""
    data = json.dumps(body).encode()
    head = [
        f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {server.key}",
        "Content-Type: application/json", f"Content-Length: {len(data)}", *lines,
    ]  # fmt: skip
    return "\r\n".join([*head, "", ""]).encode() + data
