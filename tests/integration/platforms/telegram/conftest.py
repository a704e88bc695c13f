from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.telegram.harness import TelegramHarness


@pytest.fixture
async def telegram(tmp_path: Path) -> AsyncIterator[TelegramHarness]:
    harness = await TelegramHarness.start(tmp_path)
    yield harness
    await harness.close()
