import pytest

from tests.integration.platforms.slack.harness import SlackHarness


@pytest.fixture
async def slack(tmp_path):
    harness = await SlackHarness.start(tmp_path)
    yield harness
    await harness.close()
