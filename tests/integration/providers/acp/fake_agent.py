"""A model over a scripted agent, which is a process of its own."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.core.messages import System, User
from hermes.core.model import FREE, ModelEvent, ModelRequest, Reply, ToolSpec
from hermes.providers.acp.model import AcpModel
from hermes.providers.acp.process import AgentPool
from hermes.providers.endpoints import ModelProfile, Target, Timeouts

PROGRAM = Path(__file__).with_name("agent_program.py")
TERMINAL = ToolSpec(
    "terminal",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
ASK = ModelRequest((System("be brief"), User.say("hello")), (TERMINAL,))
PATIENT = Timeouts(read=60, stale=60, request=60)


class Stage:
    """Starts agents that act as planned, and shows what they were sent."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "agent.log"
        self._open: list[AgentPool] = []
        self.agents: AgentPool

    def model(
        self, *turns: list[Any], model: str = "default", limits: Timeouts = PATIENT, **plan: Any
    ) -> AcpModel:
        """`turns` are the acts for each prompt; see `agent_program`."""
        order = self._log.with_name(f"plan-{len(self._open)}.json")
        order.write_text(json.dumps({"turns": turns, **plan}))
        return self.over([sys.executable, "-I", PROGRAM, order, self._log], model, limits)

    def over(
        self, command: list[Any], model: str = "default", limits: Timeouts = PATIENT
    ) -> AcpModel:
        self.agents = AgentPool([str(part) for part in command])
        self._open.append(self.agents)
        target = Target(
            provider="copilot-acp",
            model=model,
            base_url="acp://copilot",
            profile=ModelProfile(price=FREE),
            timeouts=limits,
        )
        return AcpModel(target, self.agents)

    @property
    def received(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def starts(self) -> list[dict[str, Any]]:
        """A line for each process that was started."""
        return [line for line in self.received if "pid" in line]

    def calls(self, method: str) -> list[dict[str, Any]]:
        return [line["params"] for line in self.received if line.get("method") == method]

    def prompt(self) -> str:
        """All the text of the last prompt."""
        blocks = self.calls("session/prompt")[-1]["prompt"]
        return "\n".join(block["text"] for block in blocks if block["type"] == "text")

    async def close(self) -> None:
        for agents in self._open:
            await agents.close()


async def ask(model: AcpModel, request: ModelRequest = ASK) -> tuple[list[ModelEvent], Reply]:
    deltas: list[ModelEvent] = []
    return deltas, await model.call(request, deltas.append)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)
