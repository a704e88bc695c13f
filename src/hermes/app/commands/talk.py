"""What a command works with."""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.commands.registry import CommandDef, Where
from hermes.core.messages import User


class Talk(Protocol):
    """The conversation a command was given in, on whatever surface."""

    app: App
    place: Where

    @property
    def agent(self) -> Agent:
        """Who talks at present."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        ...

    async def go_on_with(self, agent: Agent) -> None:
        """Another conversation takes the place of this one."""
        ...

    async def ask(self, message: User) -> None:
        """A turn that answers `message`, shown as any other."""
        ...

    def later(self, text: str) -> None:
        """Keep what the user said for the time after this turn."""
        ...

    def show(self, markdown: str) -> None:
        """What the user is to see, now."""
        ...


class Call(msgspec.Struct, frozen=True):
    """A command that was given."""

    command: CommandDef
    arguments: str
    talk: Talk

    @property
    def words(self) -> list[str]:
        return self.arguments.split()

    @property
    def agent(self) -> Agent:
        return self.talk.agent

    @property
    def app(self) -> App:
        return self.talk.app


Handler = Callable[[Call], Awaitable[str]]
"""Does what was asked for; the result, markdown, is shown to the user unless it is empty. Raises a
`HermesError`, whose text is shown."""
