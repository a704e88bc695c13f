"""A Discord of this machine, with settings of the test's choice."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.integration.platforms.discord.harness import DiscordHarness

Started = Callable[..., contextlib.AbstractAsyncContextManager[DiscordHarness]]


@pytest.fixture
def discord_with(tmp_path):
    """`async with discord_with(settings, VARIABLE="value") as harness`."""

    @contextlib.asynccontextmanager
    async def start(*settings: Any, **variables: str) -> AsyncIterator[DiscordHarness]:
        harness = await DiscordHarness.start(tmp_path, *settings, **variables)
        try:
            yield harness
        finally:
            await harness.close()

    return start
