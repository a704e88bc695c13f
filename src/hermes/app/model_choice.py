"""From settings to the choice of a model, and the list of models of a provider.

The parts of `model` (provider, address, key, name) belong together but may come from different
sources. An address or a key that a weaker source sets for another provider is ignored: a provider
named on the command line never gets the address that config.yaml has for a different one.
"""

from collections.abc import Iterator

import msgspec

from hermes.app.sessions import SessionRequest
from hermes.config.home import Home
from hermes.config.loader import Kind, Loaded, Origin
from hermes.config.settings import ModelSettings, Settings
from hermes.core.errors import ProviderError, UsageError
from hermes.providers import (
    CUSTOM,
    LOCAL,
    Endpoint,
    ModelChoice,
    Resolver,
    Target,
    endpoints,
    expand_alias,
)
from hermes.providers.catalog import ModelCatalog, ModelFacts, bundled_models
from hermes.providers.credentials import Keyring
from hermes.providers.local import resolve_weights, weights_name
from hermes.util.http import AnyClient

_STRENGTH: dict[Kind, int] = {"cli": 4, "config": 3, "dotenv": 2, "env": 1, "default": 0}


def main_choice(loaded: Loaded) -> ModelChoice:
    """Return the choice for conversations."""
    settings, replace = loaded.settings.model, msgspec.structs.replace
    provider = loaded.origin("model.provider")
    model = named_model(loaded)
    address = loaded.origin("model.base_url")
    name = loaded.origin("model.default")
    if not model.is_auto and (settings.provider in ("", "auto") or _outweighs(name, provider)):
        reason = f"the model of {name.where} names it"
        named = replace(model, reason=reason, context_length=_context_length(loaded))
        return at_own_endpoint(named, settings)
    choice = ModelChoice(
        provider=settings.provider or "auto",
        model=model.model if _fits(loaded, "model.default", provider) else "",
        reason=f"model.provider is set by {provider.where}",
        context_length=_context_length(loaded),
    )
    if _outweighs(address, provider) and settings.base_url:
        choice = replace(choice, provider="auto")
    has_own_address = not choice.is_auto and choice.provider != CUSTOM
    if has_own_address and not _fits(loaded, "model.base_url", provider):
        return choice
    from_variable = address.kind in ("env", "dotenv")
    return replace(
        choice,
        base_url=settings.base_url,
        api_key=settings.api_key,
        context_length=settings.context_length or 0,
        base_url_source=address.where.partition(" in ")[0] if from_variable else "model.base_url",
        base_url_saved=address.kind != "env",
    )


def at_own_endpoint(choice: ModelChoice, settings: ModelSettings) -> ModelChoice:
    """Return the choice with the endpoint and key of `model` if it is `custom` without address."""
    if choice.provider != CUSTOM or choice.base_url:
        return choice
    return msgspec.structs.replace(
        choice,
        base_url=settings.base_url,
        api_key=settings.api_key,
        context_length=settings.context_length or 0,
    )


def named_model(loaded: Loaded) -> ModelChoice:
    """Return the choice that `model.default` names: an alias, a model or `provider:model`."""
    settings = loaded.settings
    return expand_alias(settings.model.default, settings.model_aliases, custom_names(settings))


def custom_names(settings: Settings) -> tuple[str, ...]:
    return tuple(custom.name for custom in settings.custom_providers)


def fallback_choices(settings: Settings) -> Iterator[ModelChoice]:
    """Yield the fallbacks of the main model; entries without provider or model are skipped."""
    for number, entry in enumerate(settings.fallback_providers, start=1):
        if entry.provider and entry.model:
            name = f"fallback_providers[{number}]"
            yield ModelChoice(
                provider=entry.provider,
                model=entry.model,
                base_url=entry.base_url,
                api_key=entry.api_key,
                key_env=entry.key_env,
                reason=name,
                base_url_source=f"{name}.base_url",
            )


