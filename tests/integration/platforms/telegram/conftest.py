import pytest

from tests.fakes.telegram.harness import TelegramHarness


@pytest.fixture
async def telegram(tmp_path):
    harness = await TelegramHarness.start(tmp_path)
    yield harness
    await harness.close()
