"""An agent over a scripted model, simple tools and a real store."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.agent import Agent, AgentOptions, Compactor, ToolDispatcher
from hermes.context.engine import BuiltinEngine, ContextEngine, Dicts
from hermes.context.policy import CompactionPolicy, TokenCounter
from hermes.core.events import Event
from hermes.core.messages import Message, System, User
from hermes.core.model import Model, ModelRequest
from hermes.core.ports import Hooks, NoHooks
from hermes.core.testing import ScriptedModel, scripts
from hermes.core.tool import Tool
from hermes.store.session_store import SessionStore, open_store
from hermes.tools.toolbox import LocalResultStore, Toolbox
from hermes.util.concurrency import SystemClock


class NoEngine(BuiltinEngine):
    """Never compacts anything."""

    name = "none"

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: Dicts, current_tokens: int | None = None) -> Dicts:
        return messages


class AllowAll:
    async def permit(self, *_details: Any) -> None:
        return None

    async def require_approval(self, *_details: Any) -> None:
        return None


@pytest.fixture
def script() -> Iterator[Callable[..., ScriptedModel]]:
    with scripts() as make:
        yield make


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SessionStore]:
    log = open_store("", tmp_path / "state.db")
    yield log
    log.close()


class Same:
    """A `ModelSource` with one model for all turns."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.provider = model.name, model.provider

    def for_turn(self) -> Model:
        return self._model


async def moved(_old: str, _new: str) -> None:
    return None


MakeAgent = Callable[..., Any]


@pytest.fixture
async def make_agent(log: SessionStore, tmp_path: Path) -> MakeAgent:
    await log.create("s1", source="test", model="scripted", system_prompt="be brief")

    def make(
        model: Model,
        *tools: Tool,
        hooks: Hooks | None = None,
        policy: Any = None,
        workspace: Any = None,
        pending: Any = None,
        max_iterations: int = 90,
        engine: ContextEngine | None = None,
        history: tuple[Message, ...] = (),
        sees_images: bool = False,
        **options: Any,
    ) -> Agent:
        box = Toolbox(tools, LocalResultStore(tmp_path / "spill").save)
        dispatcher = ToolDispatcher(
            box,
            policy or AllowAll(),
            log,
            hooks or NoHooks(),
            SystemClock(),
            workspace,
            sees_images=lambda: sees_images,
        )
        system = System("be brief")
        compaction_policy = CompactionPolicy(
            engine or NoEngine(), TokenCounter([system], box.specs), system
        )
        compactor = Compactor(compaction_policy, log, SystemClock(), moved)
        return Agent(
            "s1",
            system,
            history,
            Same(model),
            dispatcher,
            log,
            compactor,
            base_request=ModelRequest((), box.specs),
            max_iterations=max_iterations,
            pending=pending,
            options=AgentOptions(workspace=workspace, **options),
        )

    return make


async def events_of(agent: Agent, text: str = "go") -> list[Event]:
    return [event async for event in agent.run(User.say(text))]
