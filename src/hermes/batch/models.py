"""The model of a run: how the settings of the user lead to it, in the driver and in each worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from hermes.app import Providers, main_choice
from hermes.app.providers import NoSpending
from hermes.batch.compressor import Summarize
from hermes.config.home import Home
from hermes.config.loader import Loaded, load
from hermes.context.conversation import cut_to_tokens
from hermes.core.errors import UsageError
from hermes.core.messages import User
from hermes.core.model import Model, ModelRequest, Price
from hermes.providers import CUSTOM, Target
from hermes.providers.local import DownloadProgress
from hermes.providers.policy import Budget, BudgetLimits
from hermes.util.concurrency import SystemClock

SUMMARY_PROMPT = """\
These are turns from the middle of a conversation between a user and an agent with tools. They \
will be left out, and your summary will take their place. State in at most {words} words what was \
done, which facts were found (paths, names, numbers, errors) and what was decided. Write only the \
summary.

{turns}"""


class RunModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model of a run: what the command line names, and what that stands for.

    Without a key here, each worker finds the keys in the home as `hermes chat` does.
    """

    name: str = ""  #: As for `hermes chat`; empty fields leave it to the settings.
    provider: str = ""
    base_url: str = ""
    api_key: str = ""  #: Sent to the workers, but not stored with the run.
    needs_key: bool = False  #: The run was started with a key, so it is continued with one.
    home: str = ""
    resolved: str = ""  #: `provider:model`. A worker that finds another model raises an error.
    price: Price | None = None

    def load(self) -> Loaded:
        """Return the settings of the home with the choice of this run."""
        given = {
            "model.default": self.name,
            "model.provider": self.provider or ("custom" if self.base_url else ""),
            "model.base_url": self.base_url,
            "model.api_key": self.api_key,
        }
        return load(Home(Path(self.home)), {name: value for name, value in given.items() if value})

    async def resolve(
        self, progress: DownloadProgress, *, for_cluster: bool = False, needs_price: bool = False
    ) -> "RunModel":
        """Return this model with what it stands for and its price.

        For a cluster, whose machines do not have the home, the result names address and key.
        """
        loaded = self.load()
        async with Providers(Home(Path(self.home)), loaded, SystemClock(), progress) as providers:
            target = await self.find_target(providers, loaded)
            if needs_price and target.profile.price is None:
                await providers.learn(target)
                target = await self.find_target(providers, loaded)
        if self.needs_key and not self.api_key:
            # Without the key every rollout that is left would fail.
            raise UsageError(
                "the run was started with --api-key, which is not stored", hint="add --api-key KEY"
            )
        found = msgspec.structs.replace(
            self,
            needs_key=self.needs_key or bool(self.api_key),
            resolved=f"{target.provider}:{target.model}",
            price=target.profile.price,
        )
        if not for_cluster:
            return found
        keys = [each.secret for each in target.credentials if each.kind == "api_key"]
        return msgspec.structs.replace(
            found,
            name=target.model,
            provider=target.provider,
            base_url=target.base_url if target.provider == CUSTOM else self.base_url,
            api_key=next(iter(keys), ""),
        )

    async def find_target(self, providers: Providers, loaded: Loaded) -> Target:
        """Return the endpoint, the model and the keys. The embedded model is started."""
        target = await providers.ready(main_choice(loaded))
        found = f"{target.provider}:{target.model}"
        if self.resolved and found != self.resolved:
            raise UsageError(
                f"the run uses {self.resolved}, but the settings of {self.home} choose {found}",
                hint="name --provider and --model, or start a new run",
            )
        return target


class TargetModels:
    """The `ModelSource` of all rollouts of a worker."""

    def __init__(self, providers: Providers, target: Target) -> None:
        self._providers, self._target = providers, target

    @property
    def name(self) -> str:
        return self._target.model

    @property
    def provider(self) -> str:
        return self._target.provider

    def for_turn(self) -> Model:
        # The driver limits what the whole run costs.
        budget = Budget(BudgetLimits(), NoSpending(), "", self._providers.clock)
        return self._providers.maker.model(self._target, budget)


@asynccontextmanager
async def open_summarizer(model: RunModel, progress: DownloadProgress) -> AsyncIterator[Summarize]:
    """Yield a function that lets a model summarize turns of a trajectory."""
    loaded = model.load()
    async with Providers(Home(Path(model.home)), loaded, SystemClock(), progress) as providers:
        target = await model.find_target(providers, loaded)
        models = TargetModels(providers, target)
        most = target.profile.context_length // 2  # leave room for the answer and for estimates

        async def summarize(text: str, tokens: int) -> str:
            asked = SUMMARY_PROMPT.format(words=tokens // 2, turns=cut_to_tokens(text, most))
            request = ModelRequest((User.say(asked),), max_tokens=4 * tokens + 1000)
            reply = await models.for_turn().call(request, lambda _event: None)
            return str(reply.message.text)

        yield summarize
