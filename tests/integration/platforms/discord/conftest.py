"""A Discord of this machine, with settings of the test's choice."""

import contextlib
import warnings
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

with warnings.catch_warnings():  # for voice it imports `audioop`, which is on its way out
    warnings.simplefilter("ignore", DeprecationWarning)
    import_module("discord")

if TYPE_CHECKING:
    from tests.integration.platforms.discord.harness import DiscordHarness

Started = Callable[..., "contextlib.AbstractAsyncContextManager[DiscordHarness]"]


@pytest.fixture
def discord_with(tmp_path: Path) -> Started:
    """`async with discord_with(settings, VARIABLE="value") as harness`."""

    @contextlib.asynccontextmanager
    async def start(*settings: Any, **variables: str) -> "AsyncIterator[DiscordHarness]":
        module = import_module("tests.integration.platforms.discord.harness")
        harness: DiscordHarness = await module.DiscordHarness.start(
            tmp_path, *settings, **variables
        )
        try:
            yield harness
        finally:
            await harness.close()

    return start
