"""What begins with `/` in a conversation."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from hermes.agent.agent import Agent
from hermes.app.app import App
from hermes.cli.render import Renderer
from hermes.cli.turns import one_turn, stoppable, stopped_by_ctrl_c
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Event, Notice

Command = Callable[[str], Awaitable[Event]]


class Talk(Protocol):
    """The conversation a command belongs to."""

    agent: Agent | None


class Slash:
    """Finds the command and shows what it answers."""

    def __init__(self, app: App, talk: Talk, renderer: Renderer) -> None:
        self._app, self._talk, self._renderer = app, talk, renderer
        self._commands: dict[str, Command] = {
            "/rollback": self._rollback,
            "/compress": self._compress,
            "/new": self._new,
            "/reset": self._new,
        }

    async def process(self, text: str) -> bool:
        """False when there is no such command: then it is a message like any other."""
        name, _, arguments = text.partition(" ")
        command = self._commands.get(name.lower()) or self._of_plugin(name.lower())
        try:
            with stopped_by_ctrl_c():
                if command is None:
                    return await self._skill(text)
                self._renderer.show(await command(arguments.strip()))
        except HermesError as error:
            told = f"{error}\n  {error.hint}" if error.hint else str(error)
            self._renderer.show(Notice(told))
        return True

    async def _skill(self, text: str) -> bool:
        message = await self._app.skill_message(self._agent, text)
        if message is None:
            return False
        await one_turn(self._agent, message, self._renderer)
        return True

    def _of_plugin(self, name: str) -> Command | None:
        found = self._app.extensions.commands.get(name.removeprefix("/"))
        if found is None:
            return None

        async def run(arguments: str) -> Event:
            return Notice(await found.handler(arguments))

        return run

    @property
    def _agent(self) -> Agent:
        if self._talk.agent is None:
            raise UsageError("there is no conversation")
        return self._talk.agent

    async def _rollback(self, arguments: str) -> Event:
        return Notice(await self._app.rollback(self._agent, arguments))

    async def _new(self, _arguments: str) -> Event:
        self._talk.agent = agent = await self._app.renew(self._agent)
        return Notice(f"A new conversation: session {agent.session_id}")

    async def _compress(self, focus: str) -> Event:
        with stoppable(self._agent):
            return await self._agent.compress(focus)
