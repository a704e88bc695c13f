"""A clock that stands still, a cache of its own, and an HTTP client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from hermes.core.testing.http_server import LoopbackServer, Outgoing, RecordedRequest
from hermes.providers.catalog.catalog import ModelCatalog
from hermes.util.http import make_client

Respond = Callable[[RecordedRequest], Outgoing]


class StillClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 11, 15, 12, tzinfo=UTC)

    def pass_(self, **spans: float) -> None:
        self.time += timedelta(**spans)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models"


@pytest.fixture
def known(cache_dir: Path, clock: StillClock) -> ModelCatalog:
    return ModelCatalog(cache_dir, {}, clock)


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with make_client(trust_env=False) as client:
        yield client


def answer(document: Any, status: int = 200, **headers: str) -> Outgoing:
    body = document if isinstance(document, bytes) else msgspec.json.encode(document)
    return Outgoing(status, {"Content-Type": "application/json", **headers}, [body])


class ListServer:
    """Answers every request with what the test says, and records them."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        self.respond: Respond = lambda _request: answer({"data": []})
        self._http = LoopbackServer(self._answer)
        self._open = True
        self.url = f"http://127.0.0.1:{self._http.port}"

    def _answer(self, request: RecordedRequest) -> Outgoing:
        self.requests.append(request)
        return self.respond(request)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._http.close()


@pytest.fixture
def server() -> Iterator[ListServer]:
    server = ListServer()
    yield server
    server.close()
