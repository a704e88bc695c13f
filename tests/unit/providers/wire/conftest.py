from collections.abc import AsyncIterator

import httpx2
import pytest

from hermes.providers.transport import AsyncioTransport
from hermes.util.http import LateTls


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    """As `app.providers` makes it."""
    connections = AsyncioTransport(LateTls(), httpx2.Limits())
    async with httpx2.AsyncClient(transport=connections) as client:
        yield client
