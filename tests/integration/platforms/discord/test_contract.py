"""What every adapter must do, by discord.py against a Discord of this machine."""

import pytest

from hermes.sdk.testing.platforms.suite import (
    ButtonsContract,
    ChatContract,
    DeliveryCheckContract,
    GroupRepliesContract,
    RepliesContract,
)


class TestDiscord(
    ButtonsContract, RepliesContract, GroupRepliesContract, DeliveryCheckContract, ChatContract
):
    @pytest.fixture
    async def harness(self, discord_with):
        async with discord_with() as harness:
            yield harness
