"""The agent and stored session of each chat: open, reuse, evict, mirror, and reset by schedule."""

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import msgspec

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.config.settings.agent import SessionResetSettings
from hermes.config.settings.display import DisplaySettings
from hermes.config.settings.platforms import Role
from hermes.core.errors import ConfigError, HermesError, SessionNotFound, StoreConflict
from hermes.core.messages import Assistant, Text, User
from hermes.gateway.auth import toolsets_for
from hermes.gateway.messages import INTERNAL_PREFIX, MIRROR_PREFIX, describe_chat
from hermes.gateway.platforms.kit.contract import (
    ChatTarget,
    MessageEvent,
    PlatformManifest,
    SessionSource,
)
from hermes.gateway.platforms.registry import chat_media_folder
from hermes.gateway.process import this_process
from hermes.gateway.proxy import Proxy
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_keys import background_parent, is_shared, memory_scope
from hermes.memory import safe_name
from hermes.store.records import ChatLease, ChatRow, InboxItem, InboxRow
from hermes.store.session_store import SessionStore, under_lease
from hermes.util.text import clean

log = logging.getLogger(__name__)

WakeChat = Callable[[str], None]
"""Called with the key of a chat for which a message was stored that no user wrote."""


class BackgroundNotices:
    """Listens to the pending notices of open agents, such as ended background processes.

    Each notice is stored as a message of the chat, so that it is answered exactly once like any
    other.
    """

    def __init__(
        self,
        store: SessionStore,
        display: DisplaySettings,
        now: Callable[[], float],
        is_busy: Callable[[str], bool],
    ) -> None:
        self._store, self._mode, self._now = store, display.background_process_notifications, now
        self._busy = is_busy
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.on_stored: WakeChat = lambda _key: None

    def listen(self, key: str, agent: Agent, source: SessionSource) -> None:
        """Listen to the agent of a chat, instead of the one before."""
        self.forget(key)
        if self._mode != "off":
            self._tasks[key] = asyncio.create_task(self._listen(key, agent, source))

    def forget(self, key: str) -> None:
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def _listen(self, key: str, agent: Agent, source: SessionSource) -> None:
        while True:
            await agent.pending.wait()
            if agent.running or self._busy(key):  # the running turn reads it
                await asyncio.sleep(0.1)
                continue
            notice = agent.pending.take()
            if notice is not None and self._is_wanted(notice):
                await self._store_message(key, agent, source, notice)

    def _is_wanted(self, notice: User) -> bool:
        ended = "exited" in notice.text or "exit code" in notice.text
        match self._mode:
            case "result":
                return ended
            case "error":
                return ended and "exit code 0" not in notice.text
            case _:
                return True

    async def _store_message(
        self, key: str, agent: Agent, source: SessionSource, notice: User
    ) -> None:
        now = self._now()
        name = f"{INTERNAL_PREFIX}news:{agent.session_id}:{now:.6f}"
        event = MessageEvent(source, name, clean(notice.text), sent_at=now)
        item = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        try:
            row = await self._store.inbox.receive(item, now)
        except HermesError as error:
            log.error("a notice of a background process was lost: %s", error)
            return
        if row is not None:
            self.on_stored(key)

    def close(self) -> None:
        for key in tuple(self._tasks):
            self.forget(key)


NO_TOOLS = ("-all",)
"""Sentinel toolset for "no tools": a request without any toolset gets the default ones."""


class OpenChatSession(msgspec.Struct, eq=False):
    """An open agent of a chat."""

    agent: Agent
    role: Role
    session_id: str
    """The session id when it was bound; a compaction changes that of the agent."""
    source: SessionSource
    fence: int
    """Fence of the lease under which the session was last used or read."""


