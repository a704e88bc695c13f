"""What the user says of models in config.yaml."""

from collections.abc import Mapping

from hermes.config.settings import Settings
from hermes.config.settings.model import ModelOverrides, ModelPrice
from hermes.core.usage import Price
from hermes.providers.facts.model import ModelFacts

Overrides = Mapping[str, Mapping[str, ModelOverrides]]
"""By provider id (`custom:NAME` for a named endpoint) and model name."""


def overrides_of(settings: Settings) -> Overrides:
    known: dict[str, Mapping[str, ModelOverrides]] = {
        name: provider.models for name, provider in settings.providers.items()
    }
    for own in settings.custom_providers:
        name = f"custom:{own.name}"
        known[name] = {**known.get(name, {}), **own.models}
    return known


def said_facts(model: str, said: ModelOverrides) -> ModelFacts:
    return ModelFacts(
        id=model,
        context_length=said.context_length,
        max_output=said.max_output,
        images=said.images,
        price=_price(said.price) if said.price else None,
    )


def _price(said: ModelPrice) -> Price:
    return Price(
        said.input,
        said.output,
        said.input if said.cache_read is None else said.cache_read,
        said.input if said.cache_write is None else said.cache_write,
        said.date,
    )