def _context_length(loaded: Loaded) -> int:
    """Return `model.context_length`, or 0 if a weaker source set it for another model."""
    name, length = loaded.origin("model.default"), loaded.origin("model.context_length")
    return 0 if _outweighs(name, length) else loaded.settings.model.context_length or 0


def _fits(loaded: Loaded, key: str, provider: Origin) -> bool:
    """Return whether the value of `key` was meant for the provider in use."""
    origin = loaded.origin(key)
    if not _outweighs(provider, origin):
        return True
    below = [o for o in provider.overrode if o.kind != "default" and o.value not in ("", "auto")]
    if not below:
        return key == "model.default" or provider.value in ("", "auto", CUSTOM)
    return below[0].value == provider.value or _outweighs(origin, below[0])


def _outweighs(one: Origin, other: Origin) -> bool:
    return _STRENGTH[one.kind] > _STRENGTH[other.kind]


# Changing the model: for `hermes model` and `/model`.


def parse_choice(text: str, loaded: Loaded, current: Target | None) -> ModelChoice:
    """Return the choice that the user typed: a model, an alias, or `provider:model`.

    A provider alone means its usual model. Without a provider the current one is kept.
    """
    name, aliases = text.strip(), loaded.settings.model_aliases
    if endpoints.find_endpoint(name.lower()) and name not in aliases:
        return ModelChoice(provider=name.lower())
    choice = expand_alias(text, aliases, custom_names(loaded.settings))
    if choice.is_auto and not choice.model:
        raise UsageError("no model was named", hint="hermes model set provider:model")
    if choice.is_auto and current is not None:
        choice = msgspec.structs.replace(choice, provider=current.provider)
    return at_own_endpoint(choice, loaded.settings.model)


def choice_of_request(request: SessionRequest, loaded: Loaded) -> ModelChoice:
    """Return the choice of a request that names a model, a provider or an address."""
    choice = ModelChoice()
    if request.model:
        settings = loaded.settings
        choice = expand_alias(request.model, settings.model_aliases, custom_names(settings))
    if request.provider:
        choice = msgspec.structs.replace(choice, provider=request.provider)
    if request.base_url:
        provider = choice.provider if not choice.is_auto else CUSTOM
        choice = msgspec.structs.replace(choice, provider=provider, base_url=request.base_url)
    if choice.is_auto:
        return msgspec.structs.replace(
            main_choice(loaded), model=choice.model, context_length=0, reason="the session names it"
        )
    return at_own_endpoint(choice, loaded.settings.model)


def save_choice(home: Home, choice: ModelChoice, target: Target) -> None:
    """Write the choice to config.yaml; remove what belonged to another endpoint."""
    from hermes.config import edit  # a slow YAML library, needed only for changes

    name = target.model
    if target.provider == LOCAL:  # the target has the label of the weights
        name = choice.model and weights_name(
            resolve_weights(choice.model, home.models), home.models
        )
    edit.set_value(home, ("model", "provider"), target.provider)
    edit.set_value(home, ("model", "default"), name)
    if choice.base_url:
        edit.set_value(home, ("model", "base_url"), choice.base_url)
    elif not target.provider.startswith(CUSTOM):
        for name in ("base_url", "api_key", "context_length"):
            edit.unset_value(home, ("model", name))


# The models of a provider.


class ModelFilter(msgspec.Struct, frozen=True):
    """Requirements for listed models. A model with unknown properties does not meet them."""

    words: tuple[str, ...] = ()  #: All must occur in the name or the label.
    images: bool = False
    tools: bool = False
    reasoning: bool = False
    free: bool = False
    context: int = 0  #: Minimum context length in tokens.
    max_price: float | None = None  #: US dollars for a million tokens, input and output.

    def admits(self, facts: ModelFacts) -> bool:
        name, price = f"{facts.id} {facts.label or ''}".lower(), facts.price
        limit = 0.0 if self.free else self.max_price
        return (
            all(word.lower() in name for word in self.words)
            and (facts.images is True or not self.images)
            and (facts.tools is True or not self.tools)
            and (facts.reasoning is True or not self.reasoning)
            and (facts.context_length or 0) >= self.context
            and (limit is None or (price is not None and max(price.input, price.output) <= limit))
        )


