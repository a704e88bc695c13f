"""One homeserver for all tests of Matrix."""

import os

import pytest

from tests.integration.platforms.matrix.harness import MatrixHarness
from tests.integration.platforms.matrix.homeserver import running_homeserver


@pytest.fixture(scope="session")
def homeserver(request, tmp_path_factory):
    base, is_worker = tmp_path_factory.getbasetemp(), hasattr(request.config, "workerinput")
    folder = (base.parent if is_worker else base) / "synapse"
    folder.mkdir(exist_ok=True)
    return running_homeserver(folder, os.getppid() if is_worker else os.getpid())


@pytest.fixture
async def matrix(homeserver, tmp_path):
    harness = await MatrixHarness.start(tmp_path, homeserver)
    yield harness
    await harness.close()
