"""The request for a session, and the store that sessions are in."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from hermes.config.home import Home
from hermes.config.settings import McpServer, PermissionMode, SessionSettings, Settings
from hermes.core.errors import StoreError
from hermes.core.messages import Message
from hermes.core.ports import Approver, Clarifier, Outbox, Scheduler, Trainer
from hermes.memory import MemoryScope
from hermes.providers import Target
from hermes.store import SessionFilter, SessionStore, open_store
from hermes.terminal import ExecutionEnvironment
from hermes.util import files

ReadSecret = Callable[[str, str, str], Awaitable[str]]
"""Reads a secret from the user without echo, given its name, a prompt and a help text. Returns ""
if the user declines."""

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
    permission_mode: PermissionMode = "accept-edits"  #: See `tools.approval.PERMISSION_MODES`.
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
    about: str = ""  #: The first message, if it is known when the session is opened.
    history: tuple[Message, ...] = ()  #: Messages that a new session starts with.
    skip_context_files: bool = False  #: Without SOUL.md and the files of the project.
    skip_memory: bool = False  #: Without notes and profile, and without the tool for them.
    model: str = ""  #: Model that replaces that of the settings, as `[provider:]model`.
    provider: str = ""
    base_url: str = ""
    remote: Target | None = None
    """Another agent that answers instead of a model. It has its own tools, memory and instructions,
    so ours are not sent and no fallback is used."""
    target: Target | None = None  #: Endpoint and model that replace those of the settings.
    is_rollout: bool = False  #: No auxiliary model, no summary at a limit, the same prompt always.
    budget_usd: float | None = None
    """Cost limit of the session, in addition to the limits of the settings."""
    backend: str = ""  #: Replaces `terminal.backend`.
    image: str = ""  #: Container image that replaces that of the settings.
    container: Mapping[str, Any] = {}
    """Fields of `terminal.docker.DockerOptions` that replace those of the settings."""
    origin: str = ""  #: The chat it is for, as a target of messages: `telegram:-100:17`.
    sends_files: bool = True  #: False: files that the answer names are never sent.
    persists: bool = True
    """False for guests: jobs, skills and notes are kept only if `approvals.effects` allows it."""
    shared_folders: tuple[Path, ...] = ()
    """Folders of this machine, besides the working folder, whose files may be sent."""
    patience: float = 0.0
    """Minimum time in seconds to wait for an answer of the user, who may read chats late;
    `math.inf` at a terminal."""
    mcp_servers: Mapping[str, McpServer] = {}
    """Servers of this session only, in addition to those of the settings."""
    adapt_workplace: Callable[[ExecutionEnvironment], ExecutionEnvironment] | None = None
    """Replaces files or shell of the session, as editors do that have unsaved changes."""
    user_day_usd: float | None = None  #: Daily cost limit for all sessions of `user_id`.

    def for_new_session(self, **changes: Any) -> "SessionRequest":
        """Return the request for another session of the same user and surface."""
        other = {"resume": "", "latest": False, "session_id": "", "about": "", "history": ()}
        return msgspec.structs.replace(self, **{**other, **changes})


class Services(msgspec.Struct):
    """Services of higher layers that tools use. The entry point (chat, gateway, cron) sets them
    before it builds the first agent."""

    scheduler: Scheduler | None = None
    outbox: Outbox | None = None
    trainer: Trainer | None = None


def store_exists(home: Home, url: str) -> bool:
    """Return whether there can be sessions, without creating anything."""
    return bool(url) or home.state_db.exists()


@asynccontextmanager
async def opened_store(
    home: Home, url: str, tell: Callable[[str], None]
) -> AsyncIterator[SessionStore]:
    """Open the store until the end of the block. `tell` receives messages about its state."""
    with closing(open_store(url, home.state_db, tell)) as store:
        yield store


# Automatic deletion of old sessions (`sessions.auto_prune`).

HOUR, DAY = 3600.0, 86400.0
MARK = "sessions-pruned-at"

log = logging.getLogger(__name__)


async def prune_when_due(
    store: SessionStore,
    settings: SessionSettings,
    home: Home,
    now: Callable[[], float] = time.time,
) -> int:
    """Delete ended sessions older than the settings allow, at most once in the interval. Return
    their number. A failure is logged."""
    mark, last = home.cache / MARK, 0.0
    with suppress(OSError, ValueError):
        last = float(mark.read_text())
    if not settings.auto_prune or now() - last < settings.min_interval_hours * HOUR:
        return 0
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(mark, f"{now()}\n")
        before = now() - settings.retention_days * DAY
        gone = await store.prune(SessionFilter(started_before=before))
        if gone and settings.vacuum_after_prune:
            await store.vacuum()
    except (StoreError, OSError) as error:
        log.warning("old sessions were not pruned: %s", error)
        return 0
    if gone:
        log.info("deleted %d sessions older than %d days", len(gone), settings.retention_days)
    return len(gone)


# Daily backups of the SQLite store (`sessions.daily_backups`)

QUICK_BACKUP_BYTES = 32 * 2**20
"""Maximum size of a store that is copied while a user waits for the program to end."""


def back_up_when_due(home: Home, settings: Settings, *, max_bytes: int | None = None) -> None:
    """Make the daily backup, unless the store is larger than `max_bytes`. A failure is logged."""
    if settings.store.url:
        return
    from hermes.store import back_up_daily  # a chat starts without it

    try:
        back_up_daily(home.state_db, settings.sessions.daily_backups, max_bytes=max_bytes)
    except (StoreError, OSError) as error:
        log.warning("no daily backup of the session store: %s", error)


async def latest_session(store: SessionStore, session_id: str) -> str:
    """Return the session that continues a compacted one. A crash may have come between the
    compaction and the update of what refers to the session. Raises `SessionNotFound`."""
    while (await store.info(session_id)).end_reason == "compression":
        children = await store.descendants(session_id)
        after = [each.id for each in children if each.parent_id == session_id]
        if not after:
            break
        session_id = after[-1]
    return session_id
