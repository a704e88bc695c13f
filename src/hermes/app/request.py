"""What a surface asks for when it wants an agent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.messages import Message
from hermes.core.ports import Approver, Clarifier, Outbox, Scheduler
from hermes.memory import MemoryScope
from hermes.providers import Target
from hermes.security import Redactor

# Secrets a user gives in the middle of a conversation: kept in .env, and shown to nobody.

ReadSecret = Callable[[str, str, str], Awaitable[str]]
"""Reads the value of a variable from the user, unseen: its name, what to ask, how to get it. ""
when the user would rather not."""


class SecretKeeper:
    """A `SecretAsker`. The model learns only whether there is a value now."""

    def __init__(self, home: Home, loaded: Loaded, redactor: Redactor, read: ReadSecret) -> None:
        self._home, self._loaded, self._redactor, self._read = home, loaded, redactor, read

    async def ask(self, name: str, prompt: str, help: str) -> bool:  # noqa: A002 - as the port says
        value = (await self._read(name, prompt, help)).strip()
        if not value:
            return False
        self._redactor.learn(value)
        from hermes.config import edit  # a slow YAML library, needed only for changes

        await asyncio.to_thread(edit.set_variable, self._home, name, value)
        self._loaded.remember(name, value)
        return True


REMOTE_PROMPT = (
    "You are asked in a chat that the gateway of another machine brings to you, and your answer is"
    " shown there. Files that the messages name are on that machine, where you cannot read them,"
    " and it cannot send files of yours."
)
"""The system prompt of sessions that another agent answers (`SessionRequest.remote`), which has its
own instructions. By it such sessions are known."""


class SessionRequest(msgspec.Struct, frozen=True):
    """Which conversation, for whom, and where."""

    working_folder: Path
    resume: str = ""
    """Id or title of a session to go on with."""
    latest: bool = False
    """Go on with the newest session of `source`; a new one when there is none."""
    session_id: str = ""
    """What to call a new session; one of this name that exists is gone on with."""
    source: str = "cli"
    user_id: str = ""
    approver: Approver | None = None
    """None: nobody is there to ask."""
    clarifier: Clarifier | None = None
    """Who answers questions of the agent; None: nobody."""
    read_secret: ReadSecret | None = None
    """Reads a key that a skill needs from the user; None: nobody is there."""
    skills: tuple[str, ...] = ()
    """Skills that are loaded with the first message."""
    toolsets: tuple[str, ...] = ()
    """Toolsets and tools instead of those of the settings."""
    goes_on: bool = True
    """False when one turn is all: nothing is prepared for a next one."""
    scope: MemoryScope = MemoryScope()
    """Whose memory. The project is found from the working folder."""
    system_message: str = ""
    """Text in the system prompt, in addition to `agent.system_prompt`."""
    ephemeral_system_prompt: str = ""
    """Sent behind the system prompt, but never stored; in addition to that of the settings."""
    prefill: tuple[Message, ...] = ()
    """Sent before the conversation, but never stored; in addition to those of the settings."""
    history: tuple[Message, ...] = ()
    """What a new session begins with."""
    skip_context_files: bool = False
    """Without SOUL.md and the files of the project."""
    skip_memory: bool = False
    """Without notes and profile, and without the tool for them."""
    model: str = ""
    """Another model than that of the settings, as people write it: `[provider:]model`."""
    provider: str = ""
    base_url: str = ""
    remote: Target | None = None
    """Another agent that answers instead of a model. It has its own tools, memory and instructions:
    nothing of ours goes along, and nobody else answers in its place."""
    budget_usd: float | None = None
    """Most the session may cost, beside the caps of the settings."""
    backend: str = ""
    """Where commands run, instead of `terminal.backend`."""
    origin: str = ""
    """The chat it is for, as a target of messages: `telegram:-100:17`."""
    sends_files: bool = True
    """False: files that the answer names are not sent, whatever folder they are in."""
    shared_folders: tuple[Path, ...] = ()
    """Folders of this machine, besides the working folder, whose files may be sent."""
    patience: float = 0.0
    """Seconds a question to the user waits at least: some platforms are not looked at at once."""
    user_day_usd: float | None = None
    """Most the sessions of `user_id` may cost in a day."""


class Services(msgspec.Struct):
    """What tools reach up for. Who composes the program puts in what there is, before the first
    agent is made."""

    scheduler: Scheduler | None = None
    outbox: Outbox | None = None
