from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.platforms.slack.harness import SlackHarness


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[SlackHarness]:
    harness = await SlackHarness.start(tmp_path)
    yield harness
    await harness.close()
