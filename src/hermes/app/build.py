"""Build an agent and everything it works with from a session request."""

import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.agent import (
    AfterTurn,
    Agent,
    AgentOptions,
    Compactor,
    PendingMessages,
    Subagents,
    ToolDispatcher,
)
from hermes.app.context_engine import ContextEngineRunner, engine_tools, make_engine
from hermes.app.extensions import SessionSampler, make_hub
from hermes.app.model_choice import fallback_choices
from hermes.app.outgoing_files import outgoing_files
from hermes.app.prompting import AddContext, added_context, build_prompt, prefill_messages
from hermes.app.providers import AuxiliaryModels, SessionModels
from hermes.app.sessions import REMOTE_PROMPT, SessionRequest
from hermes.app.skills import SessionSkills, visibility_context
from hermes.app.tools import (
    SessionTools,
    ToolSelection,
    build_approvals,
    build_toolbox,
    egress_rules,
    find_toolsets,
    memory_scope,
    open_notes,
    session_services,
)
from hermes.app.turn_hooks import (
    ReviewRunner,
    SessionHooks,
    SessionMemory,
    SkillReviews,
    give_title,
    open_session_memory,
    save_turn,
)
from hermes.app.workspace import SessionWorkspace, make_workspace
from hermes.context import CompactionPolicy, TokenCounter
from hermes.core.events import Event, TurnFinished
from hermes.core.messages import Message, System, User
from hermes.core.model import ModelRequest, messages_tokens, text_tokens, tools_tokens
from hermes.core.ports import Attachments, ChildResult, ChildTask, Observer
from hermes.core.tool import Tool
from hermes.memory import BuiltinMemory
from hermes.prompt import LocalFileTree, Prompt, PromptInputs, SubfolderHints, paths_in_arguments
from hermes.providers import CUSTOM, LOCAL, ModelChoice, Target
from hermes.providers.policy import Budget
from hermes.security import UNTRUSTED_SOURCES, EgressPolicy, Exposure, Flow
from hermes.security.injection import BLOCKED
from hermes.store import repair_history
from hermes.terminal import FileInfo
from hermes.tools import Approvals, Toolbox, allowed_tools, background_report, lost_reports
from hermes.util.concurrency import in_thread
from hermes.util.text import new_session_id

if TYPE_CHECKING:
    from hermes.app.app import App
    from hermes.app.project_commands import AutoCommit

DEFAULT_EFFORT = "medium"
SUBAGENT = "subagent"


