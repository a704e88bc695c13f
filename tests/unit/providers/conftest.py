from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.unit.providers.credentials.oauth_server import OAuthServer
from tests.unit.providers.credentials.parts import Bench


@pytest.fixture
async def bench(user_home: Path, anyio_backend: str) -> AsyncIterator[Bench]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield Bench(user_home, client)


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    server = OAuthServer()
    yield server
    server.close()
