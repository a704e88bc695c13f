from pathlib import Path

import pytest

from tests.unit.agent.conftest import log, make_agent, script
from tests.unit.plugins.stage import Stage

__all__ = ["log", "make_agent", "script"]


@pytest.fixture
def stage(hermes_home: Path) -> Stage:
    return Stage(hermes_home)