class AgentSession:
    """One open agent and its parts, which `close` closes; a `hermes.agent.Subagent`."""

    # Assigned by `build_agent`, in this order.
    budget: Budget
    auxiliary: AuxiliaryModels
    """Holds the current model and the current session, which a compaction changes."""
    place: SessionWorkspace
    attachments: Attachments  #: Files that its messages may attach.
    skills: SessionSkills
    notes: BuiltinMemory | None
    memory: SessionMemory | None  #: The external memory provider.
    engine: ContextEngineRunner
    brought: tuple[Tool, ...]  #: Tools of MCP servers.
    tools: Sequence[str]  #: Names of the allowed tools.
    subagents: Subagents
    egress: EgressPolicy
    session_tools: SessionTools
    approvals: Approvals
    toolbox: Toolbox
    hints: SubfolderHints
    compaction_policy: CompactionPolicy
    models: SessionModels
    reviewer: ReviewRunner
    observer: Observer | None
    agent: Agent

    def __init__(
        self, app: "App", request: SessionRequest, parent: "AgentSession | None" = None
    ) -> None:
        self.app, self.request, self.parent = app, request, parent
        self.depth: int = parent.depth + 1 if parent else 0
        """0 for an agent of a user, 1 for its subagents, and so on."""
        self.background = (
            False  #: True for a subagent that does not belong to a turn of its parent.
        )
        self.pending = PendingMessages()
        self.auto_commit: AutoCommit | None = None  #: With `git.auto_commit`.
        self._news: list[str] = []  #: Facts for the model, sent with the next message.
        self._resources: AsyncExitStack | None = None

    @property
    def session_id(self) -> str:
        return self.auxiliary.session_id

    @property
    def target(self) -> Target:
        """The current model."""
        return self.auxiliary.main

    def run(self, message: User) -> AsyncGenerator[Event, None]:
        return self.agent.run(message)

    def interrupt(self, reason: str) -> bool:
        return self.agent.interrupt(reason, by_user=False)

    async def offer_larger_model(self, _agent: Agent, end: TurnFinished) -> None:
        """After an answer of the embedded model, name a larger one if the machine can run it."""
        if self.target.provider == LOCAL:
            await self.app.providers.local.offer_larger(self.target, end)

    async def switch(self, target: Target) -> None:
        """Use another model from the next request on."""
        self.auxiliary.main = self.models.main = target
        length = target.profile.context_length
        await in_thread(self.engine.engine.update_model, target.model, context_length=length)
        self.compaction_policy.enabled = _compacts(self.app, target)

    async def follow_compaction(self, old: str, new: str) -> None:
        """Continue with the session `new`, in whose context no file was read yet."""
        self.auxiliary.session_id = new
        self.session_tools.deps.reads.forget_pages()
        self.hints.reset()
        await self.engine.begin(new, self.app.home, self.request.source, parent=old)

    def record_read(self, path: str, state: os.stat_result) -> None:
        """Let a file of this machine that the user attached count as read by the model."""
        if self.place.guard.here:
            info = FileInfo("file", state.st_size, state.st_mtime_ns)
            self.session_tools.deps.reads.record(path, info)

    async def add_folder(self, folder: Path) -> None:
        """Let a further folder count as workspace, also in the sandbox, from now on."""
        self.place.guard.add_folder(folder)
        self._news.append(f"[The user added {folder} to the workspace: you may work there too.]")
        if self.place.workplace.name == "sandbox":
            # The next command opens the sandbox again, which then has the folder.
            await self.place.workplace.shell.close()

    async def take_news(self, _history: Sequence[Message], _question: User) -> str:
        news, self._news = self._news, []
        return "\n".join(news)

    def add_report(self, run_id: str, task: ChildTask, result: ChildResult) -> None:
        """Add the report of a subagent in the background. One that was stopped starts no turn."""
        if self.memory is not None:
            self.memory.on_delegation(task, result)
        text = background_report(run_id, task.goal, result)
        self.pending.add(self.app.redactor.redact(text), wake=result.status != "interrupted")

    def keep_open(self, resources: AsyncExitStack) -> None:
        self._resources = resources.pop_all()

    async def close(self) -> None:
        if self._resources is not None:
            await self._resources.aclose()

    async def close_memory(self) -> None:
        if self.memory is not None:
            await self.memory.close(self.agent.history if self._resources else ())

    async def end_engine(self) -> None:
        messages = (self.agent.system, *self.agent.history)
        await self.engine.end(self.agent.session_id, messages)

    def context_usage(self) -> "ContextUsage":
        profile, history = self.target.profile, self.agent.history
        return ContextUsage(
            self.target.model,
            self.target.provider,
            self.compaction_policy.tokens(history),
            # What a small model is sent is cut to fit on its way, so there is nothing to fill up.
            0 if profile.small or profile.is_agent else profile.context_length,
            sum(isinstance(message, User) for message in history),
            profile.is_agent,
        )

    def request_parts(self) -> dict[str, int]:
        """Return the tokens of each part of the next request; they add up to those of
        `context_usage`."""
        prefix = self.agent.prefix
        left, parts = prefix[0].text, dict.fromkeys(("instructions", *PROMPT_PARTS.values()), 0)
        if self.request.remote is None:
            for layer in _assemble_prompt(self).layers:
                # A file may have changed since the prompt was made.
                if layer.name in PROMPT_PARTS and layer.text in left:
                    left = left.replace(layer.text, "", 1)
                    parts[PROMPT_PARTS[layer.name]] += text_tokens(layer.text)
        parts["instructions"] = text_tokens(left) + messages_tokens(prefix[1:])
        tools: dict[str, int] = {}
        for spec in self.agent.base_request.tools:
            tool = self.toolbox.get(spec.name)
            name = f"tools: {tool.toolset if tool else 'other'}"
            tools[name] = tools.get(name, 0) + tools_tokens([spec])
        parts |= dict(sorted(tools.items(), key=lambda each: -each[1]))
        for message in self.agent.history:
            name = CONVERSATION_PARTS[message.role]
            parts[name] = parts.get(name, 0) + messages_tokens([message])
        estimated = sum(parts.values()) or 1
        # The provider's count is known for what was sent; the estimates divide it up.
        factor = self.compaction_policy.tokens(self.agent.history) / estimated
        return {name: round(tokens * factor) for name, tokens in parts.items() if tokens}


