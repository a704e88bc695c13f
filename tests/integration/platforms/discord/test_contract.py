"""What every adapter must do, by discord.py against a Discord of this machine."""

from collections.abc import AsyncIterator

import pytest

from hermes.sdk.testing.platforms.suite import (
    ButtonsContract,
    ChatContract,
    DeliveryCheckContract,
    GroupRepliesContract,
    RepliesContract,
)
from tests.integration.platforms.discord.conftest import Started
from tests.integration.platforms.discord.harness import DiscordHarness


class TestDiscord(
    ButtonsContract, RepliesContract, GroupRepliesContract, DeliveryCheckContract, ChatContract
):
    @pytest.fixture
    async def harness(self, discord_with: Started) -> AsyncIterator[DiscordHarness]:
        async with discord_with() as harness:
            yield harness
