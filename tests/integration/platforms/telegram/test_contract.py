"""Telegram keeps the contract of all adapters."""

import pytest

from hermes.sdk.testing.platforms.suite import (
    ButtonsContract,
    ChatContract,
    GroupRepliesContract,
    RepliesContract,
)


class TestTelegram(ButtonsContract, RepliesContract, GroupRepliesContract, ChatContract):
    @pytest.fixture
    async def harness(self, telegram):
        return telegram
