"""The four tools over a temporary workspace, and how to call them."""

import os
from collections.abc import Awaitable, Callable

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.messages import Assistant, Text
from hermes.core.model import ModelRequest, Reply, Usage
from hermes.core.tool import ToolContext
from hermes.terminal import LocalShell
from hermes.tools.editing.files import FileReads


class AuxiliaryModel:
    """Answers with a text, fails with an error, or asks a function what to answer."""

    def __init__(self, answer: str | Exception | Callable[[str], Awaitable[str]]) -> None:
        self._answer = answer
        self.asked: list[tuple[str, ModelRequest]] = []

    @property
    def questions(self) -> list[str]:
        return [request.messages[1].text for _, request in self.asked]

    async def ask(self, task: str, request: ModelRequest) -> Reply:
        self.asked.append((task, request))
        answer = self._answer
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, str):
            answer = await answer(self.questions[-1])
        return Reply(Assistant((Text(answer),)), Usage(), "m", "p")


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
