"""From a resolved target to a model that answers."""

import msgspec

from hermes.core.model import Model
from hermes.core.ports import Clock
from hermes.providers.policy.retrying import RetryingModel
from hermes.providers.profile import Profile
from hermes.providers.small.model import SmallModel
from hermes.providers.small.profile import SMALL


def build_model(wire: Model, profile: Profile, clock: Clock) -> Model:
    """The wire, in the policies around it."""
    if profile.small:
        wire = SmallModel(wire, msgspec.structs.replace(SMALL, context=profile.context_length))
    return RetryingModel(wire, clock)
