"""What the agents of one process share, and the tasks that run in the background."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

import msgspec

from hermes.agent import Agent
from hermes.app.build import AgentSession, build_agent
from hermes.app.extensions import Extensions, McpServers, telemetry_of
from hermes.app.log_files import start_logging
from hermes.app.model_choice import choice_of_request
from hermes.app.providers import AuxiliaryModels, Budgets, Providers, stored_secrets
from hermes.app.sessions import REMOTE_PROMPT, ReadSecret, Services, SessionRequest, prune_when_due
from hermes.app.skills import SkillCatalog
from hermes.app.turn_hooks import flush_memory
from hermes.config import policy
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import Loaded
from hermes.config.own_files import OwnFiles
from hermes.core.errors import ConfigError, HermesError, SessionNotFound
from hermes.core.events import Notice, TurnFinished
from hermes.core.messages import User
from hermes.core.ports import Clock, HookName, Hooks, SessionInfo
from hermes.providers import LOCAL, Target
from hermes.providers.local import DownloadProgress
from hermes.security import Redactor
from hermes.skills import command_message, preload_skills, skill_command
from hermes.store import open_store
from hermes.terminal import open_boundary
from hermes.util.concurrency import SystemClock, in_thread

Show = Callable[[str], None]
MAX_GOAL_CHARS = 60
HOOK_APPROVALS = "shell-hooks-allowlist.json"

logger = logging.getLogger(__name__)


class BackgroundTask(msgspec.Struct, eq=False):
    id: str
    goal: str
    owner: Agent
    began: float
    work: "asyncio.Task[None]"


class BackgroundTasks:
    """The background tasks of a process, by the conversation that started them.

    They cannot ask the user: `approvals.headless` decides about actions that need approval.
    """

    def __init__(
        self,
        start: Callable[[SessionRequest], Awaitable[Agent]],
        end: Callable[[Agent], Awaitable[None]],
        now: Callable[[], datetime],
    ) -> None:
        """`start` builds the agent of a task and `end` closes it."""
        self._start, self._end, self._now = start, end, now
        self._tasks: dict[str, BackgroundTask] = {}

    def start(self, owner: Agent, request: SessionRequest, goal: str, show: Show) -> str:
        """Start a task and return its name. `show` is called with the answer."""
        name = f"bg_{self._now():%H%M%S}_{secrets.token_hex(3)}"
        work = asyncio.ensure_future(self._run(name, request, goal, show))
        self._tasks[name] = BackgroundTask(name, goal, owner, time.monotonic(), work)
        work.add_done_callback(lambda _done: self._tasks.pop(name, None))
        return name

    async def _run(self, name: str, request: SessionRequest, goal: str, show: Show) -> None:
        alone = {"approver": None, "clarifier": None, "read_secret": None, "goes_on": False}
        try:
            agent = await self._start(request.for_new_session(**alone))
            try:
                head = f"**`{name}`** {shorten_goal(goal)} (session `{agent.session_id}`)"
                async with aclosing(agent.run(User.say(goal))) as events:
                    async for event in events:
                        if isinstance(event, TurnFinished):  # always the last one
                            text = event.text or event.error or f"no answer: {event.exit_reason}"
                            show(f"{head}\n\n{text}")
                        elif isinstance(event, Notice):
                            show(f"{head}\n\n{event.text}")
            finally:
                await self._end(agent)
        except HermesError as error:
            show(f"`{name}` ({shorten_goal(goal)}) failed: {error}")

    def lines(self, owner: Agent) -> list[str]:
        """Return one line for each running task."""
        now = time.monotonic()
        return [
            f"`{task.id}` {shorten_goal(task.goal)} ({now - task.began:.0f} s)"
            for task in self._of(owner)
        ]

    async def stop(self, owner: Agent) -> int:
        """Cancel the tasks of a conversation and return their number."""
        works = [task.work for task in self._of(owner)]
        await _cancel(works)
        return len(works)

    async def close(self) -> None:
        await _cancel([task.work for task in self._tasks.values()])

    def moved(self, old: Agent, new: Agent) -> None:
        """Assign the tasks of `old` to `new`, the next agent of the conversation."""
        for task in self._of(old):
            task.owner = new

    def _of(self, owner: Agent) -> list[BackgroundTask]:
        return [task for task in self._tasks.values() if task.owner is owner]


async def _cancel(works: "list[asyncio.Task[None]]") -> None:
    for work in works:
        work.cancel()
    if works:
        await asyncio.wait(works)


def shorten_goal(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_GOAL_CHARS else f"{flat[: MAX_GOAL_CHARS - 1]}…"


def _store_policy(home: Home, loaded: Loaded) -> None:
    """Store the policy in effect; the first start of a home thereby confirms what it finds."""
    approved: list[str] = []
    if (home.root / HOOK_APPROVALS).exists():
        from hermes.plugins import HookApprovals  # only for homes with shell hooks

        with suppress(ConfigError):  # reported when a hook is to run
            approved = [each.name for each in HookApprovals(home.root).all()]
    if loaded.policy:
        policy.store(home.root, loaded.policy, approved)


Adopt = Callable[[Agent], Awaitable[None]]


class App:
    """What the agents of one process share; opened here and closed together."""

    def __init__(
        self,
        home: Home,
        loaded: Loaded,
        progress: DownloadProgress,
        tell: Callable[[str], None],
        *,
        state_db: Path | None = None,
        clock: Clock | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        """`tell` is called with notices for the user that are not part of a conversation.

        `state_db` replaces the session file of the settings. The app closes `extensions`; without
        them it loads the plugins itself, and shell hooks that need approval stay off.
        """
        self.home, self.loaded, self.tell = home, loaded, tell
        ensure_hermes_home(home)
        self.redactor = Redactor(loaded.secrets() | stored_secrets(home))
        start_logging(home, loaded.settings.logging, self.redactor)
        _store_policy(home, loaded)
        self.clock: Clock = clock or SystemClock()
        url = loaded.settings.store.url if state_db is None else ""
        self.store = open_store(url, state_db or home.state_db, tell)
        self.extensions = extensions or Extensions(home, loaded, tell)
        self.mcp = McpServers(home, loaded, tell)
        self.providers = Providers(home, loaded, self.clock, progress)
        self.telemetry = telemetry_of(loaded.settings.telemetry, self.redactor.redact)
        self.services = Services()
        self.skills = SkillCatalog(loaded, home, self.extensions.skills, tell)
        self.background = BackgroundTasks(self.agent, self.leave, self.clock.now)
        self.budgets = Budgets(loaded.settings, self.store, self.clock)
        self._open: dict[Agent, AgentSession] = {}
        self.own_files = OwnFiles(home.root, self._is_home_protected)

    @property
    def hooks(self) -> Hooks:
        return self.extensions.hooks

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        async with AsyncExitStack() as stack:  # a failing close does not prevent the others
            stack.callback(self._check_own_files)  # when no process of the agent runs any more
            stack.callback(self.store.close)
            if self.telemetry is not None:
                stack.push_async_callback(asyncio.to_thread, self.telemetry.close)
            stack.push_async_callback(self.providers.close)
            stack.push_async_callback(self.extensions.close)
            stack.push_async_callback(self.mcp.close)
            for session in self._open.values():
                stack.push_async_callback(session.close)
            stack.push_async_callback(self.background.close)
            if self.loaded.settings.sessions.auto_prune:
                await prune_when_due(self.store, self.loaded.settings.sessions, self.home)

    def _check_own_files(self) -> None:
        for text in self.own_files.check_idle():
            self.tell(text)

    async def agent(self, request: SessionRequest) -> Agent:
        """Build an agent for a new or a stored session; close the session's other open agent."""
        agent = await self._build(request)
        await self._leave_others(agent)
        return agent

    async def _build(self, request: SessionRequest) -> Agent:
        for name in request.skills:  # report a wrong name before the user types a message
            await in_thread(self.skills.skills.get, name)
        session = await build_agent(self, request)
        self._open[session.agent] = session
        return session.agent

    async def opened(self, agent: Agent, text: str) -> User:
        """Return the first message of a conversation: the text after the requested skills, or with
        the skill that it calls. Raises `SkillNotFound` and `SkillInvalid`."""
        if text.startswith("/") and (called := await self.skill_message(agent, text)) is not None:
            return called
        session = self._open[agent]
        names = session.request.skills
        if not names:
            return User.say(text)
        _loaded, before = await preload_skills(session.skills.loader, names)
        return User.say(f"{self.redactor.redact(before)}\n\n{text}")

    async def skill_message(self, agent: Agent, text: str) -> User | None:
        """Return the message for `/skill-name …`, or None if the text names no skill."""
        skills = self._open[agent].skills
        called = await in_thread(
            lambda: skill_command(text, skills.catalog.skills.entries(), skills.context)
        )
        if called is None:
            return None
        _loaded, message = await command_message(skills.loader, called)
        return User.say(self.redactor.redact(message))

    def reread_variables(self) -> list[str]:
        """Read .env again and return the names of the changed variables."""
        names = self.loaded.reread_variables()
        self.redactor.learn(*self.loaded.secrets())
        return names

    async def ask_secret(self, read: ReadSecret, name: str, prompt: str, help_text: str) -> bool:
        """Store a secret of the user in .env. The model only learns whether there is one."""
        value = (await read(name, prompt, help_text)).strip()
        if not value:
            return False
        self.redactor.learn(value)
        from hermes.config import edit  # a slow YAML library, needed only for changes

        await asyncio.to_thread(edit.set_variable, self.home, name, value)
        self.loaded.remember(name, value)
        return True

    def is_open(self, agent: Agent) -> bool:
        """False after `leave`, also when another agent took over the session."""
        return agent in self._open

    def session(self, agent: Agent) -> AgentSession:
        """Return the parts of an open agent."""
        return self._open[agent]

    async def renew(self, agent: Agent, adopt: Adopt) -> Agent:
        """Save notes of the current conversation, then `move` to a new one."""
        await self.flush(agent)
        old = self.session(agent)
        new = await self.move(agent, "", adopt)
        await old.engine.reset()
        platform = self.session(new).request.source
        await self.hooks.fire(
            HookName.ON_SESSION_RESET, session_id=new.session_id, platform=platform
        )
        return new

    async def move(self, agent: Agent, session: str, adopt: Adopt) -> Agent:
        """Replace `agent` by one for `session`, an id or a title; "" starts a new session.

        `adopt` gets the new agent while both are open, so the surface never holds a closed one.
        """
        request = self._open[agent].request.for_new_session(resume=session, skills=())
        new = await self._build(request)  # first: if it fails, the old agent stays open
        self.background.moved(agent, new)
        await adopt(new)
        await self.leave(agent)
        await self._leave_others(new)
        return new

    async def leave(self, agent: Agent) -> None:
        """Close an agent and its parts. The session stays in the store."""
        if session := self._open.pop(agent, None):
            await session.close()

    async def flush(self, agent: Agent) -> int:
        """Let the model save notes of the conversation; return how many it wrote."""
        least = self.loaded.settings.memory.flush_min_turns
        return await flush_memory(agent, self._open[agent].reviewer, least=least)

    async def _leave_others(self, agent: Agent) -> None:
        """Close the other open agents of the agent's session."""
        for other in [each for each in self._open if each.session_id == agent.session_id]:
            if other is not agent:
                await self.leave(other)

    def caching_line(self, agent: Agent) -> str:
        """Return the start-up notice about prompt caching; "" if the model has none."""
        target = self._open[agent].target
        if not target.profile.cache_marks:
            return ""
        service = self.providers.resolver.endpoint(target.provider).label
        return f"💾 Prompt caching: ENABLED (Claude via {service}, {target.cache_ttl} TTL)"

    def _is_home_protected(self) -> bool:
        """Return whether programs of the agent are kept from Hermes' own files."""
        settings = self.loaded.settings
        local = settings.terminal.backend == "local"
        return not local or open_boundary(self.home, settings).holds

    def boundary_line(self) -> str:
        """Return the start-up notice about the protection of Hermes' own files; "" if commands do
        not run on this machine."""
        settings = self.loaded.settings
        if settings.terminal.backend != "local":
            return ""
        line = open_boundary(self.home, settings).describe()
        return f"{line[0].upper()}{line[1:]}."

    async def auxiliary(self, session_id: str) -> AuxiliaryModels:
        """Return the auxiliary models of a session; their cost counts against its budget."""
        main, budget = await self.providers.main(), self.budgets.of(session_id)
        return AuxiliaryModels(self.providers, main, budget, self.store, session_id)

    async def suggest_words(self, query: str) -> tuple[str, ...]:
        """Return other words for a search outside of a conversation, as the auxiliary model
        suggests them; none if no model can be asked. The embedded model is not started for it."""
        from hermes.tools import suggest_words  # few commands search

        try:
            if self.providers.known_target(self.providers.main_choice()).provider == LOCAL:
                return ()
            models = await self.auxiliary("")
        except HermesError as error:
            logger.info("no other words for a search: %s", error)
            return ()
        return await suggest_words(models, self.loaded.settings.auxiliary.session_search, query)

    async def find_target(self, request: SessionRequest) -> Target:
        """Return the model of the request, or else that of the settings."""
        if given := request.remote or request.target:
            return given
        if not (request.model or request.provider or request.base_url):
            return await self.providers.main()
        return await self.providers.ready(choice_of_request(request, self.loaded))

    async def find_session(self, request: SessionRequest) -> SessionInfo | None:
        """Return the session to continue; None for a new one."""
        if request.resume:
            found = await self.store.resolve(request.resume)
            if (found.system_prompt == REMOTE_PROMPT) != (request.remote is not None):
                raise SessionNotFound(f"{found.title or found.id} was had with another agent")
            return found
        if request.session_id:
            try:
                return await self.store.info(request.session_id)
            except SessionNotFound:
                return None
        return await self.store.latest(request.source) if request.latest else None
