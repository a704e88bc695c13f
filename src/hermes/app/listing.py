"""Which models there are: for `hermes models` and for choosing one."""

from collections.abc import Iterable

import httpx2
import msgspec

from hermes.core.errors import ProviderError
from hermes.core.usage import Price
from hermes.providers import Credential, Endpoint, ModelChoice, Resolver, Target, endpoints
from hermes.providers.catalog import ModelCatalog, ModelFacts, bundled_models
from hermes.providers.credentials import Keyring


class Wanted(msgspec.Struct, frozen=True):
    """Which models are asked for. What is not known of a model is not taken for granted."""

    words: tuple[str, ...] = ()
    """All of them stand in the name or the label."""
    images: bool = False
    tools: bool = False
    reasoning: bool = False
    free: bool = False
    context: int = 0
    """At least so many tokens."""
    max_price: float | None = None
    """US dollars for a million tokens, read or written."""

    def admits(self, facts: ModelFacts) -> bool:
        name = f"{facts.id} {facts.label or ''}".lower()
        return (
            all(word.lower() in name for word in self.words)
            and (facts.images is True or not self.images)
            and (facts.tools is True or not self.tools)
            and (facts.reasoning is True or not self.reasoning)
            and (facts.context_length or 0) >= self.context
            and self._affordable(facts.price)
        )

    def _affordable(self, price: Price | None) -> bool:
        limit = 0.0 if self.free else self.max_price
        return limit is None or (price is not None and max(price.input, price.output) <= limit)


class Listed(msgspec.Struct, frozen=True):
    facts: ModelFacts
    sources: dict[str, str]
    """Where each fact comes from, in words."""
    in_use: bool = False


class ProviderModels(msgspec.Struct, frozen=True, kw_only=True):
    provider: str
    label: str
    base_url: str
    models: tuple[Listed, ...] = ()
    fetched_at: float | None = None
    """Seconds since the epoch; None when the endpoint never listed its models."""
    note: str = ""
    """What went wrong, and what is shown instead."""


class ModelLister:
    """Lists the models of providers, each asked at most once a day."""

    def __init__(
        self, resolver: Resolver, known: ModelCatalog, keyring: Keyring, client: httpx2.AsyncClient
    ) -> None:
        self._resolver, self._known = resolver, known
        self._keyring, self._client = keyring, client

    def target(self, provider: str, current: Target | None) -> Target:
        """Where `provider` is asked: as it is configured, when it is the one in use.

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
        """Every provider that is set up with a key."""
        usable = (e for e in endpoints.ENDPOINTS if e.needs_key)
        return tuple(e.id for e in usable if self._keyring.credentials(e))

    async def models(
        self, target: Target, wanted: Wanted, *, in_use: str = "", refresh: bool = False
    ) -> ProviderModels:
        """The models of one provider that fit; never raises for an endpoint that fails."""
        endpoint = self._resolver.endpoint(target.provider)
        note = ""
        if refresh or not self._known.is_fresh(target.base_url):
            note = await self._renewed(endpoint, target)
        listed = self._known.cached_list(target.base_url)
        if listed is None:
            names = dict.fromkeys((*bundled_models(endpoint), *([in_use] if in_use else [])))
            note = f"{note}; what comes with Hermes is shown" if names else note
        else:
            names = dict.fromkeys(facts.id for facts in listed.models)
            note = f"{note}; the list of last time is shown" if note else ""
        found = (self._listed(endpoint, target.base_url, name, in_use) for name in names)
        return ProviderModels(
            provider=endpoint.id,
            label=endpoint.label,
            base_url=target.base_url,
            models=_chosen(found, wanted),
            fetched_at=listed.fetched_at if listed else None,
            note=note,
        )

    async def _renewed(self, endpoint: Endpoint, target: Target) -> str:
        """Why the list could not be fetched; empty when it was."""
        if not endpoint.models_path:
            return f"{endpoint.label} has no list of its models"
        try:
            credential = await self._credential(endpoint, target)
            await self._known.refresh(
                endpoint, target.base_url, credential, self._client, target.region
            )
        except ProviderError as error:
            return str(error)
        return ""

    async def _credential(self, endpoint: Endpoint, target: Target) -> Credential | None:
        if not target.credentials:
            return None
        return await self._keyring.pool(endpoint, target.credentials).take()

    def _listed(self, endpoint: Endpoint, base_url: str, model: str, in_use: str) -> Listed:
        explained = self._known.explain(endpoint, base_url, model)
        facts = ModelFacts(id=model, **{one.field: one.value for one in explained})
        listed = self._known.cached_list(base_url)
        own = listed.find(model) if listed else None
        used = bool(in_use) and (in_use == model or (own is not None and own.matches(in_use)))
        return Listed(facts, {one.field: one.source for one in explained}, used)


def _chosen(found: Iterable[Listed], wanted: Wanted) -> tuple[Listed, ...]:
    """Those for conversations that fit, in the order of their names."""
    fit = [
        one
        for one in found
        if (one.in_use or one.facts.language is not False) and wanted.admits(one.facts)
    ]
    return tuple(sorted(fit, key=lambda one: one.facts.id.lower()))
