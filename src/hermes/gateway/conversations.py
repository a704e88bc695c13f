"""Which conversation a chat is in, and the agents that are kept ready for it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from hermes.agent.agent import Agent
from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.config.settings.platforms import Role
from hermes.core.errors import SessionNotFound
from hermes.gateway.asking import ChatAsker
from hermes.gateway.door.roles import toolsets_for
from hermes.gateway.events import SessionSource
from hermes.gateway.news import News
from hermes.gateway.session_keys import is_shared, memory_scope
from hermes.gateway.surroundings import surroundings
from hermes.memory.places import safe_name

log = logging.getLogger(__name__)


class Live(msgspec.Struct, eq=False):
    """An open conversation."""

    agent: Agent
    role: Role
    session_id: str
    """As it was bound; a compaction changes that of the agent."""
    source: SessionSource
    fence: int = 0
    """Of the right to the chat under which it was last used; 0 when it never was."""


class Conversations:
    """At most `gateway.live_agents` are open; the one used longest ago is closed for a new one.
    Closing loses nothing: the next message opens it again."""

    def __init__(self, app: App, backend: str, homes: Callable[[], str]) -> None:
        """`backend` is where commands run; `homes` names what is connected."""
        self._app, self._backend, self._homes = app, backend, homes
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.news = News(
            app.store, app.loaded.settings.display, lambda: app.clock.now().timestamp()
        )
        self.busy: Callable[[str], bool] = lambda _key: False
        """Whether somebody works on a chat, so that its agent is not closed."""
        self.closed: Callable[[str], None] = lambda _key: None
        """Told when a chat has no agent any more."""
        self.began: Callable[[str, str, SessionSource], Awaitable[None]] | None = None
        """Told of a new conversation: the chat, the session, and who began it."""

    def get(self, key: str) -> Agent | None:
        live = self._live.get(key)
        return live.agent if live else None

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
        asker: ChatAsker,
        *,
        keep: Callable[[], bool] = lambda: False,
    ) -> Agent:
        """The agent of a chat, with what its user may. Where `keep` says so, one that works for
        somebody else is left to them. Raises a `HermesError`."""
        lock = self._opening.setdefault(key, asyncio.Lock())
        async with lock:
            return await self._opened(key, source, role, asker, keep)

    async def _opened(
        self,
        key: str,
        source: SessionSource,
        role: Role,
        asker: ChatAsker,
        keep: Callable[[], bool],
    ) -> Agent:
        live = self._live.get(key)
        if live is not None and self._app.is_open(live.agent) and (live.role == role or keep()):
            self._live.move_to_end(key)
            return live.agent
        if live is not None:
            await self.close(key)
        agent = await self._made(key, source, role, asker)
        self._live[key] = Live(agent, role, agent.session_id, source)
        self.news.listen(key, agent, source)
        await self._bind(key, agent, source)
        if self.began is not None and not agent.history:
            await self.began(key, agent.session_id, source)
        await self._make_room()
        return agent

    async def taken(self, key: str, fence: int) -> None:
        """We have the right to a chat. When others had it since, what we know of it is old."""
        live = self._live.get(key)
        if live is not None and live.fence and fence > live.fence + 1:
            log.info("%s was worked on elsewhere; its conversation is read again", key)
            await self.close(key)

    def held(self, key: str, fence: int) -> None:
        """We worked on a chat under this right."""
        if live := self._live.get(key):
            live.fence = fence

    async def _made(self, key: str, source: SessionSource, role: Role, asker: ChatAsker) -> Agent:
        request = self.request(source, role, asker)
        row = await self._app.store.chat(key)
        if row is None or not row.session_id:
            return await self._app.agent(request)
        try:
            resume = await self.newest(row.session_id)
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

    def request(self, source: SessionSource, role: Role, asker: ChatAsker) -> SessionRequest:
        settings = self._app.loaded.settings
        shared = is_shared(
            source,
            group_sessions_per_user=settings.group_sessions_per_user,
            thread_sessions_per_user=settings.thread_sessions_per_user,
        )
        owner = role == "owner"
        scope = memory_scope(source, owner=owner, shared=shared)
        thread = f":{source.thread_id}" if source.thread_id else ""
        return SessionRequest(
            working_folder=self._folder(scope.user),
            source=source.platform,
            user_id=scope.user,
            approver=asker,
            clarifier=asker,
            toolsets=toolsets_for(role, settings.gateway) or (),
            scope=scope,
            ephemeral_system_prompt=surroundings(
                source, settings, shared=shared, homes=self._homes()
            ),
            backend=self._backend,
            origin=f"{source.platform}:{source.chat_id}{thread}",
            user_day_usd=None if owner else settings.gateway.user_day_usd,
        )

    def _folder(self, user: str) -> Path:
        """Owners work where the settings say, everybody else in a folder of their own."""
        if not user:
            return Path(self._app.loaded.settings.gateway.cwd).expanduser()
        folder = self._app.home.root / "workspaces" / safe_name(user)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder

    async def adopt(self, key: str, agent: Agent) -> None:
        """Another conversation takes the place of the chat's."""
        live = self._live[key]
        live.agent, live.session_id = agent, agent.session_id
        self.news.listen(key, agent, live.source)
        await self._bind(key, agent, None)

    async def settle(self, key: str) -> None:
        """After a turn: note where the conversation goes on."""
        live = self._live.get(key)
        if live is not None:
            live.session_id = live.agent.session_id
            await self._bind(key, live.agent, None)

    async def _bind(self, key: str, agent: Agent, source: SessionSource | None) -> None:
        origin = msgspec.json.encode(source) if source else b""
        now = self._app.clock.now().timestamp()
        await self._app.store.bind(key, agent.session_id, origin, now)

    async def close(self, key: str) -> None:
        self.news.forget(key)
        if live := self._live.pop(key, None):
            await self._app.leave(live.agent)
            self.closed(key)

    async def end(self, key: str) -> str:
        """The conversation of a chat is over: the next message begins a new one. Its session."""
        lock = self._opening.setdefault(key, asyncio.Lock())
        async with lock:  # so that nobody opens it again before it is noted
            row = await self._app.store.chat(key)
            await self.close(key)
            if row is None or not row.session_id:
                return ""
            await self._app.store.finish(row.session_id, "session_reset")
            await self._app.store.bind(key, "", b"", self._app.clock.now().timestamp())
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
        live = self._live.get(key)
        if live is None or not self._app.is_open(live.agent):
            return False
        processes = self._app.session(live.agent).workbench.processes
        running = any(each.state == "running" for each in processes.list())
        return running or bool(self._app.background.lines(live.agent))
