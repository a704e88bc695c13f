"""From settings to a running agent. The only package that names implementations."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from hermes.agent.agent import Agent
from hermes.agent.dispatch import Dispatcher
from hermes.agent.notices import Notices
from hermes.app.choices import fallback_choices
from hermes.app.credentials import stored_secrets
from hermes.app.logs import start_logging
from hermes.app.providers import Providers
from hermes.app.pruning import prune_when_due
from hermes.app.session_models import AuxiliaryRouter, SessionModels
from hermes.app.spending import day_tally, limits_of
from hermes.app.tools import build_approvals, build_toolbox, find_toolsets
from hermes.app.workbench import Workbench
from hermes.app.workplaces import Place, make_place
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import Loaded
from hermes.core.errors import StoreError, UsageError
from hermes.core.hooks import NoHooks
from hermes.core.messages import Message, System
from hermes.core.model import ModelRequest
from hermes.core.ports import Approver, Clarifier, SessionInfo
from hermes.prompt.system import system_prompt
from hermes.providers.local.fetch import Progress
from hermes.providers.policy.purse import Purse
from hermes.providers.target import Target
from hermes.security.redaction import Redactor
from hermes.store.opening import open_store
from hermes.store.repair import repair
from hermes.tools.checkpoints.texts import rollback
from hermes.util.clock import SystemClock
from hermes.util.session_ids import new_session_id

log = logging.getLogger(__name__)

DEFAULT_EFFORT = "medium"

Conversation = tuple[str, System, tuple[Message, ...]]
"""Session id, system prompt and what was said so far."""


class SessionRequest(msgspec.Struct, frozen=True):
    """Which conversation, for whom, and where."""

    working_folder: Path
    resume: str = ""
    """Id or title of a session to go on with."""
    latest: bool = False
    """Go on with the newest session of `source`; a new one when there is none."""
    source: str = "cli"
    approver: Approver | None = None
    """None: nobody is there to ask."""
    clarifier: Clarifier | None = None
    """Who answers questions of the agent; None: nobody."""
    toolsets: tuple[str, ...] = ()
    """Toolsets and tools instead of those of the settings."""


class App:
    """What one process needs, made when first used and closed together."""

    def __init__(
        self, home: Home, loaded: Loaded, progress: Progress, tell: Callable[[str], None]
    ) -> None:
        """`tell` gets what the user must know beside the conversation."""
        self.home, self.loaded = home, loaded
        ensure_hermes_home(home)
        self._redactor = Redactor(loaded.secrets() | stored_secrets(home))
        start_logging(home, loaded.settings.logging, self._redactor)
        self._clock = SystemClock()
        self.store = open_store(loaded.settings.store.url, home.state_db, tell)
        self._tell = tell
        self._hooks = NoHooks()
        self._open: dict[str, tuple[Dispatcher, Workbench]] = {}
        self.providers = Providers(home, loaded, self._clock, progress)
        self._purses: dict[str, Purse] = {}
        self._day = day_tally(loaded.settings, self.store, self._clock)

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
        for session_id in tuple(self._open):
            await self._leave(session_id)
        await self.providers.close()
        self.store.close()

    async def agent(self, request: SessionRequest) -> Agent:
        """An agent for a new or an old conversation."""
        toolsets = find_toolsets(self.loaded)
        names = toolsets.names(request.source, request.toolsets)
        past = await self._past(request)
        target = await self.providers.main()
        place = make_place(self.loaded, self.home, request.working_folder, self._tell)
        settings = self.loaded.settings
        session_id, system, history = past or await self._new(request, target, place)
        purse = self._purse(session_id, job=request.source == "cron")
        auxiliary = self._router(session_id, target, purse)
        notices = Notices()
        workbench = Workbench(
            self.loaded,
            self.home,
            place,
            hooks=self._hooks,
            clarifier=request.clarifier,
            auxiliary=auxiliary,
            history=history,
            on_news=notices.add,
        )
        bench = workbench.bench
        assembled = toolsets.make(names, bench)
        toolbox = build_toolbox(assembled, bench, self.home, self._redactor.redact)
        approvals = build_approvals(
            self.loaded, self.home, request.approver, auxiliary, self._hooks
        )
        dispatcher = Dispatcher(
            toolbox, approvals, self.store, self._hooks, self._clock, workbench.turns
        )
        await self._leave(session_id)
        self._open[session_id] = (dispatcher, workbench)
        asking = ModelRequest(
            (),
            toolbox.specs,
            max_tokens=settings.model.max_tokens,
            reasoning_effort=settings.agent.reasoning_effort or DEFAULT_EFFORT,
        )
        return Agent(
            session_id,
            system,
            history,
            SessionModels(self.providers.maker, target, tuple(fallback_choices(settings)), purse),
            dispatcher,
            self.store,
            asking=asking,
            max_iterations=settings.agent.max_turns,
            notices=notices,
            workspace=workbench.turns,
            clean=self._redactor.redact_known,
        )

    async def _leave(self, session_id: str) -> None:
        """Close what an agent of the session worked with, if there is one."""
        if session_id in self._open:
            dispatcher, workbench = self._open.pop(session_id)
            await dispatcher.close()
            await workbench.close()

    async def rollback(self, session_id: str, arguments: str) -> str:
        """What `/rollback ARGUMENTS` answers in a session."""
        checkpoints = self._open[session_id][1].checkpoints
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

    async def _past(self, request: SessionRequest) -> Conversation | None:
        info: SessionInfo | None = None
        if request.resume:
            info = await self.store.resolve(request.resume)
        elif request.latest:
            info = await self.store.latest(request.source)
        if info is None:
            return None
        history = repair(await self.store.messages(info.id))
        return info.id, System(info.system_prompt), tuple(history)

    async def _new(self, request: SessionRequest, target: Target, place: Place) -> Conversation:
        now = self._clock.now()
        session_id = new_session_id(now)
        text = system_prompt(
            working_folder=place.folder,
            now=now,
            session_id=session_id,
            model=f"{target.model} ({target.provider})",
            place=place.workplace.name,
        )
        await self.store.create(
            session_id, source=request.source, model=target.model, system_prompt=text
        )
        return session_id, System(text), ()
