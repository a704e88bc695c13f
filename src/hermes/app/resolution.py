"""Which model answers and why, as facts to show."""

import msgspec

from hermes.app.choices import fallback_choices, main_choice
from hermes.app.providers import Providers
from hermes.config.loader import Loaded
from hermes.config.masking import mask
from hermes.config.settings.model import AuxiliaryTask
from hermes.core.errors import HermesError
from hermes.core.usage import Price
from hermes.providers import ModelChoice, Target, auxiliary_targets


class KeyShown(msgspec.Struct, frozen=True):
    source: str
    key: str
    """Masked."""
    kind: str


class Resolved(msgspec.Struct, frozen=True):
    """A choice and what became of it."""

    provider: str
    model: str = ""
    base_url: str = ""
    api_mode: str = ""
    why: str = ""
    keys: tuple[KeyShown, ...] = ()
    context_length: int = 0
    price: Price | None = None
    problem: str = ""
    """Why it cannot be used; empty when it can."""
    hint: str = ""


class Considered(msgspec.Struct, frozen=True):
    """What `auto` could have taken."""

    provider: str
    why: str


class Resolution(msgspec.Struct, frozen=True):
    main: Resolved
    also: tuple[Considered, ...] = ()
    """The other providers that are set up, in the order they would be taken."""
    fallbacks: tuple[Resolved, ...] = ()
    auxiliary: dict[str, Resolved] = {}


def main_resolution(loaded: Loaded, providers: Providers) -> Resolution:
    """The model of conversations alone."""
    choice = main_choice(loaded)
    main = resolved(choice, providers)
    also = [
        Considered(candidate.endpoint.id, candidate.reason)
        for candidate in providers.resolver.candidates(choice)
        if candidate.endpoint.id != main.provider
    ]
    return Resolution(main, tuple(also))


def whole_resolution(loaded: Loaded, providers: Providers) -> Resolution:
    """With the fallbacks and every auxiliary task."""
    settings = loaded.settings
    fallbacks = tuple(resolved(choice, providers) for choice in fallback_choices(settings))
    tasks = msgspec.structs.asdict(settings.auxiliary)
    auxiliary = {name: _auxiliary(name, task, loaded, providers) for name, task in tasks.items()}
    return msgspec.structs.replace(
        main_resolution(loaded, providers), fallbacks=fallbacks, auxiliary=auxiliary
    )


def resolved(choice: ModelChoice, providers: Providers) -> Resolved:
    try:
        return shown(providers.known_target(choice))
    except HermesError as error:
        return Resolved(choice.provider, choice.model, problem=str(error), hint=error.hint)


def shown(target: Target) -> Resolved:
    keys = [KeyShown(c.source, mask(c.secret), c.kind) for c in target.credentials]
    return Resolved(
        provider=target.provider,
        model=target.model,
        base_url=target.base_url,
        api_mode=target.api_mode,
        why=target.source,
        keys=tuple(keys),
        context_length=target.profile.context_length,
        price=target.profile.price,
    )


def _auxiliary(name: str, task: AuxiliaryTask, loaded: Loaded, providers: Providers) -> Resolved:
    try:
        main = providers.known_target(main_choice(loaded))
        return shown(auxiliary_targets(name, task, main, providers.resolver)[0])
    except HermesError as error:
        return Resolved(task.provider, task.model, problem=str(error), hint=error.hint)