PROMPT_PARTS = {
    "memory_provider": "memory",
    "memory": "memory",
    "user_profile": "memory",
    "skills": "skills",
    "context_files": "project files",
}
"""Layers of the system prompt that `/context` shows on their own."""
CONVERSATION_PARTS = {
    "system": "instructions",
    "user": "messages and attachments",
    "assistant": "answers and tool calls",
    "tool": "tool results",
}


class ContextUsage(msgspec.Struct, frozen=True):
    """How full a conversation is and what it used so far."""

    model: str
    provider: str
    tokens: int  #: Estimate for the next request.
    window: int  #: Context length of the model in tokens; 0 if unknown.
    questions: int
    elsewhere: bool = False
    """True if another program answers; it compacts the conversation itself."""

    @property
    def share(self) -> float:
        return self.tokens / self.window if self.window else 0.0


async def build_agent(
    app: "App",
    request: SessionRequest,
    parent: AgentSession | None = None,
    task: ChildTask | None = None,
) -> AgentSession:
    """Open a new or a stored session. If anything fails, what was opened is closed again.

    A subagent has a `parent`, whose budget and approvals it shares, and the `task` it works on.
    """
    s = AgentSession(app, request, parent)
    s.background = task is not None and task.background
    async with AsyncExitStack() as stack:
        past = None if parent else await app.find_session(request)
        session_id = past.id if past else request.session_id or new_session_id(app.clock.now())
        history = repair_history(await app.store.messages(past.id)) if past else request.history
        target = _subagent_target(parent) if parent else await app.find_target(request)
        budget = parent.budget if parent else await app.budgets.open(session_id, past, request)
        s.budget = budget
        s.auxiliary = AuxiliaryModels(app.providers, target, budget, app.store, session_id)
        await _open_parts(s, stack)
        dispatcher = await _add_tools(s, stack, history, task)
        system = System(past.system_prompt if past else _system_prompt(s))
        if past is None:
            await _store_session(s, system, history)
        hooks = SessionHooks(app.hooks, s.auxiliary, request.source, new=past is None)
        await s.engine.begin(session_id, app.home, request.source)
        abandoned = past is not None and past.ended_at is None
        options = _agent_options(s, hooks, abandoned=abandoned)
        s.agent = _make_agent(s, system, tuple(history), dispatcher, hooks, options, task)
        # Closed in the opposite order: the agent first.
        stack.push_async_callback(hooks.on_session_end)
        stack.push_async_callback(s.end_engine)
        stack.push_async_callback(s.agent.close)
        s.keep_open(stack)
    return s


async def _open_parts(s: AgentSession, stack: AsyncExitStack) -> None:
    """Open where the session works and what it remembers."""
    app, request, read = s.app, s.request, s.request.read_secret
    confined = bool(request.user_id)  # sessions of owners have no user id
    skills = [root.path for root in app.skills.skills.roots] if confined else []
    s.place = make_workspace(
        app.loaded,
        app.home,
        request.working_folder,
        app.tell,
        request.backend,
        (*request.shared_folders, *skills),
        confined=confined,
        image=request.image,
        container=request.container,
    )
    if request.adapt_workplace is not None:
        workplace = request.adapt_workplace(s.place.workplace)
        s.place = msgspec.structs.replace(s.place, workplace=workplace)
    for folder in s.parent.place.guard.workspace[1:] if s.parent else ():
        s.place.guard.add_folder(folder)
    s.attachments = outgoing_files(request, s.place, app.redactor, app.home)
    asker = partial(app.ask_secret, read) if read else None
    s.skills = app.skills.session(s.place, request.source, s.auxiliary.current_session, asker)
    s.notes = open_notes(app.loaded, app.home, s.place, request)
    scope = memory_scope(s.place, request)
    s.memory = await open_session_memory(app, request, s.session_id, scope)
    stack.push_async_callback(s.close_memory)
    engines = app.extensions.context_engines
    tell = app.tell if s.parent is None else lambda _text: None  # the parent has reported it
    engine = make_engine(app.loaded.settings, app.home, s.target, engines, tell)
    timeout = app.loaded.settings.context.timeout
    s.engine = ContextEngineRunner(engine, s.auxiliary, app.store, timeout)


