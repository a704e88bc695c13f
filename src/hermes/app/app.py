"""From settings to a running agent. The only package that names implementations."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2
import msgspec

from hermes.agent.agent import Agent
from hermes.agent.dispatch import Dispatcher
from hermes.app.local_model import LocalModel
from hermes.app.logs import start_logging
from hermes.app.models import build_model
from hermes.app.pruning import prune_when_due
from hermes.app.tools import build_approvals, build_tools
from hermes.config.home import Home, ensure_hermes_home
from hermes.config.loader import Loaded
from hermes.core.errors import StoreError
from hermes.core.hooks import NoHooks
from hermes.core.messages import Message, System
from hermes.core.model import Model
from hermes.core.ports import Approver, SessionInfo
from hermes.prompt.system import system_prompt
from hermes.providers.local.fetch import Progress
from hermes.providers.resolver import Choice, Target, resolve
from hermes.providers.wire.chat_completions import ChatCompletions
from hermes.security.redaction import Redactor
from hermes.store.opening import open_store
from hermes.store.repair import repair
from hermes.terminal.local import LocalShell
from hermes.util.clock import SystemClock
from hermes.util.session_ids import new_session_id

log = logging.getLogger(__name__)

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


class App:
    """What one process needs, made when first used and closed together."""

    def __init__(
        self, home: Home, loaded: Loaded, progress: Progress, tell: Callable[[str], None]
    ) -> None:
        """`tell` gets what the user must know beside the conversation."""
        self.home, self.loaded = home, loaded
        ensure_hermes_home(home)
        self._redactor = Redactor(loaded.secrets())
        start_logging(home, loaded.settings.logging, self._redactor)
        self._clock = SystemClock()
        self._store = open_store(loaded.settings.store.url, home.state_db, tell)
        self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=True)
        self._shells: list[LocalShell] = []
        self._local = LocalModel(home, loaded.settings.local, progress)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        try:
            settings = self.loaded.settings.sessions
            await prune_when_due(self._store, settings, self.home, time.time)
        except (StoreError, OSError) as error:
            log.warning("old sessions were not pruned: %s", error)
        for shell in self._shells:
            await shell.close()
        await self._local.close()
        await self._client.aclose()
        self._store.close()

    def target(self) -> Target:
        """Where requests go, by the settings alone."""
        model = self.loaded.settings.model
        choice = Choice(
            provider=model.provider,
            model=model.default,
            base_url=model.base_url,
            api_key=model.api_key,
            context_length=model.context_length or 0,
        )
        return resolve(choice, self.loaded.secret)

    async def agent(self, request: SessionRequest) -> Agent:
        """An agent for a new or an old conversation."""
        past = await self._past(request)
        target, wire = await self._wire(self.target())
        model = build_model(wire, target.profile, self._clock)
        settings = self.loaded.settings
        bench = build_tools(self.loaded, self.home, request.working_folder, self._redactor.redact)
        self._shells.append(bench.shell)
        approvals = build_approvals(self.loaded, self.home, request.approver)
        session_id, system, history = past or await self._new(request, target)
        dispatcher = Dispatcher(bench.toolbox, approvals, self._store, NoHooks(), self._clock)
        return Agent(
            session_id,
            system,
            history,
            model,
            dispatcher,
            self._store,
            tools=bench.toolbox.specs,
            max_iterations=settings.agent.max_turns,
            price=target.profile.price,
        )

    async def _wire(self, target: Target) -> tuple[Target, Model]:
        if target.provider == "local":
            return await self._local.ready(target, self._client)
        return target, ChatCompletions(target, self._client)

    async def _past(self, request: SessionRequest) -> Conversation | None:
        info: SessionInfo | None = None
        if request.resume:
            info = await self._store.resolve(request.resume)
        elif request.latest:
            info = await self._store.latest(request.source)
        if info is None:
            return None
        history = repair(await self._store.messages(info.id))
        return info.id, System(info.system_prompt), tuple(history)

    async def _new(self, request: SessionRequest, target: Target) -> Conversation:
        now = self._clock.now()
        session_id = new_session_id(now)
        text = system_prompt(
            working_folder=str(request.working_folder),
            now=now,
            session_id=session_id,
            model=f"{target.model} ({target.provider})",
        )
        await self._store.create(
            session_id, source=request.source, model=target.model, system_prompt=text
        )
        return session_id, System(text), ()
