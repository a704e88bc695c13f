"""The four tools over a temporary workspace, and how to call them."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.tool import Tool, ToolContext
from hermes.terminal import LocalShell
from hermes.tools.editing.files import FileReads


@pytest.fixture
async def shell(user_home: Path, workspace: Path) -> AsyncIterator[LocalShell]:
    shell = LocalShell({"PATH": os.environ["PATH"], "HOME": str(user_home)}, workspace)
    yield shell
    await shell.close()


@pytest.fixture
def reads() -> FileReads:
    return FileReads()


@pytest.fixture
def shown() -> list[str]:
    """What the user saw while a tool ran."""
    return []


@pytest.fixture
def use(shown: list[str]) -> Callable[..., Awaitable[str]]:
    async def use(tool: Tool, **arguments: Any) -> str:
        context = ToolContext("session", "call", CancelToken(), shown.append)
        return await tool.handler(context, arguments)

    return use
