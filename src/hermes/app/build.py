"""Build an agent and its parts from a session request; start subagents."""

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
    Subagent,
    Subagents,
    ToolDispatcher,
)
from hermes.app.context_engine import ContextEngineRunner, engine_tools, make_engine
from hermes.app.extensions import Extensions
from hermes.app.model_choice import fallback_choices
from hermes.app.outgoing_files import outgoing_files
from hermes.app.prompting import Opening, aside_of, build_prompt, prefill_messages
from hermes.app.providers import AuxiliaryModels, Providers, SessionModels
from hermes.app.request import REMOTE_PROMPT, SecretKeeper, Services, SessionRequest
from hermes.app.reviews import ReviewRunner, SkillReviews
from hermes.app.skills import SkillCatalog, visibility_context
from hermes.app.telemetry import Telemetry
from hermes.app.tools import (
    SessionTools,
    ToolSelection,
    approval_timeout,
    build_approvals,
    build_toolbox,
    find_toolsets,
    memory_of,
    session_services,
)
from hermes.app.turn_hooks import HookedSession, SessionMemory, SessionTitles, TrajectorySaver
from hermes.app.workspace import make_workspace
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings.agent import DelegationSettings
from hermes.context.policy import CompactionPolicy, TokenCounter
from hermes.core.events import Event
from hermes.core.messages import Message, System, User
from hermes.core.model import ModelRequest
from hermes.core.ports import ChildTask, Clock, Hooks, Observer
from hermes.core.tool import Tool
from hermes.prompt import LocalFileTree, SubfolderHints, paths_in_arguments
from hermes.providers import CUSTOM, ModelChoice, Target
from hermes.providers.policy import Budget
from hermes.security import Redactor
from hermes.security.injection import BLOCKED
from hermes.store.session_store import SessionStore
from hermes.tools import Approvals, Toolbox
from hermes.tools.builtin.delegate_task import allowed_tools
from hermes.util.concurrency import in_thread
from hermes.util.text import new_session_id


class AppContext(msgspec.Struct, frozen=True):
    """What all agents of a process share."""

    home: Home
    loaded: Loaded
    store: SessionStore
    providers: Providers
    redactor: Redactor
    extensions: Extensions
    skills: SkillCatalog
    clock: Clock
    tell: Callable[[str], None]
    """Called with notices for the user that are not part of the conversation."""
    services: Services
    telemetry: Telemetry | None = None
    """None if telemetry is off."""

    @property
    def hooks(self) -> Hooks:
        return self.extensions.hooks


class TurnHooks:
    """What runs at the start and the end of the turns of one session.

    `own` is False for a subagent: it saves no trajectories and has no reviews.
    """

    def __init__(
        self,
        parts: AppContext,
        request: SessionRequest,
        told: HookedSession,
        session_memory: SessionMemory | None,
        *,
        own: bool,
    ) -> None:
        self._parts, self._settings = parts, parts.loaded.settings
        self._request, self._session_hooks, self._own = request, told, own
        self._session_memory = session_memory

    def openings(self) -> tuple[Opening, ...]:
        """Return the functions that add context to the user's message."""
        recall = (self._session_memory.recall,) if self._session_memory else ()
        return (self._session_hooks.on_turn_start, *recall)

    def at_end(self) -> tuple[AfterTurn, ...]:
        """Return what runs before a turn ends."""
        wanted = self._settings.agent.save_trajectories and self._own
        saved = (TrajectorySaver(self._request.working_folder),) if wanted else ()
        remembered = (self._session_memory.on_turn_end,) if self._session_memory else ()
        return (*saved, *remembered, self._session_hooks.on_turn_end)

    def beside(self, auxiliary: AuxiliaryModels, looking: ReviewRunner) -> tuple[AfterTurn, ...]:
        """Return what runs in the background after a turn; nothing for a small model."""
        if auxiliary.main.profile.small:
            return ()
        titled = self._settings.sessions.auto_title
        titles = (SessionTitles(self._parts.store, auxiliary),) if titled else ()
        return (*titles, *self._reviews(looking, lambda: auxiliary.session_id))

    def _reviews(
        self, looking: ReviewRunner, session_id: Callable[[], str]
    ) -> tuple[AfterTurn, ...]:
        skills = self._settings.skills
        wanted = skills.review != "off" and skills.creation_nudge_interval
        if not wanted or not self._own or not self._request.goes_on:
            return ()
        manage = self._parts.skills.writing_tool(session_id, review=True)
        tools = {"skills_list": None, "skill_view": None, "skill_manage": manage}
        interval = skills.creation_nudge_interval
        return (SkillReviews(looking, tools, interval, self._parts.tell),)


