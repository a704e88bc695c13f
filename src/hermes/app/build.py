"""From a request to an agent with everything around it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from hermes.agent import (
    AfterTurn,
    Agent,
    AgentOptions,
    Compactor,
    IterationBudget,
    PendingMessages,
    ToolDispatcher,
)
from hermes.agent import Subagent as AgentSubagent
from hermes.agent import Subagents as AgentSubagents
from hermes.app.context_engine import EngineRoom, engine_tools, make_engine
from hermes.app.extensions import Extensions
from hermes.app.model_choice import fallback_choices
from hermes.app.outgoing_files import outgoing_files
from hermes.app.prompting import Opening, aside_of, build_prompt, prefill_messages
from hermes.app.providers import AuxiliaryRouter, Providers, SessionModels
from hermes.app.request import REMOTE_PROMPT, SecretKeeper, Services, SessionRequest
from hermes.app.reviews import LookingBack, Reviews
from hermes.app.skills import SkillShelf, visibility_context
from hermes.app.telemetry import Telemetry
from hermes.app.tools import (
    Toolsets,
    Workbench,
    build_approvals,
    build_toolbox,
    consent_seconds,
    find_toolsets,
    memory_of,
    session_services,
)
from hermes.app.turn_hooks import HookedSession, Remembering, SavedTurns, Titles
from hermes.app.workspace import make_place
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings.agent import DelegationSettings
from hermes.context.policy import CompactionPolicy, TokenCounter
from hermes.core.events import Event
from hermes.core.hooks import Hooks
from hermes.core.messages import Message, System, User
from hermes.core.model import ModelRequest
from hermes.core.ports import ChildTask, Clock, Observer
from hermes.core.tool import Tool
from hermes.prompt import LocalFileTree, SubfolderHints, paths_in_arguments
from hermes.providers import CUSTOM, ModelChoice, Target
from hermes.providers.policy import Budget
from hermes.security import Redactor
from hermes.security.injection import BLOCKED
from hermes.store.session_store import SessionStore
from hermes.tools import Approvals, Toolbox
from hermes.tools.builtin.delegate_task import allowed_tools
from hermes.util.session_ids import new_session_id
from hermes.util.threads import in_thread

# What every agent of a process shares.


class AppParts(msgspec.Struct, frozen=True):
    home: Home
    loaded: Loaded
    store: SessionStore
    providers: Providers
    redactor: Redactor
    extensions: Extensions
    skills: SkillShelf
    clock: Clock
    tell: Callable[[str], None]
    """Gets what the user must know beside the conversation."""
    services: Services
    telemetry: Telemetry | None = None
    """None: nobody wants to see traces."""

    @property
    def hooks(self) -> Hooks:
        return self.extensions.hooks


# What happens at the beginning and the end of a session's turns.


class AroundTurns:
    """Of one session; `own` is False for that of a subagent."""

    def __init__(
        self,
        parts: AppParts,
        request: SessionRequest,
        told: HookedSession,
        remembering: Remembering | None,
        *,
        own: bool,
    ) -> None:
        self._parts, self._settings = parts, parts.loaded.settings
        self._request, self._told, self._own = request, told, own
        self._remembering = remembering

    def openings(self) -> tuple[Opening, ...]:
        """What is said beside the user's message."""
        recall = (self._remembering.recall,) if self._remembering else ()
        return (self._told.opening, *recall)

    def at_end(self) -> tuple[AfterTurn, ...]:
        """Done before a turn is over."""
        wanted = self._settings.agent.save_trajectories and self._own
        saved = (SavedTurns(self._request.working_folder),) if wanted else ()
        remembered = (self._remembering.ended,) if self._remembering else ()
        return (*saved, *remembered, self._told.ended)

    def beside(self, auxiliary: AuxiliaryRouter, looking: LookingBack) -> tuple[AfterTurn, ...]:
        """Done after a turn, while the user thinks; nothing of it is for a small model."""
        if auxiliary.main.profile.small:
            return ()
        titled = self._settings.sessions.auto_title
        titles = (Titles(self._parts.store, auxiliary),) if titled else ()
        return (*titles, *self._reviews(looking, lambda: auxiliary.session_id))

    def _reviews(
        self, looking: LookingBack, session_id: Callable[[], str]
    ) -> tuple[AfterTurn, ...]:
        skills = self._settings.skills
        wanted = skills.review != "off" and skills.creation_nudge_interval
        if not wanted or not self._own or not self._request.goes_on:
            return ()
        manage = self._parts.skills.writing_tool(session_id, review=True)
        tools = {"skills_list": None, "skill_view": None, "skill_manage": manage}
        interval = skills.creation_nudge_interval
        return (Reviews(looking, tools, interval, self._parts.tell),)