async def _add_tools(
    s: AgentSession, stack: AsyncExitStack, history: Sequence[Message], task: ChildTask | None
) -> ToolDispatcher:
    """Choose and make the tools of the session, and the policy in front of them."""
    app, request, parent, memory = s.app, s.request, s.parent, s.memory
    selection = await _select_tools(s, stack, task)
    limits = app.loaded.settings.delegation
    s.subagents = children = Subagents(
        partial(_start_subagent, s),
        max_concurrent=limits.max_concurrent_children,
        timeout=limits.timeout,
        hooks=app.hooks,
        clock=app.clock,
        on_report=s.add_report if request.goes_on and not parent else None,
    )
    for report in lost_reports(history) if request.goes_on and not parent else ():
        s.pending.add(report)
    services = session_services(
        request,
        app.services,
        s.skills,
        s.notes,
        memory.on_write if memory else None,
        sessions=app.store,
        current_session=s.auxiliary.current_session,
        spawner=memory.spawner(children) if memory else children,
        attachments=s.attachments,
    )
    s.egress = _make_egress(s)
    s.session_tools = SessionTools(
        app.loaded,
        app.home,
        s.place,
        request,
        services,
        hooks=app.hooks,
        auxiliary=None if request.is_rollout else s.auxiliary,
        history=history,
        egress=s.egress,
        on_news=s.pending.add,
    )
    stack.push_async_callback(s.session_tools.close)
    s.approvals = (
        parent.approvals
        if parent and not s.background
        else build_approvals(
            app.loaded, app.home, app.hooks, s.auxiliary, request, folder=str(s.place.folder)
        )
    )
    s.toolbox = _make_toolbox(s, selection)
    tree = LocalFileTree(s.place.folder if request.user_id else "")
    s.hints = SubfolderHints(tree, s.place.folder, app.redactor.redact)

    def hints(arguments: dict[str, Any]) -> str:
        cwd = str(s.place.workplace.shell.cwd)
        return s.hints.hints_for(paths_in_arguments(arguments), cwd)

    dispatcher = ToolDispatcher(
        s.toolbox,
        s.approvals,
        app.store,
        app.hooks,
        app.clock,
        (s if parent is None or s.background else parent).session_tools.turns,
        hints=hints if s.place.here and not request.skip_context_files else None,
        own_files=app.own_files,
        egress=s.egress,
        # Not for a model of which it is unknown: a refused image would stay in the conversation.
        sees_images=lambda: s.target.profile.images is True,
        on_call=s.session_tools.usage.record,
    )
    stack.push_async_callback(dispatcher.close)
    stack.push_async_callback(children.close)
    return dispatcher


def _make_egress(s: AgentSession) -> EgressPolicy:
    """Make the policy for what the session sends. A subagent shares what its parent has seen."""
    request, place, first = s.request, s.place, s
    while first.parent is not None:
        first = first.parent
    exposure = Exposure() if first is s else first.egress.exposure
    if request.source in UNTRUSTED_SOURCES or request.user_id:
        exposure.add(Flow(untrusted=("messages of other people",)))
    return EgressPolicy(
        place.guard,
        lambda: place.workplace.shell.cwd or place.folder,
        egress_rules(s.app.loaded, request, s.target, s.app.redactor.redact_known),
        find_tool=lambda name: first.toolbox.get(name),
        load_messages=partial(_stored_messages, first),
        exposure=exposure,
        isolated=place.workplace.isolated,
    )


async def _stored_messages(s: AgentSession) -> list[Message]:
    """Return the messages of a session, of those it continues, and of its subagents."""
    store, last = s.app.store, s.session_id
    above = [each.id for each in await store.ancestors(last)]
    below = await store.descendants(above[-1] if above else last)
    ids = (last, *above, *(each.id for each in below if each.source == SUBAGENT))
    return [message for each in ids for message in await store.messages(each)]


