"""Telegram keeps the contract of all adapters."""

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
from tests.fakes.telegram.harness import TelegramHarness


class TestTelegram(
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
    FormatRefusedContract,
    CutsContract,
    AdapterContract,
):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[TelegramHarness]:
        harness = await TelegramHarness.start(tmp_path)
        yield harness
        await harness.close()
