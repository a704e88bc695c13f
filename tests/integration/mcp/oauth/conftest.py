from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mcp.oauth.guarded import GuardedSite, LoginSite
from tests.integration.mcp.oauth.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with LoginSite() as login, GuardedSite(login) as guarded:
        yield Scene(tmp_path / "mcp-tokens", login, guarded)
