from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.util.http import make_client
from tests.unit.providers.credentials.oauth_server import OAuthServer
from tests.unit.providers.credentials.parts import Bench


@pytest.fixture
async def bench(user_home: Path, anyio_backend: str) -> AsyncIterator[Bench]:
    async with make_client(trust_env=False) as client:
        yield Bench(user_home, client)


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    server = OAuthServer()
    yield server
    server.close()
