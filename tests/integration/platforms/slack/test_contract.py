"""What every adapter must do, by slack-sdk against a Slack of this machine."""

import pytest

from hermes.sdk.testing.platforms.suite import (
    ButtonsContract,
    ChatContract,
    DeliveryCheckContract,
)


class TestSlack(ButtonsContract, DeliveryCheckContract, ChatContract):
    @pytest.fixture
    async def harness(self, slack):
        return slack
