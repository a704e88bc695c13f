"""The models of one session: for its turns, and for the work beside them."""

import logging
from collections.abc import Sequence
from contextlib import aclosing

from hermes.app.models import ModelMaker
from hermes.app.providers import Providers
from hermes.config.settings import Settings
from hermes.config.settings.model import AuxiliaryTask
from hermes.core.errors import ReplyInvalid, UsageError
from hermes.core.model import Model, ModelRequest, Reply
from hermes.core.ports import SessionLog
from hermes.core.usage import ModelCall
from hermes.providers import ModelChoice, Target, auxiliary_targets
from hermes.providers.policy import Budget

logger = logging.getLogger(__name__)


class SessionModels:
    """A `ModelSource`: each turn begins with the main model again.

    `within` a turn of somebody else, as a subagent's is, money is that turn's.
    """

    def __init__(
        self,
        maker: ModelMaker,
        main: Target,
        fallbacks: Sequence[ModelChoice],
        purse: Budget,
        *,
        within: bool = False,
    ) -> None:
        self._maker, self.main = maker, main
        self._fallbacks, self._purse, self._within = fallbacks, purse, within

    @property
    def name(self) -> str:
        return self.main.model

    @property
    def provider(self) -> str:
        return self.main.provider

    def for_turn(self) -> Model:
        if not self._within:
            self._purse.begin_turn()
        return self._maker.chain([self.main, *self._fallbacks], self._purse)


class AuxiliaryRouter:
    """Finds the model for a task, pays from the session's purse and records each call."""

    def __init__(
        self,
        settings: Settings,
        providers: Providers,
        main: Target,
        purse: Budget,
        log: SessionLog,
        session_id: str,
    ) -> None:
        self._settings, self._providers, self.main = settings, providers, main
        self._purse, self._log = purse, log
        self.session_id = session_id
        """The session that the calls are recorded with; a compaction moves on to another."""

    def is_auto(self, task: str) -> bool:
        """Whether the settings leave it to us whom to ask."""
        asked = self._asked(task)
        return asked.provider in ("", "auto") and not asked.base_url

    def targets(self, task: str) -> tuple[Target, ...]:
        """What would be asked, in order."""
        return auxiliary_targets(task, self._asked(task), self.main, self._providers.resolver)

    def _asked(self, task: str) -> AuxiliaryTask:
        asked = getattr(self._settings.auxiliary, task, None)
        if not isinstance(asked, AuxiliaryTask):
            tasks = ", ".join(type(self._settings.auxiliary).__struct_fields__)
            raise UsageError(f"there is no auxiliary task {task!r}", hint=f"known: {tasks}")
        return asked

    def wished(self, task: str, models: Sequence[str]) -> tuple[Target, ...]:
        """The targets of a task, before them the first of `models` that the main provider has."""
        listed = self._providers.known.cached_list(self.main.base_url)
        found = next((name for name in models if listed and listed.find(name)), None)
        if found is None:
            return self.targets(task)
        return (self._providers.resolver.with_model(self.main, found), *self.targets(task))

    async def ask(self, task: str, request: ModelRequest) -> Reply:
        return await self.ask_one_of(self.targets(task), task, request)

    async def ask_one_of(
        self, targets: Sequence[Target], task: str, request: ModelRequest
    ) -> Reply:
        """The reply of the first of `targets` that works."""
        began = self._providers.clock.monotonic()
        model = self._providers.maker.chain(targets, self._purse)
        reply: Reply | None = None
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                if isinstance(event, Reply):
                    reply = event
        if reply is None:
            raise ReplyInvalid(f"{model.provider} ended without a reply", provider=model.provider)
        seconds = round(self._providers.clock.monotonic() - began, 3)
        call = ModelCall(
            reply.usage, reply.model, reply.provider, reply.cost_usd, task=task, seconds=seconds
        )
        await self._log.record_call(self.session_id, call)
        logger.info("%s: answered by %s on %s", task, reply.model, reply.provider)
        return reply