DEFAULT_EFFORT = "medium"


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is decided before an agent is built."""

    request: SessionRequest
    session_id: str
    system: System | None = None
    """System prompt of a stored session; None for a new one."""
    history: tuple[Message, ...] = ()
    was_interrupted: bool = False
    """True if the stored session did not end properly."""
    target: Target
    fallbacks: tuple[ModelChoice, ...] = ()
    tools: Sequence[str]
    """Names of the allowed tools."""
    budget: Budget
    max_iterations: int
    depth: int = 0
    """0 for an agent of a user, 1 for its subagents, and so on."""
    parent: "AgentBuilder | None" = None
    session_memory: SessionMemory | None = None
    """The external memory provider."""
    brought: tuple[Tool, ...] = ()
    """Tools of MCP servers."""
    toolsets: ToolSelection
    """The selection that `tools` come from, including `brought`."""


StartChild = Callable[["AgentBuilder", ChildTask], Awaitable[Subagent]]


class AgentBuilder:
    """Builds one agent from its parts, holds them while it is open, and closes them with it."""

    def __init__(self, parts: AppContext, spec: AgentSpec, start_child: StartChild) -> None:
        self.spec, self._parts = spec, parts
        self._settings = settings = parts.loaded.settings
        request = spec.request
        self.pending = PendingMessages()
        self.auxiliary = AuxiliaryModels(
            settings, parts.providers, spec.target, spec.budget, parts.store, spec.session_id
        )
        self.place = make_workspace(
            parts.loaded,
            parts.home,
            request.working_folder,
            parts.tell,
            request.backend,
            request.shared_folders,
        )
        self.attachments = outgoing_files(request, self.place, parts.redactor, parts.home)
        """Files that its messages may attach."""
        self._session_hooks = HookedSession(
            parts.hooks,
            lambda: self.auxiliary.session_id,
            lambda: self.target.model,
            request.source,
            new=spec.system is None,
        )
        self._turn_hooks = TurnHooks(
            parts, request, self._session_hooks, spec.session_memory, own=spec.parent is None
        )
        engines = parts.extensions.context_engines
        self._engine = make_engine(settings, parts.home, spec.target, engines)
        self._engine_runner = ContextEngineRunner(self.auxiliary, parts.store)
        self._hints = SubfolderHints(LocalFileTree(), self.place.folder, parts.redactor.redact)
        self.skills = parts.skills.session(
            self.place, request.source, lambda: self.auxiliary.session_id, self._asker()
        )
        self._memory = memory_of(parts.loaded, parts.home, self.place, request)
        self.children = Subagents(
            lambda task, _place: start_child(self, task),
            max_concurrent=settings.delegation.max_concurrent_children,
            timeout=settings.delegation.timeout,
            hooks=parts.hooks,
            clock=parts.clock,
        )
        self.session_tools = self._make_session_tools()
        self.approvals = self._make_approvals()
        self.toolbox = self._make_toolbox()
        turns = spec.parent.session_tools.turns if spec.parent else self.session_tools.turns
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
        above = spec.parent.observer if spec.parent else None
        self.observer: Observer | None = (
            parts.telemetry.observer(above) if parts.telemetry else None
        )
        self._models = SessionModels(
            parts.providers.maker,
            spec.target,
            spec.fallbacks,
            spec.budget,
            within=spec.parent is not None,
        )
        self.reviewer = ReviewRunner(self.toolbox, self.auxiliary)
        self.agent: Agent | None = None
        self.compaction_policy: CompactionPolicy | None = None

    @property
    def target(self) -> Target:
        """The current model; `spec.target` is the one of the start."""
        return self.auxiliary.main

    async def switch(self, target: Target) -> None:
        """Use another model from the next request on."""
        self.auxiliary.main = self._models.main = target
        length = target.profile.context_length
        await in_thread(self._engine.update_model, target.model, context_length=length)

    def _asker(self) -> SecretKeeper | None:
        parts, read = self._parts, self.spec.request.read_secret
        return SecretKeeper(parts.home, parts.loaded, parts.redactor, read) if read else None

    def _hint(self, arguments: dict[str, Any]) -> str:
        """Return the hints of the folders that a tool call touches."""
        return self._hints.hints_for(
            paths_in_arguments(arguments), str(self.place.workplace.shell.cwd)
        )

    def _make_session_tools(self) -> SessionTools:
        parts, request = self._parts, self.spec.request
        session_memory = self.spec.session_memory
        services = session_services(
            self._memory,
            parts.store,
            lambda: self.auxiliary.session_id,
            session_memory.spawner(self.children) if session_memory else self.children,
            request,
            parts.services,
            session_memory.on_write if session_memory else None,
            self.skills,
            self.attachments,
        )
        return SessionTools(
            parts.loaded,
            parts.home,
            self.place,
            hooks=parts.hooks,
            clarifier=request.clarifier,
            patience=request.patience,
            auxiliary=self.auxiliary,
            history=self.spec.history,
            on_news=self.pending.add,
            services=services,
        )

    def _make_approvals(self) -> Approvals:
        """Return the parent's approvals for a subagent: an approval holds for both."""
        if self.spec.parent is not None:
            return self.spec.parent.approvals
        parts, request = self._parts, self.spec.request
        return build_approvals(
            parts.loaded,
            parts.home,
            request.approver,
            self.auxiliary,
            parts.hooks,
            seconds=approval_timeout(self._settings.approvals, request),
        )

    def _make_toolbox(self) -> Toolbox:
        parts, bench = self._parts, self.session_tools.bench
        assembled = self.spec.toolsets.make(self.spec.tools, bench)
        session_memory = self.spec.session_memory
        more = (*(session_memory.tools if session_memory else ()), *engine_tools(self._engine))
        if more:
            others = (*assembled.tools, *assembled.rare)
            tools = (*assembled.tools, *self._unclaimed(more, others))
            assembled = msgspec.structs.replace(assembled, tools=tools)
        self._toolsets = {tool.toolset for tool in (*assembled.tools, *assembled.rare)}
        box = build_toolbox(assembled, bench, parts.home, parts.redactor.redact)
        platform = self.spec.request.source
        self.skills.context = visibility_context(parts.loaded, platform, box.names, self._toolsets)
        return box

    def _unclaimed(self, more: Iterable[Tool], others: Iterable[Tool]) -> Iterator[Tool]:
        """Yield the tools of `more` whose names are free.

        A second tool of the same name would get the approvals that were given to the first.
        """
        taken = {tool.name for tool in others}
        for tool in more:
            if tool.name in taken:
                self._parts.tell(f"{tool.toolset}: there is a tool {tool.name} already; left out")
            else:
                taken.add(tool.name)
                yield tool

    async def make(self) -> Agent:
        """Build the agent and store a new session. On failure all parts are closed."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.close)
            agent = await self._make()
            stack.pop_all()
        return agent

    async def _make(self) -> Agent:
        spec, parts, settings = self.spec, self._parts, self._settings
        system = spec.system or await self._new_session()
        await self._engine_runner.begin(
            self._engine, spec.session_id, parts.home, spec.request.source
        )
        self.compaction_policy = CompactionPolicy(
            self._engine,
            TokenCounter([system], self.toolbox.specs),
            system,
            # What a small model is sent is cut to fit on its way.
            enabled=settings.compression.enabled and not self.target.profile.small,
            run=self._engine_runner.run,
        )
        self.agent = Agent(
            spec.session_id,
            system,
            spec.history,
            self._session_hooks.models(self._models),
            self.dispatcher,
            parts.store,
            Compactor(
                self.compaction_policy,
                parts.store,
                parts.clock,
                self._on_compaction,
                spec.session_memory.shortened if spec.session_memory else None,
            ),
            base_request=ModelRequest(
                (),
                self.toolbox.specs,
                max_tokens=settings.model.max_tokens,
                reasoning_effort=settings.agent.reasoning_effort or DEFAULT_EFFORT,
            ),
            max_iterations=spec.max_iterations,
            pending=self.pending,
            options=self._options(),
        )
        return self.agent

    def _prompt(self) -> str:
        spec, parts = self.spec, self._parts
        if spec.request.remote is not None:
            return REMOTE_PROMPT
        prompt = build_prompt(
            parts.loaded,
            parts.home,
            spec.request,
            self.place,
            session_id=spec.session_id,
            now=parts.clock.now(),
            model=(spec.target.model, spec.target.provider),
            tools=self.toolbox.names,
            memory=self._memory,
            memory_block=spec.session_memory.block if spec.session_memory else "",
            skills=parts.skills,
            toolsets=self._toolsets,
            redact=parts.redactor.redact,
        )
        text = prompt.text
        for line in text.splitlines() if BLOCKED in text else ():
            if line.startswith(BLOCKED):
                parts.tell(line)  # the user should know which file was left out of the prompt
        return text

    async def _new_session(self) -> System:
        spec, parts = self.spec, self._parts
        request, system = spec.request, System(self._prompt())
        parent = spec.parent.agent.session_id if spec.parent and spec.parent.agent else ""
        await parts.store.create(
            spec.session_id,
            source=request.source,
            model=spec.target.model,
            system_prompt=system.text,
            parent_id=parent,
            user_id=request.user_id,
        )
        for message in spec.history:
            await parts.store.append(spec.session_id, message)
        return system

    async def _on_compaction(self, old: str, new: str) -> None:
        """Follow a compaction to the new session: the files read are no longer in the context."""
        self.auxiliary.session_id = new
        self.session_tools.bench.reads.forget_pages()
        self._hints.reset()
        source = self.spec.request.source
        await self._engine_runner.begin(self._engine, new, self._parts.home, source, parent=old)

    def _options(self) -> AgentOptions:
        spec, parts, settings = self.spec, self._parts, self._settings
        request, names = spec.request, self.toolbox.names
        more = filter(
            None, (settings.agent.ephemeral_system_prompt, request.ephemeral_system_prompt)
        )
        own = spec.parent is None
        return AgentOptions(
            prefill=(*prefill_messages(settings, parts.home), *request.prefill) if own else (),
            ephemeral_system="\n\n".join(more) if own else "",
            add_context=aside_of(settings, names, *self._turn_hooks.openings()),
            workspace=self.session_tools.turns if own else None,
            redact=parts.redactor.redact_known,
            observers=(self.observer,) if self.observer else (),
            on_turn_end=self._turn_hooks.at_end(),
            background=self._turn_hooks.beside(self.auxiliary, self.reviewer),
            has_next_turn=request.goes_on,
            budget=self._shared_budget(),
            abandoned=spec.was_interrupted,
        )

    def _shared_budget(self) -> IterationBudget | None:
        parent = self.spec.parent
        return parent.agent.budget if parent and parent.agent else None

    async def close(self) -> None:
        async with AsyncExitStack() as stack:  # a failing close does not prevent the others
            stack.push_async_callback(self.session_tools.close)
            stack.push_async_callback(self.dispatcher.close)
            stack.push_async_callback(self.children.close)
            stack.push_async_callback(self._end_session_memory)
            if self.agent is not None:
                stack.push_async_callback(self._session_hooks.on_session_end)
                stack.push_async_callback(self._end_engine, self.agent)
                await self.agent.close()

    async def _end_session_memory(self) -> None:
        if self.spec.session_memory is not None:
            await self.spec.session_memory.close(self.agent.history if self.agent else ())

    async def reset(self) -> None:
        """Tell the engine that the user started a new conversation."""
        await self._engine_runner.reset(self._engine)

    async def _end_engine(self, agent: Agent) -> None:
        said = (agent.system, *agent.history)
        await self._engine_runner.end(self._engine, agent.session_id, said)


# The agents that `delegate_task` starts.

SOURCE = "subagent"


class AppSubagent:
    """An agent for one task; implements `hermes.agent.Subagent`."""

    def __init__(self, builder: AgentBuilder, agent: Agent) -> None:
        self._builder, self._agent = builder, agent

    @property
    def session_id(self) -> str:
        return self._agent.session_id

    def run(self, message: User) -> AsyncGenerator[Event, None]:
        return self._agent.run(message)

    def interrupt(self, reason: str) -> bool:
        return self._agent.interrupt(reason)

    async def close(self) -> None:
        await self._builder.close()


class SubagentFactory:
    """Starts subagents. They share the parent's budgets, approvals and fallbacks, and have fewer
    tools."""

    def __init__(self, parts: AppContext) -> None:
        self._parts = parts

    async def start(self, parent: AgentBuilder, task: ChildTask) -> AppSubagent:
        settings = self._parts.loaded.settings
        delegation, above = settings.delegation, parent.spec
        depth = above.depth + 1
        asked = task.max_iterations or delegation.max_iterations
        target = self._target(delegation, parent.target)
        toolsets = find_toolsets(self._parts.loaded, above.brought)
        builder = AgentBuilder(
            self._parts,
            AgentSpec(
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
                budget=above.budget,
                max_iterations=min(asked, delegation.max_iterations),
                depth=depth,
                parent=parent,
                brought=above.brought,
                toolsets=toolsets,
            ),
            self.start,
        )
        return AppSubagent(builder, await builder.make())

    def _tools(
        self, task: ChildTask, above: AgentSpec, toolsets: ToolSelection, depth: int
    ) -> list[str]:
        """Return the tools of the task that the parent has and a subagent may use."""
        jobless = above.request.source == "cron"  # a cron job and its subagents cannot create jobs
        names = [name for name in above.tools if not (jobless and name == "cronjob")]
        if task.toolsets:
            wanted = toolsets.names(above.request.source, task.toolsets)
            names = [name for name in wanted if name in names]
        settings = self._parts.loaded.settings.delegation
        return allowed_tools(
            names, task.role, depth, settings.max_spawn_depth, settings.orchestrator_enabled
        )

    def _target(self, settings: DelegationSettings, main: Target) -> Target:
        """Return the parent's model, unless the settings name another."""
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


class ContextUsage(msgspec.Struct, frozen=True):
    model: str
    provider: str
    tokens: int
    """Estimate for the next request."""
    window: int
    """Context length of the model in tokens; 0 if unknown."""
    questions: int
    elsewhere: bool = False
    """True if another program answers; it compacts the conversation itself."""

    @property
    def share(self) -> float:
        return self.tokens / self.window if self.window else 0.0


def context_usage(session: AgentBuilder) -> ContextUsage:
    agent, policy, profile = session.agent, session.compaction_policy, session.target.profile
    history = agent.history if agent else ()
    return ContextUsage(
        session.target.model,
        session.target.provider,
        policy.tokens(history) if policy else 0,
        # What a small model is sent is cut to fit on its way, so there is nothing to fill up.
        0 if profile.small or profile.is_agent else profile.context_length,
        sum(isinstance(message, User) for message in history),
        profile.is_agent,
    )
