"""Access to models: keys, connections, resolver and embedded model of a process; budgets."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

import msgspec

from hermes.app.model_choice import ModelFilter, ModelLister, custom_names, main_choice
from hermes.app.sessions import SessionRequest, opened_store
from hermes.config.home import Home
from hermes.config.loader import Loaded
from hermes.config.settings import AuxiliaryTask, LocalModelSettings, Settings
from hermes.core.errors import LocalModelError, Unreachable, UsageError
from hermes.core.events import TurnFinished
from hermes.core.model import EmitModelEvent, Model, ModelCall, ModelRequest, Reply
from hermes.core.ports import Clock, SessionInfo
from hermes.providers import (
    LOCAL,
    NO_KEY_REASON,
    Credential,
    ModelChoice,
    ModelHttpClient,
    Resolver,
    Target,
    WireModel,
    auxiliary_targets,
    make_model_client,
)
from hermes.providers.catalog import ModelCatalog, model_overrides
from hermes.providers.credentials import AuthFile, Keyring, entries_of, stored_providers
from hermes.providers.local import (
    DownloadProgress,
    ModelProcess,
    PromptPrefixCache,
    Weights,
    fetch_weights,
    larger_weights,
    resolve_weights,
    runtime_is_installed,
    thread_count,
)
from hermes.providers.policy import (
    RETRYABLE_ERRORS,
    Budget,
    BudgetLimits,
    CircuitBreakerModel,
    DailySpend,
    EndpointCircuit,
    EndpointHealth,
    FallbackModel,
    KeyRotationModel,
    MeteredModel,
    RequestRepairModel,
    RetryModel,
    start_of_day,
)
from hermes.store import SessionStore
from hermes.util.http import AnyClient, LateClient, LateTls

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from hermes.providers.acp import AgentPool

STARTER = (
    "No API key yet: using a small starter model, {label}.\n"
    "For a stronger one: hermes auth add openrouter"
)
LARGER = "This machine can run a larger model ({size:,.0f} MB): hermes model set local:{id}"


def cache_folder(home: Home, model: Path) -> Path:
    """Return the folder for processed prompt prefixes of `model`."""
    return home.cache / "local" / model.stem


class LocalModel:
    """Starts the process of a model when it is first needed; keeps it until the program ends."""

    def __init__(
        self,
        home: Home,
        settings: LocalModelSettings,
        model_client: ModelHttpClient,
        client: AnyClient,
        progress: DownloadProgress,
    ) -> None:
        self._home, self._settings, self._progress = home, settings, progress
        self._model_client, self._client = model_client, client
        self._processes: dict[str, ModelProcess] = {}  #: By label of the weights.
        self._starting = asyncio.Lock()
        self._models: dict[str, Model] = {}
        self._labels: dict[str, Weights] = {}

    def known(self, target: Target) -> Target:
        """Return `target` with the label and the context length of its weights."""
        replace, length = msgspec.structs.replace, self._settings.context_length
        profile = replace(target.profile, context_length=length)
        return replace(target, model=self._weights(target).label, profile=profile)

    async def ready(self, target: Target) -> Model:
        """Return the running model of `target`, started if necessary."""
        weights = self._weights(target)
        async with self._starting:
            if weights.label not in self._processes:
                if target.source == NO_KEY_REASON:
                    self._progress.say(STARTER.format(label=weights.label))
                self._processes[weights.label] = await self._start(weights)
        if weights.label not in self._models:
            process = self._processes[weights.label]
            credential = Credential(id="process", secret=process.api_key)
            running = msgspec.structs.replace(
                self.known(target), base_url=process.base_url, credentials=(credential,)
            )
            wire = WireModel(running, self._model_client)
            cache = cache_folder(self._home, Path(weights.file))
            self._models[weights.label] = PromptPrefixCache(wire, process, self._client, cache)
        return self._models[weights.label]

    async def offer_larger(self, target: Target, end: TurnFinished) -> None:
        """After a successful turn, name a larger model that this machine can run; once a home."""
        offered = self._home.cache / "local" / "larger-model-offered"
        if end.exit_code or offered.exists():
            return
        import psutil  # slow to load, and needed once

        memory = psutil.virtual_memory().available
        if larger := larger_weights(self._weights(target), self._home.models, memory):
            offered.parent.mkdir(parents=True, exist_ok=True)
            offered.touch()
            self._progress.say(LARGER.format(id=larger.id, size=larger.size / 1e6))

    async def _start(self, weights: Weights) -> ModelProcess:
        if not runtime_is_installed():
            from hermes.config.installation import InstallFailed, install_extra  # rarely needed

            try:
                await install_extra("local")
            except InstallFailed as error:
                text = "the runtime of the embedded model could not be installed"
                raise LocalModelError(text, hint=error.hint) from error
        path = await fetch_weights(weights, self._home.models, self._progress)
        return await ModelProcess.start(
            path,
            context=self._settings.context_length,
            threads=thread_count(self._settings.threads),
            cache=cache_folder(self._home, path),
        )

    def _weights(self, target: Target) -> Weights:
        """Return the weights that `target` names by id, file, address or label."""
        weights = self._labels.get(target.model)
        if weights is None:
            weights = resolve_weights(target.model or self._settings.model, self._home.models)
            self._labels[weights.label] = weights
        return weights

    async def close(self) -> None:
        for process in self._processes.values():
            await process.close()


class EmbeddedModel:
    """A `Model` that starts the embedded model with its first call."""

    def __init__(self, local: LocalModel, target: Target) -> None:
        self._local, self._target = local, target
        self._known = local.known(target)

    @property
    def name(self) -> str:
        return self._known.model

    @property
    def provider(self) -> str:
        return self._known.provider

    async def call(self, request: ModelRequest, emit: EmitModelEvent) -> Reply:
        model = await self._local.ready(self._target)
        return await model.call(request, emit)


logger = logging.getLogger(__name__)


class ModelChainBuilder:
    """Creates models with their policies; all models of a process share its state."""

    def __init__(
        self,
        resolver: Resolver,
        keyring: Keyring,
        client: ModelHttpClient,
        clock: Clock,
        local: LocalModel,
    ) -> None:
        self._resolver, self._keyring, self._client = resolver, keyring, client
        self._clock, self._local = clock, local
        self._health = EndpointHealth(clock)
        self._plain: set[tuple[str, str]] = set()  #: Models that refuse options.
        self._agents: AgentPool | None = None

    def chain(self, links: Sequence[Target | ModelChoice], budget: Budget) -> Model:
        """Return a model that uses the first of `links` that works, for one turn.

        A choice is resolved when it is needed; one that cannot be resolved is skipped.
        """

        def make(link: Target | ModelChoice) -> Model:
            target = link if isinstance(link, Target) else self._resolver.resolve(link)
            return self.model(target, budget, patient=len(links) == 1)

        return FallbackModel([partial(make, link) for link in links])

    def model(self, target: Target, budget: Budget, *, patient: bool = True) -> Model:
        """Return a model for one target. Without `patient` it gives up early, because there is a
        fallback."""
        if target.credentials:
            endpoint = self._resolver.endpoint(target.key_owner or target.provider)
            inner: Model = KeyRotationModel(
                self._keyring.pool(endpoint, target.credentials),
                lambda credential: self._with_policies(target, credential, budget),
                self._clock,
                name=target.model,
                provider=target.provider,
                circuits={c.id: self._circuit(target, c) for c in target.credentials},
            )
        else:
            inner = self._with_policies(target, None, budget)
        # A request that an agent may have received is not repeated: it would act twice.
        again = (Unreachable,) if target.profile.is_agent else RETRYABLE_ERRORS
        return RetryModel(inner, self._clock, patient=patient, retry_on=again)

    def _with_policies(
        self, target: Target, credential: Credential | None, budget: Budget
    ) -> Model:
        wire = self._wire(target, credential)
        metered = MeteredModel(RequestRepairModel(wire, self._plain), budget, target.profile)
        return CircuitBreakerModel(metered, self._circuit(target, credential))

    def _wire(self, target: Target, credential: Credential | None) -> Model:
        if target.provider == LOCAL:
            wire: Model = EmbeddedModel(self._local, target)
            target = self._local.known(target)
        elif target.api_mode == "acp":  # an agent program on this machine
            from hermes.providers.acp import AcpModel, AgentPool, agent_command  # few use an agent

            if self._agents is None:
                self._agents = AgentPool(agent_command(self._keyring.variable))
            wire = AcpModel(target, self._agents)
        else:
            wire = WireModel(target, self._client, credential)
        if not target.profile.small:
            return wire
        from hermes.providers import SmallModel, small_profile  # few models are small

        context = target.profile.context_length
        return SmallModel(wire, msgspec.structs.replace(small_profile(), context=context))

    async def close(self) -> None:
        """Stop the agent programs that were started."""
        if self._agents is not None:
            await self._agents.close()

    def _circuit(self, target: Target, credential: Credential | None) -> EndpointCircuit:
        name = credential.id if credential else ""
        return self._health.circuit(target.provider, target.base_url, name)


# The spending caps of the settings.


class Budgets:
    """Budgets by session, shared by its turns and auxiliary tasks."""

    def __init__(self, settings: Settings, store: SessionStore, clock: Clock) -> None:
        self._settings, self._store, self._clock = settings, store, clock
        # Weak references: the spending of a session is in the ledger.
        self._budgets: WeakValueDictionary[str, Budget] = WeakValueDictionary()
        self._users: dict[str, DailySpend] = {}
        cap = settings.budget.day_usd
        self._day = None if cap is None else DailySpend(cap, store, clock, user_zone(settings))

    def of(self, session_id: str, request: SessionRequest | None = None) -> Budget:
        """Return the budget of the session. `request` names its user and caps."""
        if (budget := self._budgets.get(session_id)) is not None:
            return budget
        caps = self._settings.budget
        limits = BudgetLimits(caps.turn_usd, caps.session_usd, caps.job_usd, caps.day_usd)
        job = request is not None and request.source == "cron"
        if request is not None and job and request.budget_usd is not None:
            limits = msgspec.structs.replace(limits, job=request.budget_usd)
        user = request.user_id if request else ""
        if request and user and request.user_day_usd is not None and user not in self._users:
            zone, cap = user_zone(self._settings), request.user_day_usd
            self._users[user] = DailySpend(cap, self._store, self._clock, zone, user=user)
        spend = self._users.get(user) if request and request.user_day_usd is not None else None
        budget = self._budgets[session_id] = Budget(
            limits, self._store, session_id, self._clock, job=job, day=self._day, user=spend
        )
        return budget

    async def open(
        self, session_id: str, past: SessionInfo | None, request: SessionRequest
    ) -> Budget:
        """Return the budget of a session; compactions continue that of the first session."""
        if past is not None and past.parent_id:
            for info in await self._store.ancestors(session_id):
                if info.end_reason != "compression":
                    break
                session_id = info.id
        return self.of(session_id, request)


def start_of_today(settings: Settings, clock: Clock) -> float:
    """Return midnight of the user's day, in seconds since the epoch."""
    return start_of_day(clock.now(), user_zone(settings)).timestamp()