DEFAULT_EFFORT = "medium"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is decided before an agent is made."""

    request: SessionRequest
    session_id: str
    system: System | None = None
    """That of a session that exists; None for a new one."""
    history: tuple[Message, ...] = ()
    broken_off: bool = False
    """That session was left without an end."""
    target: Target
    fallbacks: tuple[ModelChoice, ...] = ()
    tools: Sequence[str]
    """Names of those it may have."""
    purse: Budget
    max_iterations: int
    depth: int = 0
    """0 for an agent that talks to people, 1 for those it starts, and so on."""
    parent: "Making | None" = None
    remembering: Remembering | None = None
    """The external memory provider."""
    brought: tuple[Tool, ...] = ()
    """Tools of MCP servers."""
    toolsets: Toolsets
    """What `tools` were chosen from, those of `brought` included."""


StartChild = Callable[["Making", ChildTask], Awaitable[AgentSubagent]]


class Making:
    """One agent, put together part by part, and closed with all of them."""

    def __init__(self, parts: AppParts, start: Start, start_child: StartChild) -> None:
        self.start, self._parts = start, parts
        self._settings = settings = parts.loaded.settings
        request = start.request
        self.pending = PendingMessages()
        self.auxiliary = AuxiliaryRouter(
            settings, parts.providers, start.target, start.purse, parts.store, start.session_id
        )
        self.place = make_place(
            parts.loaded,
            parts.home,
            request.working_folder,
            parts.tell,
            request.backend,
            request.shared_folders,
        )
        self.attachments = outgoing_files(request, self.place, parts.redactor, parts.home)
        """Files that its messages may carry."""
        self._told = HookedSession(
            parts.hooks,
            lambda: self.auxiliary.session_id,
            lambda: self.target.model,
            request.source,
            new=start.system is None,
        )
        self._around = AroundTurns(
            parts, request, self._told, start.remembering, own=start.parent is None
        )
        engines = parts.extensions.context_engines
        self._engine = make_engine(settings, parts.home, start.target, engines)
        self._room = EngineRoom(self.auxiliary, parts.store)
        self._hints = SubfolderHints(LocalFileTree(), self.place.folder, parts.redactor.redact)
        self.skills = parts.skills.session(
            self.place, request.source, lambda: self.auxiliary.session_id, self._asker()
        )
        self._memory = memory_of(parts.loaded, parts.home, self.place, request)
        self.children = AgentSubagents(
            lambda task, _place: start_child(self, task),
            max_concurrent=settings.delegation.max_concurrent_children,
            timeout=settings.delegation.timeout,
            hooks=parts.hooks,
            clock=parts.clock,
        )
        self.workbench = self._make_workbench()
        self.approvals = self._make_approvals()
        self.toolbox = self._make_toolbox()
        turns = start.parent.workbench.turns if start.parent else self.workbench.turns
        look = self.place.here and not request.skip_context_files
        self.dispatcher = ToolDispatcher(
            self.toolbox,
            self.approvals,
            parts.store,
            parts.hooks,
            parts.clock,
            turns,
            hints=self._hint if look else None,
        )
        above = start.parent.observer if start.parent else None
        self.observer: Observer | None = (
            parts.telemetry.observer(above) if parts.telemetry else None
        )
        self._models = SessionModels(
            parts.providers.maker,
            start.target,
            start.fallbacks,
            start.purse,
            within=start.parent is not None,
        )
        self.looking_back = LookingBack(self.toolbox, self.auxiliary)
        self.agent: Agent | None = None
        self.compaction_policy: CompactionPolicy | None = None

    @property
    def target(self) -> Target:
        """What answers at present; `start.target` did at the start."""
        return self.auxiliary.main

    async def switch(self, target: Target) -> None:
        """Another model answers from the next request on. The conversation stays as it is."""
        self.auxiliary.main = self._models.main = target
        length = target.profile.context_length
        await in_thread(self._engine.update_model, target.model, context_length=length)

    def _asker(self) -> SecretKeeper | None:
        parts, read = self._parts, self.start.request.read_secret
        return SecretKeeper(parts.home, parts.loaded, parts.redactor, read) if read else None

    def _hint(self, arguments: dict[str, Any]) -> str:
        """What the folders a call touches have to say."""
        return self._hints.hints_for(
            paths_in_arguments(arguments), str(self.place.workplace.shell.cwd)
        )

    def _make_workbench(self) -> Workbench:
        parts, request = self._parts, self.start.request
        remembering = self.start.remembering
        services = session_services(
            self._memory,
            parts.store,
            lambda: self.auxiliary.session_id,
            remembering.spawner(self.children) if remembering else self.children,
            request,
            parts.services,
            remembering.on_write if remembering else None,
            self.skills,
            self.attachments,
        )
        return Workbench(
            parts.loaded,
            parts.home,
            self.place,
            hooks=parts.hooks,
            clarifier=request.clarifier,
            patience=request.patience,
            auxiliary=self.auxiliary,
            history=self.start.history,
            on_news=self.pending.add,
            services=services,
        )

    def _make_approvals(self) -> Approvals:
        """Those of a subagent are its parent's: what was allowed there is allowed here."""
        if self.start.parent is not None:
            return self.start.parent.approvals
        parts, request = self._parts, self.start.request
        return build_approvals(
            parts.loaded,
            parts.home,
            request.approver,
            self.auxiliary,
            parts.hooks,
            seconds=consent_seconds(self._settings.approvals, request),
        )

    def _make_toolbox(self) -> Toolbox:
        parts, bench = self._parts, self.workbench.bench
        assembled = self.start.toolsets.make(self.start.tools, bench)
        remembering = self.start.remembering
        more = (*(remembering.tools if remembering else ()), *engine_tools(self._engine))
        if more:
            others = (*assembled.tools, *assembled.rare)
            tools = (*assembled.tools, *self._unclaimed(more, others))
            assembled = msgspec.structs.replace(assembled, tools=tools)
        self._toolsets = {tool.toolset for tool in (*assembled.tools, *assembled.rare)}
        box = build_toolbox(assembled, bench, parts.home, parts.redactor.redact)
        platform = self.start.request.source
        self.skills.context = visibility_context(parts.loaded, platform, box.names, self._toolsets)
        return box

    def _unclaimed(self, more: Iterable[Tool], others: Iterable[Tool]) -> Iterator[Tool]:
        """Those of `more` that do not pretend to be another tool: what is asked about its calls
        would be asked about the wrong thing."""
        taken = {tool.name for tool in others}
        for tool in more:
            if tool.name in taken:
                self._parts.tell(f"{tool.toolset}: there is a tool {tool.name} already; left out")
            else:
                taken.add(tool.name)
                yield tool

    async def make(self) -> Agent:
        """The agent; a new session is in the store then. What fails leaves nothing open."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.close)
            agent = await self._make()
            stack.pop_all()
        return agent

    async def _make(self) -> Agent:
        start, parts, settings = self.start, self._parts, self._settings
        system = start.system or await self._new_session()
        await self._room.begin(self._engine, start.session_id, parts.home, start.request.source)
        self.compaction_policy = CompactionPolicy(
            self._engine,
            TokenCounter([system], self.toolbox.specs),
            system,
            # What a small model is sent is cut to fit on its way.
            enabled=settings.compression.enabled and not self.target.profile.small,
            run=self._room.run,
        )
        self.agent = Agent(
            start.session_id,
            system,
            start.history,
            self._told.models(self._models),
            self.dispatcher,
            parts.store,
            Compactor(
                self.compaction_policy,
                parts.store,
                parts.clock,
                self._moved,
                start.remembering.shortened if start.remembering else None,
            ),
            base_request=ModelRequest(
                (),
                self.toolbox.specs,
                max_tokens=settings.model.max_tokens,
                reasoning_effort=settings.agent.reasoning_effort or DEFAULT_EFFORT,
            ),
            max_iterations=start.max_iterations,
            pending=self.pending,
            options=self._options(),
        )
        return self.agent

    def _prompt(self) -> str:
        start, parts = self.start, self._parts
        if start.request.remote is not None:
            return REMOTE_PROMPT
        prompt = build_prompt(
            parts.loaded,
            parts.home,
            start.request,
            self.place,
            session_id=start.session_id,
            now=parts.clock.now(),
            model=(start.target.model, start.target.provider),
            tools=self.toolbox.names,
            memory=self._memory,
            memory_block=start.remembering.block if start.remembering else "",
            skills=parts.skills,
            toolsets=self._toolsets,
            redact=parts.redactor.redact,
        )
        text = prompt.text
        for line in text.splitlines() if BLOCKED in text else ():
            if line.startswith(BLOCKED):
                parts.tell(line)  # the user should know what the agent was not told
        return text

    async def _new_session(self) -> System:
        start, parts = self.start, self._parts
        request, system = start.request, System(self._prompt())
        parent = start.parent.agent.session_id if start.parent and start.parent.agent else ""
        await parts.store.create(
            start.session_id,
            source=request.source,
            model=start.target.model,
            system_prompt=system.text,
            parent_id=parent,
            user_id=request.user_id,
        )
        for message in start.history:
            await parts.store.append(start.session_id, message)
        return system

    async def _moved(self, old: str, new: str) -> None:
        """After a compaction: what the model saw of files is gone from its context."""
        self.auxiliary.session_id = new
        self.workbench.bench.reads.forget_pages()
        self._hints.reset()
        source = self.start.request.source
        await self._room.begin(self._engine, new, self._parts.home, source, parent=old)

    def _options(self) -> AgentOptions:
        start, parts, settings = self.start, self._parts, self._settings
        request, names = start.request, self.toolbox.names
        more = filter(
            None, (settings.agent.ephemeral_system_prompt, request.ephemeral_system_prompt)
        )
        own = start.parent is None
        return AgentOptions(
            prefill=(*prefill_messages(settings, parts.home), *request.prefill) if own else (),
            ephemeral_system="\n\n".join(more) if own else "",
            add_context=aside_of(settings, names, *self._around.openings()),
            workspace=self.workbench.turns if own else None,
            redact=parts.redactor.redact_known,
            observers=(self.observer,) if self.observer else (),
            on_turn_end=self._around.at_end(),
            background=self._around.beside(self.auxiliary, self.looking_back),
            has_next_turn=request.goes_on,
            budget=self._shared_budget(),
            abandoned=start.broken_off,
        )

    def _shared_budget(self) -> IterationBudget | None:
        parent = self.start.parent
        return parent.agent.budget if parent and parent.agent else None

    async def close(self) -> None:
        async with AsyncExitStack() as stack:  # one that fails keeps none of the others open
            stack.push_async_callback(self.workbench.close)
            stack.push_async_callback(self.dispatcher.close)
            stack.push_async_callback(self.children.close)
            stack.push_async_callback(self._end_remembering)
            if self.agent is not None:
                stack.push_async_callback(self._told.left)
                stack.push_async_callback(self._end_engine, self.agent)
                await self.agent.close()

    async def _end_remembering(self) -> None:
        if self.start.remembering is not None:
            await self.start.remembering.close(self.agent.history if self.agent else ())

    async def reset(self) -> None:
        """The conversation was left for a new one."""
        await self._room.reset(self._engine)

    async def _end_engine(self, agent: Agent) -> None:
        said = (agent.system, *agent.history)
        await self._room.end(self._engine, agent.session_id, said)


# The agents that `delegate_task` starts.

SOURCE = "subagent"


class Subagent:
    """An agent for one task (`agent.subagents.Subagent`)."""

    def __init__(self, making: Making, agent: Agent) -> None:
        self._making, self._agent = making, agent

    @property
    def session_id(self) -> str:
        return self._agent.session_id

    def run(self, message: User) -> AsyncGenerator[Event, None]:
        return self._agent.run(message)

    def interrupt(self, reason: str) -> bool:
        return self._agent.interrupt(reason)

    async def close(self) -> None:
        await self._making.close()


class Subagents:
    """Starts them: with the parent's money, consent, fallbacks and budget of calls, and fewer
    tools."""

    def __init__(self, parts: AppParts) -> None:
        self._parts = parts

    async def start(self, parent: Making, task: ChildTask) -> Subagent:
        settings = self._parts.loaded.settings
        delegation, above = settings.delegation, parent.start
        depth = above.depth + 1
        asked = task.max_iterations or delegation.max_iterations
        target = self._target(delegation, parent.target)
        toolsets = find_toolsets(self._parts.loaded, above.brought)
        making = Making(
            self._parts,
            Start(
                request=msgspec.structs.replace(
                    above.request,
                    resume="",
                    latest=False,
                    session_id="",
                    history=(),
                    source=SOURCE,
                    clarifier=None,
                    goes_on=False,
                    system_message="",
                    skip_context_files=True,
                    skip_memory=True,
                ),
                session_id=new_session_id(self._parts.clock.now()),
                target=target,
                fallbacks=above.fallbacks or tuple(fallback_choices(settings)),
                tools=self._tools(task, above, toolsets, depth),
                purse=above.purse,
                max_iterations=min(asked, delegation.max_iterations),
                depth=depth,
                parent=parent,
                brought=above.brought,
                toolsets=toolsets,
            ),
            self.start,
        )
        return Subagent(making, await making.make())

    def _tools(self, task: ChildTask, above: Start, toolsets: Toolsets, depth: int) -> list[str]:
        """Those the task asks for, as far as the parent has them and a subagent may."""
        jobless = above.request.source == "cron"  # a job makes no jobs, nor does who works for it
        names = [name for name in above.tools if not (jobless and name == "cronjob")]
        if task.toolsets:
            wanted = toolsets.names(above.request.source, task.toolsets)
            names = [name for name in wanted if name in names]
        settings = self._parts.loaded.settings.delegation
        return allowed_tools(
            names, task.role, depth, settings.max_spawn_depth, settings.orchestrator_enabled
        )

    def _target(self, settings: DelegationSettings, main: Target) -> Target:
        """The model of the parent, unless the settings name another."""
        if not (settings.model or settings.provider or settings.base_url):
            return main
        resolver = self._parts.providers.resolver
        if settings.model and not (settings.provider or settings.base_url):
            return resolver.with_model(main, settings.model)
        return resolver.resolve(
            ModelChoice(
                provider=settings.provider or CUSTOM,
                model=settings.model or main.model,
                base_url=settings.base_url,
                api_key=settings.api_key,
                reason="delegation.provider is set",
                base_url_source="delegation.base_url",
            )
        )


# How full a conversation is and what it used so far, for status lines.


class Gauge(msgspec.Struct, frozen=True):
    model: str
    provider: str
    tokens: int
    """Of the next request, about."""
    window: int
    """Tokens the model takes; 0 when that is not known."""
    questions: int
    elsewhere: bool = False
    """Another program answers, and keeps the conversation short by itself."""

    @property
    def share(self) -> float:
        return self.tokens / self.window if self.window else 0.0


def gauge_of(session: Making) -> Gauge:
    agent, policy, profile = session.agent, session.compaction_policy, session.target.profile
    history = agent.history if agent else ()
    return Gauge(
        session.target.model,
        session.target.provider,
        policy.tokens(history) if policy else 0,
        # What a small model is sent is cut to fit on its way, so there is nothing to fill up.
        0 if profile.small or profile.is_agent else profile.context_length,
        sum(isinstance(message, User) for message in history),
        profile.is_agent,
    )
