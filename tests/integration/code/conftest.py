"""execute_code over a real shell, with real tools behind it and a person who decides."""

import json
import os
from typing import Any

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolDenied, ToolUnknown
from hermes.core.tool import Concern, Tool, ToolContext
from hermes.security import PathGuard
from hermes.terminal import LocalShell, Shell
from tests.workspace import make_tool

SETTINGS = ("mode", "timeout", "max_tool_calls")


class Person:
    """Says yes or no, and remembers what was asked."""

    def __init__(self) -> None:
        self.allows = False
        self.asked: list[Concern] = []

    async def require_approval(self, concern: Concern) -> None:
        self.asked.append(concern)
        if not self.allows:
            raise ToolDenied(f"the user did not allow this: {concern.reason}")


class Bench:
    """Runs scripts and keeps what they did."""

    def __init__(self, shell: Shell, guard: PathGuard, tools: list[Tool]) -> None:
        self.shell, self.guard = shell, guard
        self.tools = {tool.name: tool for tool in tools}
        self.person = Person()
        self.cancel = CancelToken()
        self.shown: list[str] = []
        self.invoked: list[tuple[str, dict[str, Any]]] = []

    def tool(self, **options: Any) -> Tool:
        """`options` are settings of `code_execution`, or parts of the session."""
        settings = {"code_execution": {k: v for k, v in options.items() if k in SETTINGS}}
        parts = {k: v for k, v in options.items() if k not in SETTINGS}
        specs = tuple(tool.spec for tool in self.tools.values())
        parts = {"shell": self.shell, "guard": self.guard, "others": specs, **parts}
        return make_tool("execute_code", settings=settings, **parts)

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            "session",
            "call",
            self.cancel,
            self.shown.append,
            require_approval=self.person.require_approval,
            invoke=self.invoke,
        )

    async def invoke(self, name: str, arguments: dict[str, Any]) -> str:
        self.invoked.append((name, arguments))
        if name not in self.tools:
            raise ToolUnknown(f"there is no tool {name!r}")
        return await self.tools[name].handler(self.context, arguments)

    async def run(self, code: str, **options: Any) -> dict[str, Any]:
        result = await self.tool(**options).handler(self.context, {"code": code})
        found: dict[str, Any] = json.loads(result)
        return found


@pytest.fixture
def temporary(user_home):
    folder = user_home / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
async def shell(user_home, workspace, temporary):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(user_home),
        "TMPDIR": str(temporary),
        "HARMLESS": "yes",
        "OPENAI_API_KEY": "sk-secret",
        "Db_Password": "secret",
        "GITHUB_TOKEN": "secret",
    }
    shell = LocalShell(environment, workspace)
    yield shell
    await shell.close()


@pytest.fixture
def bench(shell, guard, files):
    names = ("read_file", "write_file", "terminal")
    tools = [make_tool(name, shell=shell, files=files, guard=guard) for name in names]
    return Bench(shell, guard, tools)


@pytest.fixture
def run(bench):
    return bench.run
