from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.providers.acp.fake_agent import Stage


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.close()
