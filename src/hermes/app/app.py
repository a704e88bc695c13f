"""From settings to a running agent. The only package that names implementations."""

import asyncio
import logging
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from hermes.agent.agent import Agent
from hermes.app.agents import Making, Start
from hermes.app.choices import fallback_choices
from hermes.app.credentials import stored_secrets
from hermes.app.extensions import Extensions
from hermes.app.flush import flush
from hermes.app.logs import start_logging
from hermes.app.mcp_servers import McpServers, SessionSampler
from hermes.app.parts import AppParts
from hermes.app.providers import Providers
from hermes.app.pruning import prune_when_due
from hermes.app.remembering import start_remembering
from hermes.app.request import SessionRequest
from hermes.app.session_models import AuxiliaryRouter
from hermes.app.skill_shelf import SkillShelf
from hermes.app.spending import day_tally, limits_of
from hermes.app.subagents import Subagents
from hermes.app.telemetry.exporting import Telemetry, TelemetryOptions, start_telemetry
from hermes.app.tools import find_toolsets
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import Loaded
from hermes.core.errors import SessionNotFound, StoreError, UsageError
from hermes.core.hooks import HookName
from hermes.core.messages import System, User
from hermes.core.ports import Clock, SessionInfo
from hermes.providers.local.progress import Progress
from hermes.providers.policy.purse import Purse
from hermes.providers.target import Target
from hermes.security.redaction import Redactor
from hermes.store.opening import open_store
from hermes.store.repair import repair
from hermes.tools.checkpoints.texts import rollback
from hermes.util.clock import SystemClock
from hermes.util.session_ids import new_session_id
from hermes.util.threads import in_thread

log = logging.getLogger(__name__)


