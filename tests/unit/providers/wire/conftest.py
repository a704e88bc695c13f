from collections.abc import AsyncIterator

import pytest

from hermes.providers.transport import HttpClient
from hermes.util.http import LateTls


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    """As `app.providers` makes it."""
    client = HttpClient(LateTls())
    yield client
    await client.aclose()
