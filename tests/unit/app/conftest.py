"""Conversations with a scripted model, references in a folder, real git repositories."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.command_handlers import Commands
from hermes.app.commands import Surface
from hermes.app.reference_expansion import expand_references
from hermes.app.references import ExpandedMessage, ReferenceContext
from hermes.app.sessions import SessionRequest
from hermes.cli.context import ProgressLine
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.events import Event
from hermes.core.messages import User
from hermes.core.testing import ModelServer
from hermes.core.testing.script import ScriptItem
from hermes.ops.commands import OPS_HANDLERS
from hermes.security import PathGuard, Redactor
from tests.workspace import run_git


class Listening:
    """A surface that keeps what it would show."""

    place = Surface.TERMINAL

    def __init__(self, app: App, agent: Agent, server: ModelServer) -> None:
        self.app, self.agent, self.server = app, agent, server
        self.shown: list[str] = []
        self.kept: list[str] = []
        self.events: list[Event] = []
        self.commands = Commands(self, OPS_HANDLERS)

    @property
    def busy(self) -> bool:
        return self.agent.running

    async def continue_with(self, agent: Agent) -> None:
        """A surface may look at who talks at any moment: neither is closed yet."""
        assert self.app.session(self.agent) is not self.app.session(agent)
        self.agent = agent

    async def ask(self, message: User) -> None:
        self.events += [event async for event in self.agent.run(message)]

    def later(self, text: str) -> None:
        self.kept.append(text)

    def show(self, markdown: str) -> None:
        self.shown.append(markdown)

    async def say(self, text: str) -> str:
        """A command or a message; what was shown."""
        before = len(self.shown)
        if not (text.startswith("/") and await self.commands.run(text)):
            await self.ask(User.say(text))
        return "\n".join(self.shown[before:])


@pytest.fixture
def talking(hermes_home: Path, tmp_path: Path) -> Callable[..., Any]:
    """`async with talking(script) as talk`."""

    @asynccontextmanager
    async def start(script: Sequence[ScriptItem], settings: str = "") -> Any:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(f"sessions:\n  auto_title: false\n{settings}")
        home, work = Home(hermes_home), tmp_path / "work"
        work.mkdir(exist_ok=True)
        with ModelServer(script) as server:
            at = {"provider": "custom", "base_url": f"{server.url}/v1", "default": "lab"}
            loaded = load(home, {f"model.{name}": value for name, value in at.items()})
            async with App(home, loaded, ProgressLine(StringIO()), [].append) as app:
                yield Listening(app, await app.agent(SessionRequest(work)), server)

    return start


Git = Callable[..., str]


@pytest.fixture
def context(workspace: Path, guard: PathGuard) -> ReferenceContext:
    return ReferenceContext(guard, workspace, context_length=30_000, redact=Redactor().redact)


@pytest.fixture
def attach(context: ReferenceContext):
    """Expands a text after writing `files`; `changes` are other fields of the context."""

    async def attach(
        text: str, files: Mapping[str, str | bytes] = MappingProxyType({}), **changes: object
    ) -> ExpandedMessage:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (context.folder / name).write_bytes(data)
        return await expand_references(text, msgspec.structs.replace(context, **changes))

    return attach


@pytest.fixture
def git(workspace: Path) -> Git:
    """git in the workspace, which is a repository."""

    def run(*arguments: str, folder: Path = workspace) -> str:
        return run_git(*arguments, folder=folder)

    run("init", "--quiet", "--initial-branch=main")
    return run