class App:
    """What one process needs, made when first used and closed together."""

    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        progress: Progress,
        tell: Callable[[str], None],
        *,
        state_db: Path | None = None,
        clock: Clock | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        """`tell` gets what the user must know beside the conversation; `state_db` is the file of
        the sessions, when it is another one than that of the settings. `extensions` are closed
        with the rest; without them they are loaded, and nobody is asked about hooks."""
        self.home, self.loaded = home, loaded
        ensure_hermes_home(home)
        self._redactor = Redactor(loaded.secrets() | stored_secrets(home))
        start_logging(home, loaded.settings.logging, self._redactor)
        self._clock = clock or SystemClock()
        url = loaded.settings.store.url if state_db is None else ""
        self.store = open_store(url, state_db or home.state_db, tell)
        self._tell = tell
        self.extensions = extensions or Extensions(home, loaded, tell)
        self.mcp = McpServers(home, loaded, tell)
        self._open: dict[Agent, Making] = {}
        self.providers = Providers(home, loaded, self._clock, progress)
        self._purses: dict[str, Purse] = {}
        self._telemetry = self._start_telemetry()
        self._parts = AppParts(
            home,
            loaded,
            self.store,
            self.providers,
            self._redactor,
            self.extensions,
            SkillShelf(loaded, home, self.extensions.skills, tell),
            self._clock,
            tell,
            self._telemetry,
        )
        self._day = day_tally(loaded.settings, self.store, self._clock)

    def _start_telemetry(self) -> Telemetry | None:
        wanted = self.loaded.settings.telemetry
        if not wanted.enabled:
            return None
        options = TelemetryOptions(
            wanted.endpoint, wanted.headers, wanted.service_name, wanted.capture_content
        )
        return start_telemetry(options, self._redactor.redact)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        try:
            settings = self.loaded.settings.sessions
            await prune_when_due(self.store, settings, self.home, time.time)
        except (StoreError, OSError) as error:
            log.warning("old sessions were not pruned: %s", error)
        for making in self._open.values():
            await making.close()
        await self.mcp.close()
        await self.extensions.close()
        await self.providers.close()
        if self._telemetry is not None:
            await asyncio.to_thread(self._telemetry.close)
        self.store.close()

    async def agent(self, request: SessionRequest) -> Agent:
        """An agent for a new or an old conversation."""
        settings = self.loaded.settings
        for name in request.skills:  # a wrong name is told before anybody has typed a message
            await in_thread(self._parts.skills.skills.get, name)
        sampler = SessionSampler()
        brought = await self.mcp.tools(request.clarifier, sampler)
        tools = find_toolsets(self.loaded, brought).names(request.source, request.toolsets)
        past = await self._past(request)
        target = await self.providers.main()
        if past is None:
            session_id = request.session_id or new_session_id(self._clock.now())
            system, history = None, request.history
        else:
            session_id, system = past.id, System(past.system_prompt)
            history = repair(await self.store.messages(past.id))
        remembering = await start_remembering(
            self.loaded, self.home, request, self.extensions, session_id, self._tell
        )
        making = Making(
            self._parts,
            Start(
                request=request,
                session_id=session_id,
                system=system,
                history=tuple(history),
                broken_off=past is not None and past.ended_at is None,
                target=target,
                fallbacks=tuple(fallback_choices(settings)),
                tools=tools,
                purse=self._purse(await self._root(session_id, past), job=request.source == "cron"),
                max_iterations=settings.agent.max_turns,
                remembering=remembering,
                brought=tuple(brought),
            ),
            Subagents(self._parts).start,
        )
        sampler.auxiliary = making.auxiliary
        agent = await making.make()
        await self._leave(session_id)
        self._open[agent] = making
        return agent

    async def opened(self, agent: Agent, text: str) -> User:
        """The first message of a conversation: what the user says, behind the skills that were
        asked for, or with the one it calls. Raises `SkillNotFound` and `SkillInvalid`."""
        if text.startswith("/") and (called := await self.skill_message(agent, text)) is not None:
            return called
        making = self._open[agent]
        names = making.start.request.skills
        if not names:
            return User.say(text)
        commands = import_module("hermes.skills.commands")
        _loaded, before = await commands.preloaded(making.skills.loader, names)
        return User.say(f"{self._redactor.redact(before)}\n\n{text}")

    async def skill_message(self, agent: Agent, text: str) -> User | None:
        """What `/skill-name …` says to the agent; None when it names no skill."""
        skills = self._open[agent].skills
        commands = import_module("hermes.skills.commands")
        called = await in_thread(
            lambda: commands.skill_command(text, skills.shelf.skills.all(), skills.circle)
        )
        if called is None:
            return None
        _loaded, message = await commands.command_message(skills.loader, called)
        return User.say(self._redactor.redact(message))

    async def renew(self, agent: Agent) -> Agent:
        """An agent for a new conversation in the place of `agent`, whose conversation is left:
        what matters of it is saved first."""
        making = self._open[agent]
        await self.flush(agent)
        request = msgspec.structs.replace(
            making.start.request, resume="", latest=False, session_id="", history=()
        )
        new = await self.agent(request)  # first: when that fails, the old one goes on
        await self._open.pop(agent).close()
        await self.extensions.hooks.fire(
            HookName.ON_SESSION_RESET, session_id=new.session_id, platform=request.source
        )
        return new

    async def flush(self, agent: Agent) -> int:
        """Save what matters of a conversation that is left; how many notes were written."""
        least = self.loaded.settings.memory.flush_min_turns
        return await flush(agent, self._open[agent].looking_back, least=least)

    async def _leave(self, session_id: str) -> None:
        """Close what an agent of the session worked with, if there is one."""
        for agent in [each for each in self._open if each.session_id == session_id]:
            await self._open.pop(agent).close()

    def caching_line(self, agent: Agent) -> str:
        """What a conversation says at its start about the cache of its prompts; "" without one."""
        target = self._open[agent].start.target
        if not target.profile.cache_marks:
            return ""
        service = self.providers.resolver.endpoint(target.provider).label
        return f"💾 Prompt caching: ENABLED (Claude via {service}, {target.cache_ttl} TTL)"

    async def rollback(self, agent: Agent, arguments: str) -> str:
        """What `/rollback ARGUMENTS` answers in a session."""
        checkpoints = self._open[agent].workbench.checkpoints
        if checkpoints is None:
            raise UsageError(
                "there are no checkpoints here",
                hint="they need checkpoints.enabled and files on this machine",
            )
        return await rollback(checkpoints, arguments)

    async def auxiliary(self, session_id: str) -> AuxiliaryRouter:
        """Models for the work beside a session's conversation, paid from the session's purse."""
        return self._router(session_id, await self.providers.main(), self._purse(session_id))

    def _router(self, session_id: str, target: Target, purse: Purse) -> AuxiliaryRouter:
        return AuxiliaryRouter(
            self.loaded.settings, self.providers, target, purse, self.store, session_id
        )

    def _purse(self, session_id: str, *, job: bool = False) -> Purse:
        """One for each session: its turns and the work beside them share the caps."""
        if session_id not in self._purses:
            limits = limits_of(self.loaded.settings.budget)
            self._purses[session_id] = Purse(
                limits, self.store, session_id, self._clock, job=job, day=self._day
            )
        return self._purses[session_id]

    async def _root(self, session_id: str, past: SessionInfo | None) -> str:
        """The session that caps on money go by: the first of a line of compactions."""
        if past is None or not past.parent_id:
            return session_id
        for info in await self.store.ancestors(session_id):
            if info.end_reason != "compression":
                break
            session_id = info.id
        return session_id

    async def _past(self, request: SessionRequest) -> SessionInfo | None:
        """The session to go on with; None for a new one."""
        if request.resume:
            return await self.store.resolve(request.resume)
        if request.session_id:
            try:
                return await self.store.info(request.session_id)
            except SessionNotFound:
                return None
        return await self.store.latest(request.source) if request.latest else None