class ListedModel(msgspec.Struct, frozen=True):
    facts: ModelFacts
    sources: dict[str, str]  #: The source of each fact.
    in_use: bool = False


class ProviderModels(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    label: str
    base_url: str
    models: tuple[ListedModel, ...] = ()
    fetched_at: float | None = None  #: Unix time; None if the endpoint never listed its models.
    note: str = ""  #: What went wrong, and what is shown instead.


class ModelLister:
    """Lists the models of providers, each asked at most once a day."""

    def __init__(
        self, resolver: Resolver, known: ModelCatalog, keyring: Keyring, client: AnyClient
    ) -> None:
        self._resolver, self._known = resolver, known
        self._keyring, self._client = keyring, client

    def target(self, provider: str, current: Target | None) -> Target:
        """Return the target whose models are listed: `current` if it is of that provider.

        Raises `ConfigError` or `CredentialMissing`.
        """
        endpoint = self._resolver.endpoint(provider)
        if current is not None and current.provider == endpoint.id:
            return current
        # The name does not matter here, but a provider without a default model needs one.
        return self._resolver.resolve(
            ModelChoice(provider=endpoint.id, model=endpoint.default_model or "-")
        )

    def with_keys(self) -> tuple[str, ...]:
        """Return the providers that have a key."""
        keyed = (e for e in endpoints.ENDPOINTS if e.needs_key)
        return tuple(e.id for e in keyed if self._keyring.credentials(e))

    async def models(
        self, target: Target, wanted: ModelFilter, *, in_use: str = "", refresh: bool = False
    ) -> ProviderModels:
        """Return the matching models of a provider. A failing endpoint becomes a note."""
        endpoint = self._resolver.endpoint(target.provider)
        note = ""
        if refresh or not self._known.is_fresh(target.base_url):
            note = await self._refresh(endpoint, target)
        listed = self._known.cached_list(target.base_url)
        if listed is None:
            names = dict.fromkeys((*bundled_models(endpoint), *([in_use] if in_use else [])))
            note = f"{note}; what comes with Hermes is shown" if names else note
        else:
            names = dict.fromkeys(facts.id for facts in listed.models)
            note = f"{note}; the list of last time is shown" if note else ""
        found = (self._describe(endpoint, target.base_url, name, in_use) for name in names)
        # Models that are not for conversations are hidden, unless one is in use.
        fit = (
            one
            for one in found
            if (one.in_use or one.facts.language is not False) and wanted.admits(one.facts)
        )
        return ProviderModels(
            provider=endpoint.id,
            label=endpoint.label,
            base_url=target.base_url,
            models=tuple(sorted(fit, key=lambda one: one.facts.id.lower())),
            fetched_at=listed.fetched_at if listed else None,
            note=note,
        )

    async def _refresh(self, endpoint: Endpoint, target: Target) -> str:
        """Fetch the list; return why that failed, or ""."""
        if not endpoint.models_path:
            return f"{endpoint.label} has no list of its models"
        try:
            keys = target.credentials
            credential = await self._keyring.pool(endpoint, keys).take() if keys else None
            await self._known.refresh(
                endpoint, target.base_url, credential, self._client, target.region
            )
        except ProviderError as error:
            return str(error)
        return ""

    def _describe(self, endpoint: Endpoint, base_url: str, model: str, in_use: str) -> ListedModel:
        explained = self._known.explain(endpoint, base_url, model)
        facts = ModelFacts(id=model, **{one.field: one.value for one in explained})
        listed = self._known.cached_list(base_url)
        own = listed.find(model) if listed else None
        used = bool(in_use) and (in_use == model or (own is not None and own.matches(in_use)))
        return ListedModel(facts, {one.field: one.source for one in explained}, used)
