"""What every adapter must do, by slack-sdk against a Slack of this machine."""

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
    GroupsContract,
    KeepsContract,
    MediaInContract,
    MediaOutContract,
    RateLimitedContract,
    ReactionsContract,
    ServerErrorContract,
    ThreadsContract,
    TypingContract,
)
from tests.integration.platforms.slack.harness import SlackHarness


class TestSlack(
    EditsContract,
    TypingContract,
    ReactionsContract,
    ThreadsContract,
    ButtonsContract,
    MediaInContract,
    MediaOutContract,
    FindsSentContract,
    GroupsContract,
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
    async def harness(self, slack: SlackHarness) -> SlackHarness:
        return slack
