"""A minimal HTTP client that can keep a thousand requests to an API server open."""

import asyncio
import json
import time
from typing import Any

from bench.gateway_model import ANSWER

PATH = "/v1/chat/completions"


class Unanswered(Exception):
    """A request was refused or its answer is wrong."""


class Client:
    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key

    async def chat(self, messages: list[dict[str, str]]) -> float:
        """Ask, wait for the whole answer, and return the seconds that it took."""
        began = time.perf_counter()
        reader, writer = await self._ask({"model": "x", "messages": messages})
        try:
            data = await reader.read()
        finally:
            writer.close()
        head, _, body = data.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0] or ANSWER.encode() not in body:
            raise Unanswered(f"not answered: {data[:2000]!r}")
        return time.perf_counter() - began

    async def open_stream(self, text: str) -> asyncio.StreamWriter:
        """Request a stream and read until its first word."""
        body = {"model": "x", "stream": True, "messages": [{"role": "user", "content": text}]}
        reader, writer = await self._ask(body)
        data = b""
        while ANSWER[:5].encode() not in data:
            piece = await reader.read(65536)
            if not piece:
                raise SystemExit(f"the stream ended: {data[-2000:]!r}")
            data += piece
        return writer

    async def _ask(self, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        data = json.dumps(body).encode()
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nConnection: close\r\n"
            f"Authorization: Bearer {self._key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        writer.write(head.encode() + data)
        await writer.drain()
        return reader, writer


async def healthy(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    try:
        host = f"Host: 127.0.0.1:{port}"
        writer.write(f"GET /health HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n".encode())
        return b" 200 " in await reader.readline()
    except OSError:
        return False
    finally:
        writer.close()
