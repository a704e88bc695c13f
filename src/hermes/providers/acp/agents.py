"""The agent program of a provider: started when it is needed, ended with its owner."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from hermes import __version__
from hermes.config.environment import child_environment
from hermes.core.errors import ProviderError, RequestRefused, Unreachable
from hermes.providers.acp.agent import Agent, AgentLost
from hermes.providers.acp.failing import reply_error
from hermes.providers.acp.protocol import VERSION, Initialized
from hermes.providers.acp.rpc import RpcError

OWN_KEYS = (
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
)
"""The keys the program logs in with. No other key is given to it."""
WITHHELD = ("COPILOT_ALLOW_ALL",)
"""What would let it use its tools without asking."""


def agent_environment() -> dict[str, str]:
    environment = child_environment(OWN_KEYS)
    for name in WITHHELD:
        environment.pop(name, None)
    return environment


class AcpAgents:
    """Holds at most one process of `command`, shared by all the models made over it.

    It is started with the first call and again after it died; `close` ends it. `environment`
    gives the variables for a new process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        provider: str = "copilot-acp",
        environment: Callable[[], Mapping[str, str]] = agent_environment,
    ) -> None:
        self._command, self._provider = tuple(command), provider
        self._environment = environment
        self._starting = asyncio.Lock()
        self._agents: list[Agent] = []
        """The one in use is the last; those before it are about to be gone."""

    async def ready(self) -> Agent:
        """The running program. Raises `Unreachable` when it cannot be started."""
        async with self._starting:
            self._agents = [agent for agent in self._agents if not agent.gone]
            if not self._agents or self._agents[-1].ended:
                await self._start()
            return self._agents[-1]

    def drop(self, why: str) -> None:
        """Kill a program that no longer answers; the next call starts another one."""
        if self._agents:
            self._agents[-1].kill(why)

    async def close(self) -> None:
        async with self._starting:
            agents, self._agents = self._agents, []
            await asyncio.gather(*(agent.end() for agent in agents))

    async def _start(self) -> None:
        try:
            agent = await Agent.start(self._command, self._environment())
        except FileNotFoundError:
            raise self._unreachable(
                f"the program {self._command[0]} is not installed",
                "npm install -g @github/copilot, or set HERMES_COPILOT_ACP_COMMAND to another"
                " program that speaks the Agent Client Protocol",
            ) from None
        except OSError as error:
            raise self._unreachable(
                f"{self._command[0]} cannot be started: {error.strerror or error}",
                "check HERMES_COPILOT_ACP_COMMAND",
            ) from error
        self._agents.append(agent)
        with ExitStack() as undo:
            undo.callback(agent.kill, "was stopped")
            agent.abilities = await self._introduced(agent)
            undo.pop_all()

    async def _introduced(self, agent: Agent) -> Initialized:
        greeting: dict[str, Any] = {
            "protocolVersion": VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "terminal": False,
            },
            "clientInfo": {"name": "hermes", "title": "Hermes", "version": __version__},
        }
        try:
            answer = await agent.rpc.request("initialize", greeting)
            abilities = msgspec.convert(answer, Initialized)
        except AgentLost as error:
            call = " ".join(self._command)
            raise self._unreachable(str(error), f"run `{call}` by hand to see why") from error
        except RpcError as error:
            raise reply_error(self._provider, agent, error) from error
        except msgspec.ValidationError as error:
            raise self._unlike(agent, str(error)) from error
        if abilities.protocol_version != VERSION:
            raise self._unlike(agent, f"it speaks version {abilities.protocol_version}")
        return abilities

    def _unreachable(self, message: str, hint: str) -> Unreachable:
        return Unreachable(message, provider=self._provider, hint=hint)

    def _unlike(self, agent: Agent, what: str) -> ProviderError:
        return RequestRefused(
            f"{agent.name} does not speak version {VERSION} of the Agent Client Protocol: {what}",
            provider=self._provider,
            hint="update that program, or check HERMES_COPILOT_ACP_COMMAND and _ARGS",
        )