async def _select_tools(
    s: AgentSession, stack: AsyncExitStack, task: ChildTask | None
) -> ToolSelection:
    """Choose the tools of the request; those of the parent that fit the task for a subagent."""
    app, request, parent = s.app, s.request, s.parent
    if parent is None:
        remote = request.remote is not None
        sampler = SessionSampler(s.auxiliary)
        s.brought = () if remote else tuple(await app.mcp.tools(request.clarifier, sampler))
        if request.mcp_servers:
            from hermes.mcp import Caller  # only sessions with servers need the client

            hub = make_hub(app.home, app.loaded, app.tell, request.mcp_servers)
            stack.push_async_callback(hub.close)
            s.brought += tuple(await hub.tools(Caller(request.clarifier, sampler)))
        found = find_toolsets(app.loaded, s.brought)
        s.tools = [] if remote else found.names(request.source, request.toolsets)
        return found
    s.brought = parent.brought
    found = find_toolsets(app.loaded, s.brought)
    # A cron job and its subagents cannot create jobs.
    jobless = parent.request.source == "cron"
    names = [name for name in parent.tools if not (jobless and name == "cronjob")]
    if task and task.toolsets:
        wanted = found.names(parent.request.source, task.toolsets)
        names = [name for name in wanted if name in names]
    limits, role = app.loaded.settings.delegation, task.role if task else "leaf"
    s.tools = allowed_tools(
        names, role, s.depth, limits.max_spawn_depth, limits.orchestrator_enabled
    )
    return found


def _make_toolbox(s: AgentSession, selection: ToolSelection) -> Toolbox:
    app, deps = s.app, s.session_tools.deps
    assembled = selection.make(s.tools, deps)
    taken = {tool.name for tool in (*assembled.tools, *assembled.rare)}
    more: list[Tool] = []
    for tool in (*(s.memory.tools if s.memory else ()), *engine_tools(s.engine.engine)):
        # A second tool of the same name would get the approvals that were given to the first.
        if tool.name in taken:
            app.tell(f"{tool.toolset}: there is a tool {tool.name} already; left out")
        else:
            taken.add(tool.name)
            more.append(tool)
    assembled = msgspec.structs.replace(assembled, tools=(*assembled.tools, *more))
    toolbox = build_toolbox(assembled, deps, app.home, app.redactor.redact)
    toolsets = {tool.toolset for tool in (*assembled.tools, *assembled.rare)}
    s.skills.context = visibility_context(app.loaded, s.request.source, toolbox.names, toolsets)
    return toolbox


def _system_prompt(s: AgentSession) -> str:
    if s.request.remote is not None:
        return REMOTE_PROMPT
    text = _assemble_prompt(s).text
    for line in text.splitlines() if BLOCKED in text else ():
        if line.startswith(BLOCKED):
            s.app.tell(line)  # the user should know which file was left out of the prompt
    return text


def _assemble_prompt(s: AgentSession) -> Prompt:
    app = s.app
    start = PromptInputs(
        home=app.home.root,
        session_id="" if s.request.is_rollout else s.session_id,
        now=app.clock.now(),
        model=s.target.model,
        provider=s.target.provider,
        memory_block=s.memory.block if s.memory else "",
        redact=app.redactor.redact,
    )
    return build_prompt(start, app.skills, s.skills.context, s.request, s.place, s.notes)


async def _store_session(s: AgentSession, system: System, history: Iterable[Message]) -> None:
    store = s.app.store
    await store.create(
        s.session_id,
        source=s.request.source,
        model=s.target.model,
        system_prompt=system.text,
        parent_id=s.parent.agent.session_id if s.parent else "",
        user_id=s.request.user_id,
    )
    for message in history:
        await store.append(s.session_id, message)


def _compacts(app: "App", target: Target) -> bool:
    """Return whether conversations with `target` are compacted.

    Not with a small model: its profile sends its own prompt and as many messages as fit.
    """
    return app.loaded.settings.compression.enabled and not target.profile.small


def _make_agent(
    s: AgentSession,
    system: System,
    history: tuple[Message, ...],
    dispatcher: ToolDispatcher,
    hooks: SessionHooks,
    options: AgentOptions,
    task: ChildTask | None,
) -> Agent:
    app, settings, target = s.app, s.app.loaded.settings, s.target
    s.compaction_policy = CompactionPolicy(
        s.engine.engine,
        TokenCounter([system], s.toolbox.specs),
        system,
        enabled=_compacts(app, target),
        run=s.engine.run,
    )
    fallbacks = () if s.request.remote else tuple(fallback_choices(settings))
    within = s.parent is not None
    s.models = SessionModels(
        app.providers.maker, target, fallbacks, s.budget, hooks.wrap_model, within=within
    )
    before = s.memory.before_compaction if s.memory else None
    max_iterations = settings.agent.max_turns
    if task is not None:
        limit = settings.delegation.max_iterations
        max_iterations = min(task.max_iterations or limit, limit)
    return Agent(
        s.session_id,
        system,
        history,
        s.models,
        dispatcher,
        app.store,
        Compactor(s.compaction_policy, app.store, app.clock, s.follow_compaction, before),
        base_request=ModelRequest(
            (),
            s.toolbox.specs,
            max_tokens=settings.model.max_tokens,
            reasoning_effort=settings.agent.reasoning_effort or DEFAULT_EFFORT,
        ),
        max_iterations=max_iterations,
        pending=s.pending,
        options=options,
    )


