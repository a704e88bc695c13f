"""Which conversation a chat is in, and the agents that are kept ready for it."""

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
from hermes.gateway.messages import MIRRORED, OURS, surroundings
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
from hermes.gateway.session_keys import errand_of, is_shared, memory_scope
from hermes.memory import safe_name
from hermes.store.records import ChatLease, ChatRow, InboxItem, InboxRow
from hermes.store.session_store import SessionStore, under_lease
from hermes.util.text import clean

# News of background processes: when one ends, the chat it was started in hears of it.

log = logging.getLogger(__name__)

Arrived = Callable[[str], None]
"""Told of the chat for which something was kept that nobody said; it waits for its turn."""


class BackgroundNotices:
    """Listens to the agents that are open. What they should hear is kept as a message of its own,
    so that it is answered once like any other."""

    def __init__(
        self,
        store: SessionStore,
        display: DisplaySettings,
        now: Callable[[], float],
        busy: Callable[[str], bool],
    ) -> None:
        self._store, self._wanted, self._now = store, display.background_process_notifications, now
        self._busy = busy
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.arrived: Arrived = lambda _key: None

    def listen(self, key: str, agent: Agent, source: SessionSource) -> None:
        """In the place of whom we listened to before."""
        self.forget(key)
        if self._wanted != "off":
            self._tasks[key] = asyncio.create_task(self._listen(key, agent, source))

    def forget(self, key: str) -> None:
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def _listen(self, key: str, agent: Agent, source: SessionSource) -> None:
        while True:
            await agent.pending.wait()
            if agent.running or self._busy(key):  # the turn itself hears it
                await asyncio.sleep(0.1)
                continue
            news = agent.pending.take()
            if news is not None and self._matters(news):
                await self._keep(key, agent, source, news)

    def _matters(self, news: User) -> bool:
        ended = "exited" in news.text or "exit code" in news.text
        match self._wanted:
            case "result":
                return ended
            case "error":
                return ended and "exit code 0" not in news.text
            case _:
                return True

    async def _keep(self, key: str, agent: Agent, source: SessionSource, news: User) -> None:
        now = self._now()
        name = f"{OURS}news:{agent.session_id}:{now:.6f}"
        event = MessageEvent(source, name, clean(news.text), sent_at=now)
        kept = InboxItem(
            source.platform, source.account, event.message_id, key, msgspec.json.encode(event)
        )
        try:
            row = await self._store.inbox.receive(kept, now)
        except HermesError as error:
            log.error("news of a process are lost: %s", error)
            return
        if row is not None:
            self.arrived(key)

    def close(self) -> None:
        for key in tuple(self._tasks):
            self.forget(key)


NO_TOOLS = ("-all",)
"""A request that names no toolset gets the usual ones."""


class OpenChatSession(msgspec.Struct, eq=False):
    """An open conversation."""

    agent: Agent
    role: Role
    session_id: str
    """As it was bound; a compaction changes that of the agent."""
    source: SessionSource
    fence: int
    """Of the right to the chat under which it was last used, or read."""


