"""A shell and files in a temporary folder, and how to watch processes come and go."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.terminal import LocalShell
from tests.integration.hosts.machine_host import Run, runner


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[LocalShell]:
    shell = LocalShell({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, tmp_path)
    yield shell
    await shell.close()


@pytest.fixture
def run(shell: LocalShell) -> Run:
    return runner(shell)
