"""What every adapter must do, by discord.py against a Discord of this machine."""

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
from tests.integration.platforms.discord.harness import DiscordHarness


class TestDiscord(
    EditsContract,
    TypingContract,
    ReactionsContract,
    ThreadsContract,
    ButtonsContract,
    MediaInContract,
    MediaOutContract,
    FindsSentContract,
    GroupRepliesContract,
    GroupsContract,
    RepliesContract,
    BotsContract,
    KeepsContract,
    RateLimitedContract,
    ServerErrorContract,
    ChatGoneContract,
    CutsContract,
    AdapterContract,
):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[DiscordHarness]:
        harness = await DiscordHarness.start(tmp_path)
        yield harness
        await harness.close()
