"""From a resolved target to a model that answers."""

import httpx2

from hermes.core.model import Model
from hermes.core.ports import Clock
from hermes.providers.policy.retrying import RetryingModel
from hermes.providers.resolver import Target
from hermes.providers.small.model import SmallModel
from hermes.providers.wire.chat_completions import ChatCompletions


def build_model(target: Target, client: httpx2.AsyncClient, clock: Clock) -> Model:
    """The wire, in the policies around it."""
    model: Model = ChatCompletions(target, client)
    if target.profile.small:
        model = SmallModel(model)
    return RetryingModel(model, clock)
