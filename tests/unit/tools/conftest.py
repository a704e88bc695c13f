"""The four tools over a temporary workspace, and how to call them."""

import os

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.tool import ToolContext
from hermes.terminal import LocalShell
from hermes.tools.editing.files import FileReads


@pytest.fixture
async def shell(user_home, workspace):
    shell = LocalShell({"PATH": os.environ["PATH"], "HOME": str(user_home)}, workspace)
    yield shell
    await shell.close()


@pytest.fixture
def reads():
    return FileReads()


@pytest.fixture
def shown():
    """What the user saw while a tool ran."""
    return []


@pytest.fixture
def use(shown):
    async def use(tool, **arguments):
        context = ToolContext("session", "call", CancelToken(), shown.append)
        return await tool.handler(context, arguments)

    return use
