from collections.abc import AsyncIterator

import httpx2
import pytest


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client