class ChatSessions:
    """At most `gateway.live_agents` are open; the one used longest ago is closed for a new one.
    Closing loses nothing: the next message opens it again."""

    def __init__(
        self,
        app: App,
        backend: str,
        homes: Callable[[], str],
        manifests: Mapping[str, PlatformManifest],
        proxy: Proxy | None = None,
    ) -> None:
        """`backend` is where commands run; `homes` names what is connected."""
        self._app, self._backend, self._homes = app, backend, homes
        self._manifests, self._proxy = manifests, proxy
        self._live: OrderedDict[str, OpenChatSession] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.news = BackgroundNotices(
            app.store,
            app.loaded.settings.display,
            lambda: app.clock.now().timestamp(),
            lambda key: self.busy(key),
        )
        self.busy: Callable[[str], bool] = lambda _key: False
        """Whether somebody works on a chat, so that its agent is not closed."""
        self.closed: Callable[[str], None] = lambda _key: None
        """Told when a chat has no agent any more."""
        self.began: Callable[[str, str, SessionSource], Awaitable[None]] | None = None
        """Told of a new conversation: the chat, the session, and who began it."""

    def get(self, key: str) -> Agent | None:
        """The agent of a chat, when it is open."""
        live = self._live.get(key)
        return live.agent if live and self._app.is_open(live.agent) else None

    def alone(self, key: str) -> asyncio.Lock:
        """Held by whoever opens or ends the conversation of a chat, or writes into it from beside:
        meanwhile nobody reads it."""
        return self._opening.setdefault(key, asyncio.Lock())

    def keys(self) -> tuple[str, ...]:
        return tuple(self._live)

    def role(self, key: str) -> Role | None:
        """That of whom the open agent works for."""
        live = self._live.get(key)
        return live.role if live else None

    async def open(
        self,
        key: str,
        source: SessionSource,
        role: Role,
        asker: ChatQuestions,
        *,
        keep: Callable[[], bool] = lambda: False,
    ) -> Agent:
        """The agent of a chat, with what its user may. Where `keep` says so, one that works for
        somebody else is left to them. Raises a `HermesError`."""
        async with self.alone(key):
            return await self._opened(key, source, role, asker, keep)

    async def _opened(
        self,
        key: str,
        source: SessionSource,
        role: Role,
        asker: ChatQuestions,
        keep: Callable[[], bool],
    ) -> Agent:
        live, agent = self._live.get(key), self.get(key)
        if live is not None and agent is not None and (live.role == role or keep()):
            self._live.move_to_end(key)
            return agent
        if live is not None:
            await self.close(key)
        row = await self._app.store.chats.get(key)
        agent = await self._made(key, source, role, asker, row.session_id if row else "")
        # Whoever works on the chat now may write more than what was read.
        fence = row.fence - bool(row.owner) if row else 0
        self._live[key] = OpenChatSession(agent, role, agent.session_id, source, fence)
        self.news.listen(key, agent, source)
        # A task is no chat: nothing is sent to it, and no silence ends it.
        await self._bind(key, agent, None if errand_of(key) else source)
        if self.began is not None and not agent.history:
            await self.began(key, agent.session_id, source)
        await self._make_room()
        return agent

    async def taken(self, key: str, fence: int) -> None:
        """We have the right to a chat. When others had it since, what we know of it is old."""
        live = self._live.get(key)
        if live is not None and fence > live.fence + 1:
            log.info("%s was worked on elsewhere; its conversation is read again", key)
            await self.close(key)

    def held(self, key: str, fence: int) -> None:
        """We worked on a chat under this right."""
        if live := self._live.get(key):
            live.fence = fence

    async def _made(
        self, key: str, source: SessionSource, role: Role, asker: ChatQuestions, session_id: str
    ) -> Agent:
        request = self.request(source, role, asker)
        if errand_of(key):  # nobody is asked, and there is no next turn
            request = msgspec.structs.replace(
                request, approver=None, clarifier=None, read_secret=None, goes_on=False
            )
        if not session_id:
            return await self._app.agent(request)
        try:
            resume = await self.newest(session_id)
            if any(
                each.agent.running
                for each in self._live.values()
                if each.agent.session_id == resume
            ):
                raise StoreConflict("this conversation is being worked on in another chat")
            return await self._app.agent(msgspec.structs.replace(request, resume=resume))
        except SessionNotFound:
            log.info("the conversation of %s is gone; a new one begins", key)
            return await self._app.agent(request)

    async def newest(self, session_id: str) -> str:
        """Where a conversation goes on: a crash may have come between a compaction and its note."""
        store = self._app.store
        while (await store.info(session_id)).end_reason == "compression":
            children = await store.descendants(session_id)
            after = [each.id for each in children if each.parent_id == session_id]
            if not after:
                break
            session_id = after[-1]
        return session_id

    def request(self, source: SessionSource, role: Role, asker: ChatQuestions) -> SessionRequest:
        settings = self._app.loaded.settings
        shared = is_shared(
            source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        owner, limited = role == "owner", toolsets_for(role, settings.gateway)
        scope = memory_scope(source, owner=owner, shared=shared)
        thread = f":{source.thread_id}" if source.thread_id else ""
        asked = SessionRequest(
            working_folder=_folder(self._app, scope.user),
            source=source.platform,
            user_id=scope.user,
            approver=asker,
            clarifier=asker,
            toolsets=() if limited is None else limited or NO_TOOLS,
            scope=scope,
            ephemeral_system_prompt=surroundings(
                source, settings, shared=shared, homes=self._homes()
            ),
            backend=self._backend,
            origin=f"{source.platform}:{source.chat_id}{thread}",
            user_day_usd=None if owner else settings.gateway.user_day_usd,
            sends_files=role != "guest",
            shared_folders=(self._media_folder(source),),
            patience=self._manifests[source.platform].patience,
        )
        return self._proxy.request(asked) if self._proxy else asked

    def _media_folder(self, source: SessionSource) -> Path:
        """It exists from the beginning: a sandbox sees only folders that exist when it starts."""
        folder = chat_media_folder(self._app.home.root, source)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    async def adopt(self, key: str, agent: Agent) -> None:
        """Another conversation takes the place of the chat's."""
        live = self._live[key]
        await self._bind(key, agent, None)  # first: it may be refused
        live.agent, live.session_id = agent, agent.session_id
        self.news.listen(key, agent, live.source)

    async def settle(self, key: str) -> None:
        """After a turn: note where the conversation goes on."""
        live = self._live.get(key)
        if live is not None:
            live.session_id = live.agent.session_id
            await self._bind(key, live.agent, None)

    async def _bind(self, key: str, agent: Agent, source: SessionSource | None) -> None:
        origin = msgspec.json.encode(source) if source else b""
        now = self._app.clock.now().timestamp()
        await self._app.store.chats.bind(key, agent.session_id, origin, now)

    async def close(self, key: str) -> None:
        self.news.forget(key)
        if live := self._live.pop(key, None):
            await self._app.leave(live.agent)
            self.closed(key)

    async def end(self, key: str) -> str:
        """The conversation of a chat is over: the next message begins a new one. Its session."""
        async with self.alone(key):  # so that nobody opens it again before it is noted
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

    async def _make_room(self) -> None:
        most = self._app.loaded.settings.gateway.live_agents
        spare = [key for key in self._live if not self.busy(key)]
        for key in spare[: max(len(self._live) - most, 0)]:
            if not self.has_work(key):
                await self.close(key)

    def has_work(self, key: str) -> bool:
        """Whether something goes on beside the conversation: it is neither closed nor reset."""
        agent = self.get(key)
        if agent is None:
            return False
        processes = self._app.session(agent).session_tools.processes
        return any(each.state == "running" for each in processes.list())


def _folder(app: App, user: str) -> Path:
    """Owners work where the settings say, everybody else in a folder of their own."""
    if not user:
        return Path(app.loaded.settings.gateway.cwd).expanduser()
    folder = app.home.root / "workspaces" / safe_name(user)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


# What was sent to a chat from elsewhere is also in its conversation, so that the agent there knows
# what the people talk about. It is kept as a message of the chat and put there in its turn:
# nothing
# is written into a conversation beside whoever works on it.

SENT = "[sent to this chat from another conversation]"
LONGEST = 10.0
"""Seconds that a chat is held while something is put into its conversation."""


class MirrorToChat:
    def __init__(
        self,
        store: SessionStore,
        arrived: Arrived | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`arrived` hears of what was kept for a chat; without it nobody here works on chats."""
        self._store, self._arrived, self._now = store, arrived, now

    async def __call__(self, target: ChatTarget, text: str, name: str = "") -> bool:
        """False when the chat is in no conversation. What has a `name` is kept once, however often
        it is said. Raises `StoreError`."""
        chat = await self._chat(target)
        if chat is None:
            return False
        said = f"{SENT}\n{text}"
        if self._arrived is not None or not await self._put_now(chat, said):
            await self._keep(chat, said, name or secrets.token_hex(8))
        return True

    async def _chat(self, target: ChatTarget) -> ChatRow | None:
        """The conversation of the chat that was active last; a group may have several."""
        here = [
            chat
            for chat in await self._store.chats.select()
            if chat.session_id and chat.origin and _is_in(chat.origin, target)
        ]
        return max(here, key=lambda chat: chat.last_active, default=None)

    async def _keep(self, chat: ChatRow, text: str, name: str) -> None:
        source = msgspec.json.decode(chat.origin, type=SessionSource)
        event = MessageEvent(source, f"{MIRRORED}{name}", text, sent_at=self._now())
        kept = InboxItem(
            source.platform,
            source.account,
            event.message_id,
            chat.session_key,
            msgspec.json.encode(event),
        )
        row = await self._store.inbox.receive(kept, self._now())
        if row is not None and self._arrived is not None:
            self._arrived(chat.session_key)

    async def _put_now(self, chat: ChatRow, text: str) -> bool:
        """False when somebody works on the chat."""
        now, owner = self._now(), f"note:{this_process()}"
        right = await self._store.chats.claim(chat.session_key, owner, now, now + LONGEST)
        if right is None:
            return False
        try:
            with under_lease(right):
                await self._store.append(chat.session_id, Assistant((Text(text),)))
        finally:
            await self._store.chats.release(right)
        return True


async def take_in(
    conversations: ChatSessions,
    store: SessionStore,
    row: InboxRow,
    event: MessageEvent,
    right: ChatLease,
) -> None:
    """Put what was kept into the conversation of its chat, once, if it is in one (any more)."""
    async with conversations.alone(row.session_key):
        chat = await store.chats.get(row.session_key)
        if chat is None or not chat.session_id:
            return
        if row.state == "working" and row.session_id == chat.session_id:
            logged = await store.log(chat.session_id)
            if logged and logged[-1].id > row.log_after:
                return  # it is there since before a crash
        await store.inbox.start((row.id,), chat.session_id, right)
        message = Assistant((Text(event.text),))
        await store.append(chat.session_id, message)
        if (agent := conversations.get(row.session_key)) is not None:
            agent.rewrite((*agent.history, message))


def _is_in(origin: bytes, target: ChatTarget) -> bool:
    try:
        source = msgspec.json.decode(origin, type=SessionSource)
    except msgspec.DecodeError:  # one damaged row is no matter of other chats
        return False
    place = (target.platform, target.chat_id, target.thread_id)
    here = (source.platform, source.chat_id, source.thread_id) == place
    return here and target.account in ("", source.account)


# When the conversation of a chat is over by itself: after silence, or at an hour of the day.
#
# `session_reset` of config.yaml, and for single platforms `reset_by_platform` in gateway.json.

FILE = "gateway.json"


class Policy(msgspec.Struct, frozen=True):
    mode: Literal["both", "idle", "daily", "none"] = "both"
    idle_minutes: int = 1440
    at_hour: int = 4


class _Own(msgspec.Struct, frozen=True):
    """What a platform says of itself; the rest is as for all."""

    mode: Literal["both", "idle", "daily", "none"] | None = None
    idle_minutes: int | None = None
    at_hour: int | None = None


class _File(msgspec.Struct, frozen=True):
    reset_by_platform: dict[str, _Own] = {}


class ResetPolicy:
    def __init__(
        self, usual: SessionResetSettings, own: dict[str, _Own], zone: tzinfo | None
    ) -> None:
        """`zone` None is that of the times asked about."""
        self._usual = Policy(usual.mode, usual.idle_minutes, usual.at_hour)
        self._own, self._zone = own, zone

    @classmethod
    def read(cls, usual: SessionResetSettings, home: Path, zone: tzinfo | None) -> "ResetPolicy":
        """Raises `ConfigError` for a gateway.json that cannot be understood."""
        path = home / FILE
        try:
            own = msgspec.json.decode(path.read_bytes(), type=_File).reset_by_platform
        except FileNotFoundError:
            own = {}
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{FILE} cannot be read: {error}", where=str(path)) from error
        return cls(usual, own, zone)

    def policy(self, platform: str) -> Policy:
        own = self._own.get(platform)
        if own is None:
            return self._usual
        said = {
            key: value for key, value in msgspec.structs.asdict(own).items() if value is not None
        }
        return msgspec.structs.replace(self._usual, **said)

    def why(self, platform: str, last: datetime, now: datetime) -> str:
        """Why a conversation is over that was last active then; "" while it goes on."""
        policy = self.policy(platform)
        if policy.mode in ("idle", "both") and now - last >= timedelta(minutes=policy.idle_minutes):
            return f"{policy.idle_minutes} minutes of silence"
        if policy.mode in ("daily", "both") and last < self._newest_reset(policy, now) <= now:
            return f"it is past {policy.at_hour:02d}:00"
        return ""

    def _newest_reset(self, policy: Policy, now: datetime) -> datetime:
        local = now.astimezone(self._zone) if self._zone else now
        today = local.replace(hour=policy.at_hour, minute=0, second=0, microsecond=0, fold=0)
        return today if today <= local else today - timedelta(days=1)
