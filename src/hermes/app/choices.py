"""From settings to what the resolver is asked for.

The parts of `model` (provider, address, key, name) belong together, but may be said at different
places. An address or a key said at a weaker place for another provider is left out: a provider
named on the command line never inherits the address config.yaml has for a different one.
"""

from collections.abc import Iterator

import msgspec

from hermes.config.loader import Kind, Loaded, Origin
from hermes.config.settings import Settings
from hermes.config.settings.model import FallbackProvider, ModelSettings
from hermes.providers import CUSTOM, ModelChoice, expand_alias

_STRENGTH: dict[Kind, int] = {"cli": 4, "config": 3, "dotenv": 2, "env": 1, "default": 0}


def main_choice(loaded: Loaded) -> ModelChoice:
    """What answers in conversations."""
    settings = loaded.settings.model
    provider = loaded.origin("model.provider")
    model = named_model(loaded)
    address = loaded.origin("model.base_url")
    name = loaded.origin("model.default")
    unnamed = settings.provider in ("", "auto")
    if not model.is_auto and (unnamed or _outweighs(name, provider)):
        named = msgspec.structs.replace(
            model, reason=f"the model of {name.where} names it", context_length=_length(loaded)
        )
        return at_own_endpoint(named, settings)
    said = ModelChoice(
        provider=settings.provider or "auto",
        model=model.model if _fits(loaded, "model.default", provider) else "",
        reason=f"model.provider is set by {provider.where}",
        context_length=_length(loaded),
    )
    if _outweighs(address, provider) and settings.base_url:
        said = msgspec.structs.replace(said, provider="auto")
    if (
        not said.is_auto
        and said.provider != CUSTOM
        and not _fits(loaded, "model.base_url", provider)
    ):
        return said
    return msgspec.structs.replace(
        said,
        base_url=settings.base_url,
        api_key=settings.api_key,
        context_length=settings.context_length or 0,
        base_url_source=_said(address),
        base_url_saved=address.kind != "env",
    )


def at_own_endpoint(choice: ModelChoice, settings: ModelSettings) -> ModelChoice:
    """`custom` without an address means the endpoint of `model`, with its key."""
    if choice.provider != CUSTOM or choice.base_url:
        return choice
    return msgspec.structs.replace(
        choice,
        base_url=settings.base_url,
        api_key=settings.api_key,
        context_length=settings.context_length or 0,
    )


def named_model(loaded: Loaded) -> ModelChoice:
    """`model.default` with aliases and a provider in front of it understood."""
    settings = loaded.settings
    return expand_alias(settings.model.default, settings.model_aliases, custom_names(settings))


def custom_names(settings: Settings) -> tuple[str, ...]:
    return tuple(custom.name for custom in settings.custom_providers)


def fallback_choices(settings: Settings) -> Iterator[ModelChoice]:
    """The chain behind the main model; entries without a provider or a model are left out."""
    for at, entry in enumerate(settings.fallback_providers, start=1):
        if entry.provider and entry.model:
            yield _fallback(entry, f"fallback_providers[{at}]")


def _fallback(entry: FallbackProvider, name: str) -> ModelChoice:
    return ModelChoice(
        provider=entry.provider,
        model=entry.model,
        base_url=entry.base_url,
        api_key=entry.api_key,
        key_env=entry.key_env,
        reason=name,
        base_url_source=f"{name}.base_url",
    )


def _length(loaded: Loaded) -> int:
    """That of `model.default`; said at a weaker place it was meant for another model."""
    name, said = loaded.origin("model.default"), loaded.origin("model.context_length")
    return 0 if _outweighs(name, said) else loaded.settings.model.context_length or 0


def _fits(loaded: Loaded, key: str, provider: Origin) -> bool:
    """Whether the value of `key` was meant for the provider in force."""
    said = loaded.origin(key)
    if not _outweighs(provider, said):
        return True
    below = [o for o in provider.overrode if o.kind != "default" and o.value not in ("", "auto")]
    if not below:
        return key == "model.default" or provider.value in ("", "auto", CUSTOM)
    return below[0].value == provider.value or _outweighs(said, below[0])


def _outweighs(one: Origin, other: Origin) -> bool:
    return _STRENGTH[one.kind] > _STRENGTH[other.kind]


def _said(address: Origin) -> str:
    """What to call the place an address came from."""
    from_variable = address.kind in ("env", "dotenv")
    return address.where.partition(" in ")[0] if from_variable else "model.base_url"
