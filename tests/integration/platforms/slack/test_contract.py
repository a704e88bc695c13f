"""What every adapter must do, by slack-sdk against a Slack of this machine."""

import pytest

from tests.contracts.adapters.suite import (
    ButtonsContract,
    ChatContract,
    FindsSentContract,
    FormatRefusedContract,
)
from tests.integration.platforms.slack.harness import SlackHarness


class TestSlack(ButtonsContract, FormatRefusedContract, FindsSentContract, ChatContract):
    @pytest.fixture
    async def harness(self, slack: SlackHarness) -> SlackHarness:
        return slack
