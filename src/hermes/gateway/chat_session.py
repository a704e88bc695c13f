"""The agent and stored session of one chat: open, reuse, mirror, reset and close."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.agent import Agent
from hermes.app import SessionRequest, latest_session
from hermes.config.settings.platforms import Role
from hermes.core.errors import HermesError, SessionNotFound, StoreConflict
from hermes.core.messages import SUBAGENT_NEWS, Assistant, Text
from hermes.gateway.auth import toolsets_for
from hermes.gateway.hooks import about
from hermes.gateway.leases import NEVER
from hermes.gateway.messages import (
    INTERNAL_PREFIX,
    MIRROR_PREFIX,
    describe_chat,
    inbox_item,
    private_folder,
)
from hermes.gateway.platforms.registry import chat_backend, chat_media_folder
from hermes.gateway.session_keys import is_shared, memory_scope, sharing
from hermes.memory import safe_name
from hermes.sdk.platforms import ChatTarget, MessageEvent, SessionSource
from hermes.store import ChatLease, ChatRow, InboxRow, SessionStore, under_lease
from hermes.util.processes import process_name
from hermes.util.text import clean

if TYPE_CHECKING:
    from hermes.gateway.worker import ChatWorker

log = logging.getLogger(__name__)

NO_TOOLS = ("-all",)
"""Sentinel toolset for "no tools": a request without any toolset gets the default ones."""
MIRROR_NOTE = "[sent to this chat from another conversation]"
MIRROR_LEASE_SECONDS = 10.0  #: Duration of the lease in seconds for writing one mirrored message.


class ChatSession:
    """The session of one chat. Its agent stays open between turns until it is evicted."""

    def __init__(self, worker: "ChatWorker") -> None:
        self._worker, self._gateway, self._key = worker, worker.gateway, worker.key
        self._app = worker.gateway.app
        self._agent: Agent | None = None
        self._source: SessionSource | None = None
        self.role: Role | None = None  #: The role that the open agent works for.
        self.fence = 0  #: Fence of the lease under which the session was last used or read.
        self.last_opened = 0.0  #: Monotonic time when the agent was last asked for.
        self._lock = asyncio.Lock()
        """Held to open or end the session, or to write to it outside a turn."""
        self._listener: asyncio.Task[None] | None = None

    @property
    def is_locked(self) -> bool:
        """Whether the session is being opened, ended or written to."""
        return self._lock.locked()

    @property
    def agent(self) -> Agent | None:
        """The agent of the chat, if it is open."""
        agent = self._agent
        return agent if agent is not None and self._app.is_open(agent) else None

    async def open(
        self, source: SessionSource, role: Role, *, keep: Callable[[], bool] = lambda: False
    ) -> Agent:
        """Return the agent of the chat with the rights of `role`, opening it if needed.

        If `keep` returns True, an open agent of another role is returned as it is. Raises
        `HermesError`.
        """
        async with self._lock:
            return await self._open(source, role, keep)

    async def _open(self, source: SessionSource, role: Role, keep: Callable[[], bool]) -> Agent:
        self.last_opened = self._gateway.clock.monotonic()
        agent = self.agent
        if agent is not None and (self.role == role or keep()):
            return agent
        await self.close()
        row = await self._app.store.chats.get(self._key)
        agent = await self._create_agent(source, role, row.session_id if row else "")
        self._agent, self._source, self.role = agent, source, role
        # If a process holds the lease, it may write more than what was read here.
        self.fence = row.fence - bool(row.owner) if row else 0
        self._listen()
        # A background task is not a chat: it receives no messages and is never reset.
        await self._bind(agent, None if self._worker.parent else source)
        if not agent.history:
            facts = {**about(source, self._key), "session_id": agent.session_id}
            await self._gateway.hooks.fire("session:start", **facts)
        await self._gateway.evict_agents()
        return agent

    async def _create_agent(self, source: SessionSource, role: Role, session_id: str) -> Agent:
        request = self._request(source, role)
        if not session_id:
            return await self._app.agent(request)
        try:
            resume = await latest_session(self._app.store, session_id)
            agents = self._gateway.open_agents().values()
            if any(each.running for each in agents if each.session_id == resume):
                raise StoreConflict("this session is in use in another chat")
            return await self._app.agent(msgspec.structs.replace(request, resume=resume))
        except SessionNotFound:
            log.info("the session of %s was deleted; a new one starts", self._key)
            return await self._app.agent(request)

    def _request(self, source: SessionSource, role: Role) -> SessionRequest:
        settings, gateway, root = self._gateway.settings, self._gateway, self._app.home.root
        shared = is_shared(source, **sharing(settings))
        owner, limited = role == "owner", toolsets_for(role, settings.gateway)
        scope = memory_scope(source, owner=owner, shared=shared)
        thread = f":{source.thread_id}" if source.thread_id else ""
        homes = gateway.targets.describe_homes(name for name, _ in gateway.connections.accounts())
        # A background task asks no questions and has no next turn.
        questions = None if self._worker.parent else self._worker.questions
        request = SessionRequest(
            # Owners work where the settings say, others in a folder of their own.
            working_folder=private_folder(root / "workspaces" / safe_name(scope.user))
            if scope.user
            else Path(settings.gateway.cwd).expanduser(),
            source=source.platform,
            user_id=scope.user,
            approver=questions,
            clarifier=questions,
            goes_on=questions is not None,
            toolsets=() if limited is None else limited or NO_TOOLS,
            scope=scope,
            ephemeral_system_prompt=describe_chat(source, settings, shared=shared, homes=homes),
            backend=chat_backend(settings),
            origin=f"{source.platform}:{source.chat_id}{thread}",
            user_day_usd=None if owner else settings.gateway.user_day_usd,
            sends_files=role != "guest",
            persists=role != "guest",
            # A sandbox sees only folders that exist when it starts.
            shared_folders=(private_folder(chat_media_folder(root, source)),),
            patience=gateway.manifests[source.platform].patience,
        )
        return gateway.proxy.request(request) if gateway.proxy else request

    async def refresh(self, fence: int) -> None:
        """Close the agent, whose history is outdated, if another process worked on the chat."""
        if self._agent is not None and fence > self.fence + 1:
            log.info("another process worked on %s; its session is read again", self._key)
            await self.close()

    async def adopt(self, agent: Agent) -> None:
        """Bind the chat to another session and its agent. Raises `StoreError`."""
        await self._bind(agent, None)  # first, because it may be refused
        self._agent = agent
        self._listen()

    async def rebind(self) -> None:
        """Store the current session id after a turn, which may have compacted the session."""
        if self._agent is not None:
            await self._bind(self._agent, None)

    async def _bind(self, agent: Agent, source: SessionSource | None) -> None:
        origin = msgspec.json.encode(source) if source else b""
        now = self._gateway.leases.now()  # it is compared with leases
        await self._app.store.chats.bind(self._key, agent.session_id, origin, now)

    async def close(self) -> None:
        """Close the agent. The session stays, and the next message opens it again."""
        if self._listener is not None:
            self._listener.cancel()
        agent, self._agent = self._agent, None
        self._listener = self.role = None
        if agent is not None:
            await self._app.leave(agent)
            self._gateway.forget_if_idle(self._worker)

    async def reset_if_due(self, *, flush: bool = False) -> None:
        """End the session if the reset settings say so; the next message starts a new one.

        The caller must hold the lease of the chat. With `flush` (no user is waiting), a session
        that is not open is opened once more, so that its memory is saved before it ends.
        """
        row = await self._app.store.chats.get(self._key)
        if row is None or not (reason := self._gateway.reset_reason(row)):
            return
        if self.has_running_processes():
            return
        log.info("%s starts a new session: %s", self._key, reason)
        origin = msgspec.json.decode(row.origin, type=SessionSource)
        agent = self.agent or (await self._open_for_flush(row, origin) if flush else None)
        if agent is not None and self._app.is_open(agent):
            await self._app.flush(agent)
        async with self._lock:  # so that it is not opened again before its end is stored
            row = await self._app.store.chats.get(self._key)
            await self.close()
            ended = row.session_id if row else ""
            if ended:
                await self._app.store.finish(ended, "session_reset")
                await self._app.store.chats.bind(self._key, "", b"", self._gateway.now())
        facts = {**about(origin, self._key), "session_id": ended}
        await self._gateway.hooks.fire("session:end", **facts)

    async def _open_for_flush(self, row: ChatRow, origin: SessionSource) -> Agent | None:
        """Return the agent of a session that is about to end; None if the session is too short to
        save anything, or cannot be opened."""
        least = self._gateway.settings.memory.flush_min_turns
        try:
            info, role = await self._app.store.info(row.session_id), self._gateway.role(origin)
            if role is None or not least or info.message_count < least:
                return None
            return await self.open(origin, role)
        except HermesError as error:
            log.warning("the memory of the session of %s was not saved: %s", self._key, error)
            return None

    def has_running_processes(self) -> bool:
        """Return whether the agent has processes or subagents in the background; then it is not
        closed or reset."""
        if (agent := self.agent) is None:
            return False
        session = self._app.session(agent)
        processes = session.session_tools.processes.list()
        return bool(session.subagents.background()) or any(
            each.state == "running" for each in processes
        )

    async def append_mirrored(self, row: InboxRow, event: MessageEvent, lease: ChatLease) -> None:
        """Append a mirrored message to the session, exactly once, if the chat still has one."""
        store = self._app.store
        async with self._lock:
            chat = await store.chats.get(self._key)
            if chat is None or not chat.session_id:
                return
            if row.state == "working" and row.session_id == chat.session_id:
                logged = await store.log(chat.session_id)
                if logged and logged[-1].id > row.log_after:
                    return  # it was appended before a crash
            await store.inbox.start((row.id,), chat.session_id, lease)
            message = Assistant((Text(event.text),))
            await store.append(chat.session_id, message)
            if (agent := self.agent) is not None:
                agent.rewrite((*agent.history, message))

    def _listen(self) -> None:
        """Listen to the notices of the open agent, such as ended background processes. Each is
        stored as a message of the chat, so that it is answered exactly once like any other."""
        if self._listener is not None:
            self._listener.cancel()
        mode = self._gateway.settings.display.background_process_notifications
        if mode != "off" and self._agent is not None and self._source is not None:
            listening = self._store_notices(self._agent, self._source, mode)
            self._listener = asyncio.create_task(listening)

    async def _store_notices(self, agent: Agent, source: SessionSource, mode: str) -> None:
        while True:
            await agent.pending.wait()
            if agent.running or self._worker.in_use:  # the running turn reads it
                await asyncio.sleep(0.1)
                continue
            notice = agent.pending.take()
            if notice is None:
                continue
            ended = "exited" in notice.text or "exit code" in notice.text
            failed = ended and "exit code 0" not in notice.text
            wanted = {"result": ended, "error": failed}.get(mode, True)
            if not wanted and SUBAGENT_NEWS not in notice.text:
                continue
            now = self._gateway.now()
            name = f"{INTERNAL_PREFIX}news:{agent.session_id}:{now:.6f}"
            event = MessageEvent(source, name, clean(notice.text), sent_at=now)
            try:
                row = await self._app.store.inbox.receive(inbox_item(event, self._key), now)
            except HermesError as error:
                log.error("a notice of a background process was lost: %s", error)
                continue
            if row is not None:
                self._gateway.wake_chat(self._key)


async def mirror_to_chat(
    store: SessionStore,
    target: ChatTarget,
    text: str,
    name: str = "",
    *,
    on_stored: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
) -> bool:
    """Copy a text that was sent to a chat into its session. Returns False if the chat has no
    session.

    `on_stored` is called with the key of the chat; without it, this process runs no chat workers.
    A text with a `name` is stored once, however often it is passed. Raises `StoreError`.
    """
    here = [
        chat
        for chat in await store.chats.select()
        if chat.session_id and chat.origin and _matches(chat.origin, target)
    ]
    # A group may have several sessions: the most recently active one is meant.
    chat = max(here, key=lambda chat: chat.last_active, default=None)
    if chat is None:
        return False
    message = f"{MIRROR_NOTE}\n{text}"
    if on_stored is None and await _append_now(store, chat, message, now()):
        return True
    source = msgspec.json.decode(chat.origin, type=SessionSource)
    message_id = f"{MIRROR_PREFIX}{name or secrets.token_hex(8)}"
    event = MessageEvent(source, message_id, message, sent_at=now())
    row = await store.inbox.receive(inbox_item(event, chat.session_key), now())
    if row is not None and on_stored is not None:
        on_stored(chat.session_key)
    return True


async def _append_now(store: SessionStore, chat: ChatRow, text: str, now: float) -> bool:
    """Append a text to a session now. Returns False if a process works on the chat."""
    owner, until = f"note:{process_name()}", now + MIRROR_LEASE_SECONDS
    # A lease that looks expired by the clock of this machine may be in use.
    lease = await store.chats.claim(chat.session_key, owner, now, until, expiry=NEVER)
    if lease is None:
        return False
    try:
        with under_lease(lease):
            await store.append(chat.session_id, Assistant((Text(text),)))
    finally:
        await store.chats.release(lease)
    return True


def _matches(origin: bytes, target: ChatTarget) -> bool:
    try:
        source = msgspec.json.decode(origin, type=SessionSource)
    except msgspec.DecodeError:  # a damaged row must not affect other chats
        return False
    place = (target.platform, target.chat_id, target.thread_id)
    here = (source.platform, source.chat_id, source.thread_id) == place
    return here and target.account in ("", source.account)
