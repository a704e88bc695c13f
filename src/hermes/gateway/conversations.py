"""Which conversation a chat is in, and the agents that are kept ready for it."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from hermes.agent import Agent
from hermes.app.app import App
from hermes.app.request import SessionRequest
from hermes.config.settings.platforms import Role
from hermes.core.errors import SessionNotFound, StoreConflict
from hermes.gateway.asking import ChatAsker
from hermes.gateway.door.roles import toolsets_for
from hermes.gateway.news import News
from hermes.gateway.platforms.kit.contract import Manifest, SessionSource
from hermes.gateway.platforms.registry import chat_media_folder
from hermes.gateway.proxy import Proxy
from hermes.gateway.session_keys import errand_of, is_shared, memory_scope
from hermes.gateway.surroundings import surroundings
from hermes.memory import safe_name

log = logging.getLogger(__name__)

NO_TOOLS = ("-all",)
"""A request that names no toolset gets the usual ones."""


class Live(msgspec.Struct, eq=False):
    """An open conversation."""

    agent: Agent
    role: Role
    session_id: str
    """As it was bound; a compaction changes that of the agent."""
    source: SessionSource
    fence: int
    """Of the right to the chat under which it was last used, or read."""


class Conversations:
    """At most `gateway.live_agents` are open; the one used longest ago is closed for a new one.
    Closing loses nothing: the next message opens it again."""

    def __init__(
        self,
        app: App,
        backend: str,
        homes: Callable[[], str],
        manifests: Mapping[str, Manifest],
        proxy: Proxy | None = None,
    ) -> None:
        """`backend` is where commands run; `homes` names what is connected."""
        self._app, self._backend, self._homes = app, backend, homes
        self._manifests, self._proxy = manifests, proxy
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.news = News(
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
        asker: ChatAsker,
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
        asker: ChatAsker,
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
        self._live[key] = Live(agent, role, agent.session_id, source, fence)
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
        self, key: str, source: SessionSource, role: Role, asker: ChatAsker, session_id: str
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

    def request(self, source: SessionSource, role: Role, asker: ChatAsker) -> SessionRequest:
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
        processes = self._app.session(agent).workbench.processes
        return any(each.state == "running" for each in processes.list())


def _folder(app: App, user: str) -> Path:
    """Owners work where the settings say, everybody else in a folder of their own."""
    if not user:
        return Path(app.loaded.settings.gateway.cwd).expanduser()
    folder = app.home.root / "workspaces" / safe_name(user)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