@asynccontextmanager
async def trial_budget(home: Home, loaded: Loaded, clock: Clock) -> AsyncIterator[Budget]:
    """Yield a budget for testing a model: without a session, but under the daily cap."""
    settings = loaded.settings
    if settings.budget.day_usd is None:
        yield Budget(BudgetLimits(), NoSpending(), "", clock)
        return
    limits = BudgetLimits(day=settings.budget.day_usd)
    async with opened_store(home, settings.store.url, logger.warning) as store:
        yield Budget(limits, store, "", clock, zone=user_zone(settings))


class NoSpending:
    """A `Ledger` that records nothing, for processes without a cap."""

    async def spent_usd(
        self,
        session_id: str = "",  # noqa: ARG002 - the signature is that of Ledger
        *,
        since: float | None = None,  # noqa: ARG002 - likewise
        user_id: str = "",  # noqa: ARG002 - likewise
    ) -> float:
        return 0.0


def user_zone(settings: Settings) -> "ZoneInfo | None":
    """Return the time zone of the setting; None is the machine's."""
    if not settings.timezone:
        return None
    from zoneinfo import ZoneInfo  # few settings name a zone

    return ZoneInfo(settings.timezone)


# The keys of a home, for requests and for redaction.


def build_keyring(home: Home, loaded: Loaded, client: AnyClient, clock: Clock) -> Keyring:
    return Keyring(
        AuthFile(home.auth_file),
        loaded,
        client=client,
        clock=clock,
        user_home=user_home(home),
        strategies=loaded.settings.credential_pool_strategies,
        aws_profile=loaded.settings.bedrock.profile,
    )