class ChatSessions:
    """The open agents of all chats.

    At most `gateway.live_agents` are open; the least recently used one is closed for a new one.
    Closing loses nothing: the next message opens the session again.
    """

    def __init__(
        self,
        app: App,
        backend: str,
        homes: Callable[[], str],
        manifests: Mapping[str, PlatformManifest],
        proxy: Proxy | None = None,
    ) -> None:
        """`backend` is where commands run; `homes` describes the connected platforms."""
        self._app, self._backend, self._homes = app, backend, homes
        self._manifests, self._proxy = manifests, proxy
        self._sessions: OrderedDict[str, OpenChatSession] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.notices = BackgroundNotices(
            app.store,
            app.loaded.settings.display,
            lambda: app.clock.now().timestamp(),
            lambda key: self.is_busy(key),
        )
        self.is_busy: Callable[[str], bool] = lambda _key: False
        """Returns whether a chat is in work, so that its agent must stay open."""
        self.on_closed: Callable[[str], None] = lambda _key: None
        """Called when the agent of a chat was closed."""
        self.on_new_session: Callable[[str, str, SessionSource], Awaitable[None]] | None = None
        """Called with the chat, the session and the user when a new session starts."""

    def get(self, key: str) -> Agent | None:
        """Return the agent of a chat if it is open."""
        session = self._sessions.get(key)
        return session.agent if session and self._app.is_open(session.agent) else None

    def lock(self, key: str) -> asyncio.Lock:
        """Return the lock for opening or ending the session of a chat, or writing to it from
        outside a turn."""
        return self._opening.setdefault(key, asyncio.Lock())

    def keys(self) -> tuple[str, ...]:
        return tuple(self._sessions)

    def role(self, key: str) -> Role | None:
        """Return the role that the open agent works for."""
        session = self._sessions.get(key)
        return session.role if session else None

    async def open(
        self,
        key: str,
        source: SessionSource,
        role: Role,
        questions: ChatQuestions,
        *,
        keep: Callable[[], bool] = lambda: False,
    ) -> Agent:
        """Return the agent of a chat with the rights of `role`, opening it if needed.

        If `keep` returns True, an open agent of another role is returned as it is. Raises
        `HermesError`.
        """
        async with self.lock(key):
            return await self._open_locked(key, source, role, questions, keep)

    async def _open_locked(
        self,
        key: str,
        source: SessionSource,
        role: Role,
        questions: ChatQuestions,
        keep: Callable[[], bool],
    ) -> Agent:
        session, agent = self._sessions.get(key), self.get(key)
        if session is not None and agent is not None and (session.role == role or keep()):
            self._sessions.move_to_end(key)
            return agent
        if session is not None:
            await self.close(key)
        row = await self._app.store.chats.get(key)
        agent = await self._create_agent(
            key, source, role, questions, row.session_id if row else ""
        )
        # If a process holds the lease, it may write more than what was read here.
        fence = row.fence - bool(row.owner) if row else 0
        self._sessions[key] = OpenChatSession(agent, role, agent.session_id, source, fence)
        self.notices.listen(key, agent, source)
        # A background task is not a chat: it receives no messages and is never reset.
        await self._bind(key, agent, None if background_parent(key) else source)
        if self.on_new_session is not None and not agent.history:
            await self.on_new_session(key, agent.session_id, source)
        await self._evict_idle()
        return agent

    async def refresh(self, key: str, fence: int) -> None:
        """Close the agent if another process worked on the chat since this one did: its history is
        outdated."""
        session = self._sessions.get(key)
        if session is not None and fence > session.fence + 1:
            log.info("another process worked on %s; its session is read again", key)
            await self.close(key)

    def note_fence(self, key: str, fence: int) -> None:
        """Note that this process worked on the chat under this fence."""
        if session := self._sessions.get(key):
            session.fence = fence

    async def _create_agent(
        self, key: str, source: SessionSource, role: Role, questions: ChatQuestions, session_id: str
    ) -> Agent:
        request = self.request(source, role, questions)
        if background_parent(key):  # a task asks no questions and has no next turn
            request = msgspec.structs.replace(
                request, approver=None, clarifier=None, read_secret=None, goes_on=False
            )
        if not session_id:
            return await self._app.agent(request)
        try:
            resume = await self.latest_session(session_id)
            if any(
                each.agent.running
                for each in self._sessions.values()
                if each.agent.session_id == resume
            ):
                raise StoreConflict("this session is in use in another chat")
            return await self._app.agent(msgspec.structs.replace(request, resume=resume))
        except SessionNotFound:
            log.info("the session of %s was deleted; a new one starts", key)
            return await self._app.agent(request)

    async def latest_session(self, session_id: str) -> str:
        """Return the session that continues a compacted one. A crash may have come between a
        compaction and the update of the chat."""
        store = self._app.store
        while (await store.info(session_id)).end_reason == "compression":
            children = await store.descendants(session_id)
            after = [each.id for each in children if each.parent_id == session_id]
            if not after:
                break
            session_id = after[-1]
        return session_id

    def request(
        self, source: SessionSource, role: Role, questions: ChatQuestions
    ) -> SessionRequest:
        settings = self._app.loaded.settings
        shared = is_shared(
            source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        owner, limited = role == "owner", toolsets_for(role, settings.gateway)
        scope = memory_scope(source, owner=owner, shared=shared)
        thread = f":{source.thread_id}" if source.thread_id else ""
        session_request = SessionRequest(
            working_folder=_working_folder(self._app, scope.user),
            source=source.platform,
            user_id=scope.user,
            approver=questions,
            clarifier=questions,
            toolsets=() if limited is None else limited or NO_TOOLS,
            scope=scope,
            ephemeral_system_prompt=describe_chat(
                source, settings, shared=shared, homes=self._homes()
            ),
            backend=self._backend,
            origin=f"{source.platform}:{source.chat_id}{thread}",
            user_day_usd=None if owner else settings.gateway.user_day_usd,
            sends_files=role != "guest",
            shared_folders=(self._media_folder(source),),
            patience=self._manifests[source.platform].patience,
        )
        return self._proxy.request(session_request) if self._proxy else session_request

    def _media_folder(self, source: SessionSource) -> Path:
        """Create the folder before the session starts: a sandbox sees only folders that exist
        then."""
        folder = chat_media_folder(self._app.home.root, source)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    async def adopt(self, key: str, agent: Agent) -> None:
        """Bind the chat to another session and its agent. Raises `StoreError` if that is
        refused."""
        session = self._sessions[key]
        await self._bind(key, agent, None)  # first, because it may be refused
        session.agent, session.session_id = agent, agent.session_id
        self.notices.listen(key, agent, session.source)

    async def rebind(self, key: str) -> None:
        """Store the current session id after a turn, which may have compacted the session."""
        session = self._sessions.get(key)
        if session is not None:
            session.session_id = session.agent.session_id
            await self._bind(key, session.agent, None)

    async def _bind(self, key: str, agent: Agent, source: SessionSource | None) -> None:
        origin = msgspec.json.encode(source) if source else b""
        now = self._app.clock.now().timestamp()
        await self._app.store.chats.bind(key, agent.session_id, origin, now)

    async def close(self, key: str) -> None:
        self.notices.forget(key)
        if session := self._sessions.pop(key, None):
            await self._app.leave(session.agent)
            self.on_closed(key)

    async def end(self, key: str) -> str:
        """End the session of a chat, so that the next message starts a new one. Returns its id."""
        async with self.lock(key):  # so that it is not opened again before its end is stored
            row = await self._app.store.chats.get(key)
            await self.close(key)
            if row is None or not row.session_id:
                return ""
            await self._app.store.finish(row.session_id, "session_reset")
            await self._app.store.chats.bind(key, "", b"", self._app.clock.now().timestamp())
            return row.session_id

    async def close_all(self) -> None:
        for key in self.keys():
            await self.close(key)

    async def _evict_idle(self) -> None:
        most = self._app.loaded.settings.gateway.live_agents
        spare = [key for key in self._sessions if not self.is_busy(key)]
        for key in spare[: max(len(self._sessions) - most, 0)]:
            if not self.has_running_processes(key):
                await self.close(key)

    def has_running_processes(self, key: str) -> bool:
        """Return whether background processes of the agent run; then it is neither closed nor
        reset."""
        agent = self.get(key)
        if agent is None:
            return False
        processes = self._app.session(agent).session_tools.processes
        return any(each.state == "running" for each in processes.list())


def _working_folder(app: App, user: str) -> Path:
    """Return where commands run: for owners by the settings, for others in a folder of their
    own."""
    if not user:
        return Path(app.loaded.settings.gateway.cwd).expanduser()
    folder = app.home.root / "workspaces" / safe_name(user)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


MIRROR_NOTE = "[sent to this chat from another conversation]"
MIRROR_LEASE_SECONDS = 10.0
"""Duration of the lease in seconds for writing one mirrored message."""


class MirrorToChat:
    def __init__(
        self,
        store: SessionStore,
        on_stored: WakeChat | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Without `on_stored`, this process runs no chat workers."""
        self._store, self._on_stored, self._now = store, on_stored, now

    async def __call__(self, target: ChatTarget, text: str, name: str = "") -> bool:
        """Copy a text that was sent to a chat into its session. Returns False if the chat has no
        session.

        A text with a `name` is stored once, however often it is passed. Raises `StoreError`.
        """
        chat = await self._find_chat(target)
        if chat is None:
            return False
        message = f"{MIRROR_NOTE}\n{text}"
        if self._on_stored is not None or not await self._append_now(chat, message):
            await self._store_message(chat, message, name or secrets.token_hex(8))
        return True

    async def _find_chat(self, target: ChatTarget) -> ChatRow | None:
        """Return the most recently active session of the chat; a group may have several."""
        here = [
            chat
            for chat in await self._store.chats.select()
            if chat.session_id and chat.origin and _matches(chat.origin, target)
        ]
        return max(here, key=lambda chat: chat.last_active, default=None)

    async def _store_message(self, chat: ChatRow, text: str, name: str) -> None:
        source = msgspec.json.decode(chat.origin, type=SessionSource)
        event = MessageEvent(source, f"{MIRROR_PREFIX}{name}", text, sent_at=self._now())
        item = InboxItem(
            source.platform,
            source.account,
            event.message_id,
            chat.session_key,
            msgspec.json.encode(event),
        )
        row = await self._store.inbox.receive(item, self._now())
        if row is not None and self._on_stored is not None:
            self._on_stored(chat.session_key)

    async def _append_now(self, chat: ChatRow, text: str) -> bool:
        """Append the text to the session now. Returns False if a process works on the chat."""
        now, owner = self._now(), f"note:{this_process()}"
        lease = await self._store.chats.claim(
            chat.session_key, owner, now, now + MIRROR_LEASE_SECONDS
        )
        if lease is None:
            return False
        try:
            with under_lease(lease):
                await self._store.append(chat.session_id, Assistant((Text(text),)))
        finally:
            await self._store.chats.release(lease)
        return True


async def append_mirrored(
    sessions: ChatSessions,
    store: SessionStore,
    row: InboxRow,
    event: MessageEvent,
    lease: ChatLease,
) -> None:
    """Append a mirrored message to the session of its chat, exactly once, if the chat still has
    one."""
    async with sessions.lock(row.session_key):
        chat = await store.chats.get(row.session_key)
        if chat is None or not chat.session_id:
            return
        if row.state == "working" and row.session_id == chat.session_id:
            logged = await store.log(chat.session_id)
            if logged and logged[-1].id > row.log_after:
                return  # it was appended before a crash
        await store.inbox.start((row.id,), chat.session_id, lease)
        message = Assistant((Text(event.text),))
        await store.append(chat.session_id, message)
        if (agent := sessions.get(row.session_key)) is not None:
            agent.rewrite((*agent.history, message))


def _matches(origin: bytes, target: ChatTarget) -> bool:
    try:
        source = msgspec.json.decode(origin, type=SessionSource)
    except msgspec.DecodeError:  # a damaged row must not affect other chats
        return False
    place = (target.platform, target.chat_id, target.thread_id)
    here = (source.platform, source.chat_id, source.thread_id) == place
    return here and target.account in ("", source.account)


FILE = "gateway.json"


class ResetRule(msgspec.Struct, frozen=True):
    mode: Literal["both", "idle", "daily", "none"] = "both"
    idle_minutes: int = 1440
    at_hour: int = 4


class _PlatformRule(msgspec.Struct, frozen=True):
    """Overrides of one platform; other values come from `session_reset`."""

    mode: Literal["both", "idle", "daily", "none"] | None = None
    idle_minutes: int | None = None
    at_hour: int | None = None


class _GatewayFile(msgspec.Struct, frozen=True):
    reset_by_platform: dict[str, _PlatformRule] = {}


class ResetPolicy:
    def __init__(
        self,
        default: SessionResetSettings,
        by_platform: dict[str, _PlatformRule],
        zone: tzinfo | None,
    ) -> None:
        """`zone` is the time zone of `at_hour`; None means that of the given times."""
        self._default = ResetRule(default.mode, default.idle_minutes, default.at_hour)
        self._by_platform, self._zone = by_platform, zone

    @classmethod
    def read(cls, default: SessionResetSettings, home: Path, zone: tzinfo | None) -> "ResetPolicy":
        """Read the overrides in gateway.json. Raises `ConfigError` if the file is invalid."""
        path = home / FILE
        try:
            by_platform = msgspec.json.decode(
                path.read_bytes(), type=_GatewayFile
            ).reset_by_platform
        except FileNotFoundError:
            by_platform = {}
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{FILE} cannot be read: {error}", where=str(path)) from error
        return cls(default, by_platform, zone)

    def rule(self, platform: str) -> ResetRule:
        override = self._by_platform.get(platform)
        if override is None:
            return self._default
        values = {
            key: value
            for key, value in msgspec.structs.asdict(override).items()
            if value is not None
        }
        return msgspec.structs.replace(self._default, **values)

    def reset_reason(self, platform: str, last: datetime, now: datetime) -> str:
        """Return why a session that was last active at `last` ends; "" while it continues."""
        rule = self.rule(platform)
        if rule.mode in ("idle", "both") and now - last >= timedelta(minutes=rule.idle_minutes):
            return f"{rule.idle_minutes} minutes of silence"
        if rule.mode in ("daily", "both") and last < self._newest_reset(rule, now) <= now:
            return f"it is past {rule.at_hour:02d}:00"
        return ""

    def _newest_reset(self, rule: ResetRule, now: datetime) -> datetime:
        local = now.astimezone(self._zone) if self._zone else now
        today = local.replace(hour=rule.at_hour, minute=0, second=0, microsecond=0, fold=0)
        return today if today <= local else today - timedelta(days=1)
