"""The request of a surface (terminal, gateway, cron, API) for an agent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.core.messages import Message
from hermes.core.ports import Approver, Clarifier, Outbox, Scheduler
from hermes.memory import MemoryScope
from hermes.providers import Target
from hermes.security import Redactor

ReadSecret = Callable[[str, str, str], Awaitable[str]]
"""Reads a secret from the user without echo, given its name, a prompt and a help text. Returns ""
if the user declines."""


class SecretKeeper:
    """A `SecretAsker` that stores the value in .env. The model only learns whether there is one."""

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
"""The stored system prompt of sessions that another agent answers (`SessionRequest.remote`).
It also marks these sessions in the store."""


class SessionRequest(msgspec.Struct, frozen=True):
    """Which session to open, for which user and surface, and with which options."""

    working_folder: Path
    resume: str = ""  #: Id or title of a session to continue.
    latest: bool = False
    """Continue the newest session of `source`; start a new one if there is none."""
    session_id: str = ""
    """Id of the session; an existing one is continued, else a new one gets this id."""
    source: str = "cli"
    user_id: str = ""
    approver: Approver | None = None  #: None if no user can be asked for approval.
    clarifier: Clarifier | None = None  #: Answers questions of the agent; None if no user can.
    read_secret: ReadSecret | None = None
    """Reads a key that a skill needs from the user; None if no user can be asked."""
    skills: tuple[str, ...] = ()  #: Skills that are loaded with the first message.
    toolsets: tuple[str, ...] = ()  #: Toolsets and tools that replace those of the settings.
    goes_on: bool = True  #: False for a single turn: nothing is prepared for a next one.
    scope: MemoryScope = MemoryScope()
    """The user and chat whose memory is used; the project is that of the working folder."""
    system_message: str = ""  #: Text in the system prompt, in addition to `agent.system_prompt`.
    ephemeral_system_prompt: str = ""
    """Sent after the system prompt and never stored; in addition to that of the settings."""
    prefill: tuple[Message, ...] = ()
    """Sent before the conversation and never stored; in addition to those of the settings."""
    history: tuple[Message, ...] = ()  #: Messages that a new session starts with.
    skip_context_files: bool = False  #: Without SOUL.md and the files of the project.
    skip_memory: bool = False  #: Without notes and profile, and without the tool for them.
    model: str = ""  #: Model that replaces that of the settings, as `[provider:]model`.
    provider: str = ""
    base_url: str = ""
    remote: Target | None = None
    """Another agent that answers instead of a model. It has its own tools, memory and instructions,
    so ours are not sent and no fallback is used."""
    budget_usd: float | None = None
    """Cost limit of the session, in addition to the limits of the settings."""
    backend: str = ""  #: Replaces `terminal.backend`.
    origin: str = ""  #: The chat it is for, as a target of messages: `telegram:-100:17`.
    sends_files: bool = True  #: False: files that the answer names are never sent.
    shared_folders: tuple[Path, ...] = ()
    """Folders of this machine, besides the working folder, whose files may be sent."""
    patience: float = 0.0
    """Minimum time in seconds to wait for an answer of the user, who may read chats late."""
    user_day_usd: float | None = None  #: Daily cost limit for all sessions of `user_id`.

    def for_new_session(self, **changes: Any) -> "SessionRequest":
        """Return the request for another session of the same user and surface."""
        other = {"resume": "", "latest": False, "session_id": "", "history": ()}
        return msgspec.structs.replace(self, **{**other, **changes})


class Services(msgspec.Struct):
    """Services of higher layers that tools use. The entry point (chat, gateway, cron) sets them
    before it builds the first agent."""

    scheduler: Scheduler | None = None
    outbox: Outbox | None = None
