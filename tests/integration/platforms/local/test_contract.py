"""The local platform passes what every platform must."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contracts.adapters.suite import (
    AdapterContract,
    BotsContract,
    ButtonsContract,
    ChatGoneContract,
    CutsContract,
    EditsContract,
    FindsSentContract,
    FormatRefusedContract,
    GroupRepliesContract,
    GroupsContract,
    KeepsContract,
    MediaInContract,
    MediaOutContract,
    RateLimitedContract,
    ReactionsContract,
    RepliesContract,
    ServerErrorContract,
    ThreadsContract,
    TypingContract,
)
from tests.integration.platforms.local.local_harness import LocalHarness


class TestLocal(
    EditsContract,
    TypingContract,
    ReactionsContract,
    ThreadsContract,
    ButtonsContract,
    MediaInContract,
    MediaOutContract,
    FindsSentContract,
    GroupsContract,
    RepliesContract,
    GroupRepliesContract,
    BotsContract,
    KeepsContract,
    RateLimitedContract,
    ServerErrorContract,
    ChatGoneContract,
    FormatRefusedContract,
    CutsContract,
    AdapterContract,
):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[LocalHarness]:
        harness = LocalHarness(tmp_path)
        await harness.platform.listen(harness.socket)
        yield harness
        await harness.close()