def _agent_options(s: AgentSession, hooks: SessionHooks, *, abandoned: bool) -> AgentOptions:
    """A subagent saves no trajectories, has no reviews and is sent no prefill."""
    app, request, settings, own = s.app, s.request, s.app.loaded.settings, s.parent is None
    # Reviews cannot ask the user: `approvals.headless` decides about their calls. What they learn
    # is kept where the user turned learning on, was there to be asked, and denied nothing like it.
    present = own and request.approver is not None and request.persists
    headless = build_approvals(
        app.loaded,
        app.home,
        app.hooks,
        s.auxiliary,
        msgspec.structs.replace(request, approver=None),
        learns=lambda: present and not s.approvals.persistence_denied,
    )
    s.reviewer = ReviewRunner(s.toolbox, s.auxiliary, headless, app.hooks, app.clock)
    above = s.parent.observer if s.parent else None
    s.observer = app.telemetry.observer(above) if app.telemetry else None
    sources: list[AddContext] = [hooks.on_turn_start]
    on_turn_end: list[AfterTurn] = [hooks.on_turn_end]
    if s.memory:
        sources.append(s.memory.recall)
        on_turn_end.insert(0, s.memory.on_turn_end)
    if own:
        sources.append(s.take_news)
    if settings.git.auto_commit and own:
        from hermes.app.project_commands import AutoCommit  # only where it is switched on

        s.auto_commit = AutoCommit(s.place, app.tell)
        sources.append(s.auto_commit.turn_started)
        on_turn_end.append(s.auto_commit.turn_ended)
    if settings.agent.save_trajectories and own:
        on_turn_end.insert(0, partial(save_turn, request.working_folder))
    if own:
        on_turn_end.append(s.offer_larger_model)
    background: list[AfterTurn] = []
    small, interval = s.target.profile.small, settings.skills.creation_nudge_interval
    titles = settings.sessions.auto_title and settings.auxiliary.title_generation.enabled
    if titles and not small:
        background.append(partial(give_title, app.store, s.auxiliary))
    if settings.skills.review != "off" and interval and own and request.goes_on and not small:
        manage = app.skills.writing_tool(s.auxiliary.current_session, review=True)
        background.append(SkillReviews(s.reviewer, manage, interval, app.tell))
    more = (settings.agent.ephemeral_system_prompt, request.ephemeral_system_prompt)
    return AgentOptions(
        prefill=(*prefill_messages(settings, app.home), *request.prefill) if own else (),
        ephemeral_system="\n\n".join(filter(None, more)) if own else "",
        add_context=added_context(settings, s.toolbox.names, *sources),
        workspace=s.session_tools.turns if own or s.background else None,
        redact=app.redactor.redact_known,
        observers=(s.observer,) if s.observer else (),
        on_turn_end=tuple(on_turn_end),
        background=tuple(background),
        has_next_turn=request.goes_on,
        wraps_up=settings.agent.wrap_up and not request.is_rollout,
        budget=s.parent.agent.budget if s.parent and not s.background else None,
        abandoned=abandoned,
    )


async def _start_subagent(parent: AgentSession, task: ChildTask, _index: int) -> AgentSession:
    """Build the agent for a task of `delegate_task`."""
    alone = {"approver": None, "permission_mode": parent.approvals.permission_mode}
    request = parent.request.for_new_session(
        **(alone if task.background else {}),
        source=SUBAGENT,
        clarifier=None,
        goes_on=False,
        about=task.goal,
        system_message="",
        skip_context_files=True,
        skip_memory=True,
    )
    return await build_agent(parent.app, request, parent, task)


def _subagent_target(parent: AgentSession) -> Target:
    """Return the parent's model, unless the settings name another."""
    settings, main = parent.app.loaded.settings.delegation, parent.target
    if not (settings.model or settings.provider or settings.base_url):
        return main
    resolver = parent.app.providers.resolver
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
