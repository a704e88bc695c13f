from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.mcp.stage import Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise the time limit: the first test installs the servers."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    await stage.close()