TOKENS = ("access_token", "refresh_token", "client_secret")


def stored_secrets(home: Home) -> frozenset[str]:
    """Return every secret in auth.json, for redaction."""
    data = AuthFile(home.auth_file).read()
    keys = {e.secret for name in stored_providers(data) for e in entries_of(data, name).values()}
    logins = data.get("providers", {}).values()
    tokens = {login.get(name) for login in logins for name in TOKENS}
    return frozenset(value for value in keys | tokens if isinstance(value, str) and value)


def user_home(home: Home) -> Path:
    """Return the folder with logins of other programs."""
    try:
        return Path.home()
    except RuntimeError:  # the user has no home folder
        return home.root


class Providers:
    """The models of a process. Connections stay open until it is closed."""

    def __init__(
        self, home: Home, loaded: Loaded, clock: Clock, progress: DownloadProgress
    ) -> None:
        self._loaded, self.clock = loaded, clock
        self.settings = loaded.settings
        self._main: Target | None = None
        self._learning: asyncio.Task[None] | None = None
        self.model_client = make_model_client(LateTls())
        self.client = LateClient()  #: For logins and lists of models.
        self.keyring = build_keyring(home, loaded, self.client, clock)
        overrides = model_overrides(loaded.settings)
        self.known = ModelCatalog(home.cache / "models", overrides, clock)
        self.resolver = Resolver(loaded.settings, self.keyring, self.known)
        self.local = LocalModel(
            home, loaded.settings.local, self.model_client, self.client, progress
        )
        self.lister = ModelLister(self.resolver, self.known, self.keyring, self.client)
        self.maker = ModelChainBuilder(
            self.resolver, self.keyring, self.model_client, clock, self.local
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def known_target(self, choice: ModelChoice) -> Target:
        """Return the target of a choice; for the embedded model, with its label."""
        target = self.resolver.resolve(choice)
        return self.local.known(target) if target.provider == LOCAL else target

    def main_choice(self) -> ModelChoice:
        return main_choice(self._loaded)

    async def main(self) -> Target:
        """Return the target of conversations, ready for use."""
        self._main = await self.ready(self.main_choice())
        return self._main

    async def ready(self, choice: ModelChoice) -> Target:
        """Return the target of a choice, ready for use.

        The embedded model is downloaded and started now, where its progress can be shown, and a
        price that a cap needs is looked up.
        """
        target = self.known_target(choice)
        if target.provider == LOCAL:
            await self.local.ready(target)
        elif target.profile.price is None and any(
            cap is not None for cap in msgspec.structs.astuple(self._loaded.settings.budget)
        ):
            await self.learn(target)
            target = self.known_target(choice)
        return target

    async def learn(self, target: Target) -> None:
        """Update the facts about the endpoint's models, at most once a day. A failure is logged."""
        provider = self._loaded.settings.providers.get(target.provider)
        if provider is not None and not provider.discover_models:
            return
        if target.base_url and not self.known.is_fresh(target.base_url):
            found = await self.lister.models(target, ModelFilter())
            if found.note:
                logger.info("the models of %s are not known: %s", target.provider, found.note)

    def learn_meanwhile(self) -> bool:
        """Start `learn` in the background for the next conversation; False before `main`."""
        if self._main is None:
            return False
        self._learning = asyncio.create_task(self.learn(self._main))
        return True

    def doubt(self, target: Target) -> str:
        """Return a doubt about the model's name if the last list of the endpoint lacks it."""
        listed = self.known.cached_list(target.base_url)
        if listed is None or listed.find(target.model) is not None:
            return ""
        from difflib import get_close_matches  # only for a model that the provider does not list

        close = get_close_matches(target.model, [model.id for model in listed.models], n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        return f"{target.provider} does not list {target.model}{meant}"

    def custom_names(self) -> tuple[str, ...]:
        return custom_names(self._loaded.settings)

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            (outcome,) = await asyncio.gather(self._learning, return_exceptions=True)
            if isinstance(outcome, Exception):
                logger.warning("the models of the endpoint were not learnt: %s", outcome)
        await self.keyring.close()
        await self.maker.close()
        await self.local.close()
        await self.model_client.aclose()
        await self.client.aclose()


# The models of one session: for its turns and for auxiliary tasks.


class SessionModels:
    """A `ModelSource`: each turn begins with the main model again.

    A subagent works `within` the turn of its parent and does not begin a new one in the budget.
    """

    def __init__(
        self,
        maker: ModelChainBuilder,
        main: Target,
        fallbacks: Sequence[ModelChoice],
        budget: Budget,
        wrap: Callable[[Model], Model],
        *,
        within: bool = False,
    ) -> None:
        """`wrap` adds what observes the calls of a turn."""
        self._maker, self.main, self._wrap = maker, main, wrap
        self._fallbacks, self._budget, self._within = fallbacks, budget, within

    @property
    def name(self) -> str:
        return self.main.model

    @property
    def provider(self) -> str:
        return self.main.provider

    def for_turn(self) -> Model:
        if not self._within:
            self._budget.begin_turn()
        return self._wrap(self._maker.chain([self.main, *self._fallbacks], self._budget))


class AuxiliaryModels:
    """Finds the model for a task, charges the session's budget and records each call."""

    def __init__(
        self,
        providers: Providers,
        main: Target,
        budget: Budget,
        log: SessionStore,
        session_id: str,
    ) -> None:
        self._settings, self._providers, self.main = providers.settings, providers, main
        self._budget, self._log = budget, log
        self.session_id = session_id  #: The session of the recorded calls; a compaction changes it.

    def current_session(self) -> str:
        return self.session_id

    def is_auto(self, task: str) -> bool:
        """Return whether the settings leave the choice of the model to Hermes."""
        settings = self._task_settings(task)
        return settings.provider in ("", "auto") and not settings.base_url

    def targets(self, task: str) -> tuple[Target, ...]:
        """Return the targets of a task, in order."""
        settings = self._task_settings(task)
        return auxiliary_targets(task, settings, self.main, self._providers.resolver)

    def _task_settings(self, task: str) -> AuxiliaryTask:
        found = getattr(self._settings.auxiliary, task, None)
        if not isinstance(found, AuxiliaryTask):
            tasks = ", ".join(type(self._settings.auxiliary).__struct_fields__)
            raise UsageError(f"there is no auxiliary task {task!r}", hint=f"known: {tasks}")
        return found

    def preferred_targets(self, task: str, models: Sequence[str]) -> tuple[Target, ...]:
        """Return the targets of a task after the first of `models` that the main provider has."""
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
        """Return the reply of the first of `targets` that works."""
        began = self._providers.clock.monotonic()
        model = self._providers.maker.chain(targets, self._budget)
        reply = await model.call(request, lambda _event: None)
        seconds = round(self._providers.clock.monotonic() - began, 3)
        call = ModelCall(
            reply.usage, reply.model, reply.provider, reply.cost_usd, task=task, seconds=seconds
        )
        await self._log.record_call(self.session_id, call)
        logger.info("%s: answered by %s on %s", task, reply.model, reply.provider)
        return reply
