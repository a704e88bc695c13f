"""A shell and files in a temporary folder, and how to watch processes come and go."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.terminal import CommandResult, LocalShell

Run = Callable[..., Awaitable[CommandResult]]


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[LocalShell]:
    shell = LocalShell({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, tmp_path)
    yield shell
    await shell.close()


@pytest.fixture
def run(shell: LocalShell) -> Run:
    async def run(command: str, **options: Any) -> CommandResult:
        settings = {"timeout": 60, "on_output": lambda _text: None, "cancel": CancelToken()}
        return await shell.run(command, **{**settings, **options})

    return run
