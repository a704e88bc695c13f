"""A home with a config.yaml, and one question put to the agent it describes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes.app.app import App
from hermes.app.sessions import SessionRequest
from hermes.cli.context import ProgressLine
from hermes.config.home import Home
from hermes.config.loader import load
from hermes.core.events import Event
from hermes.core.messages import User
from hermes.core.testing import ModelServer

UNTITLED = {"sessions": {"auto_title": False}}
"""The models are asked nothing but what the test says."""
MakeHome = Callable[..., Home]
Ask = Callable[..., Awaitable[list[Event]]]


@pytest.fixture
def home(hermes_home: Path) -> MakeHome:
    """Makes the home; settings as keywords, or config.yaml as text."""

    def make(text: str = "", **settings: Any) -> Home:
        hermes_home.mkdir(exist_ok=True)
        (hermes_home / "config.yaml").write_text(text or yaml.safe_dump(UNTITLED | settings))
        return Home(hermes_home)

    return make


def at(server: ModelServer, **more: Any) -> dict[str, Any]:
    """`model` settings that send requests to `server`."""
    return {
        "provider": "custom",
        "base_url": f"{server.url}/v1",
        "default": "lab-model",
        "api_key": "a-key",
        **more,
    }


@asynccontextmanager
async def started(home: Home) -> AsyncIterator[App]:
    async with App(home, load(home), ProgressLine(StringIO()), lambda _: None) as app:
        yield app


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """The events of one question in a new session, or in the session of `resume`."""

    async def run(home: Home, *questions: str, **request: Any) -> list[Event]:
        async with started(home) as app:
            agent = await app.agent(SessionRequest(working_folder=tmp_path, **request))
            return [
                event
                for question in questions or ("hello",)
                async for event in agent.run(User.say(question))
            ]

    return run
