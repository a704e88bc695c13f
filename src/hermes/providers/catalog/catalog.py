"""What is known of models: bundled tables, lists of the endpoints, and the user's settings.

For each fact the best source wins: config.yaml, then the endpoint's list (cached on disk), then
what applies to all models of the endpoint, then the bundled tables.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes.config.settings import ModelOverrides, ModelPrice, Settings
from hermes.core.model import Price
from hermes.core.ports import Clock
from hermes.providers.endpoints import (
    Credential,
    Endpoint,
    ModelProfile,
    ReasoningFormat,
    is_loopback,
)
from hermes.util import files
from hermes.util.http import AnyClient
from hermes.util.lazy import late_pattern
from hermes.util.text import human_duration


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one source states about one model. None means that it states nothing."""

    id: str
    aliases: tuple[str, ...] = ()  #: Other names the endpoint accepts for it.
    label: str | None = None
    context_length: int | None = None
    max_output: int | None = None
    price: Price | None = None
    images: bool | None = None  #: Whether it accepts images.
    tools: bool | None = None
    reasoning: bool | None = None
    language: bool | None = None  #: False for embedding, speech, transcription and image models.
    deprecated: bool | None = None

    def matches(self, name: str) -> bool:
        return name == self.id or name in self.aliases


MERGED_FIELDS = tuple(n for n in ModelFacts.__struct_fields__ if n not in ("id", "aliases"))
"""Fields merged one by one, each from the best source."""


# Bundled tables, in `models.json`. Names are compared in lower case, without the maker and with `-`
# for `.` and `:`.


class Family(msgspec.Struct, frozen=True, kw_only=True):
    pattern: str  #: Regular expression for the beginning of the name.
    makers: tuple[str, ...] = ()
    """Provider ids of the makers, where `reasoning_format` and `max_tokens_field` apply."""
    context: int | None = None
    output: int | None = None
    images: bool | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    reasoning_format: ReasoningFormat = ""
    """How its maker takes the effort, when not as the endpoint's profile says."""
    developer_role: bool = False
    max_tokens_field: str = ""
    temperature: bool = True
    cache_marks: bool = False
    cache_read: float = 1.0  #: Price of a cached input token, as a fraction of the input price.
    cache_write: float = 1.0
    language: bool = True


class ModelEntry(msgspec.Struct, frozen=True):
    name: str  #: The id at its maker's own endpoint.
    price: Price | None = None
    context: int | None = None  #: None here and below: as its family.
    output: int | None = None
    images: bool | None = None


class ModelTables(msgspec.Struct, frozen=True):
    families: tuple[Family, ...]  #: The first matching one counts, so narrow patterns come first.
    models: tuple[ModelEntry, ...]
    """Limits and prices that the makers publish; the date is the day they were read. A price that
    rises with the prompt length is listed with both levels, one that changes with the hour with the
    higher one. A model that is missing here has no bundled price."""


@lru_cache(maxsize=1)
def bundled_tables() -> ModelTables:
    data = Path(__file__).with_name("models.json").read_bytes()
    return msgspec.json.decode(data, type=ModelTables)


@lru_cache(maxsize=1)
def _entries() -> dict[str, ModelEntry]:
    return {normalize_name(entry.name): entry for entry in bundled_tables().models}


LIST_PRICE_PROVIDERS = frozenset({"openrouter", "ai-gateway", "kilocode", "opencode-zen"})
"""Gateways that charge the maker's list price."""

UNPRICED_PROVIDERS = frozenset({"copilot", "openai-codex", "custom"})
"""Subscriptions, and endpoints with unknown prices."""

UNKNOWN_FAMILY = Family(pattern="")

_MAKER = late_pattern(r"([a-z]{2,6}\.)?(anthropic|openai|meta|mistral|deepseek|qwen|zai|minimax)\.")
_GROUP = late_pattern(r"\([^()]*\)")
_VERSION = late_pattern(r"[-@](v\d+(-\d+)?|\d{8}|\d{4}-\d{2}-\d{2}|latest|free|beta)$")


@lru_cache(maxsize=4096)
def normalize_name(model: str) -> str:
    """Return a name without maker and version.

    `us.anthropic.claude-opus-4-5-20251101-v1:0` and `anthropic/claude-opus-4.5` both become
    `claude-opus-4-5`.
    """
    name = model.lower().rpartition("/")[2]
    name = _MAKER.sub("", name, count=1).replace(".", "-").replace(":", "-")
    while (shorter := _VERSION.sub("", name)) != name:
        name = shorter
    return name


@lru_cache(maxsize=4096)
def family_of(model: str) -> Family:
    """Return the family of the model; `UNKNOWN_FAMILY` when its name matches none."""
    name = normalize_name(model)
    families = (each for each in bundled_tables().families if _may_match(each.pattern, name))
    return next((family for family in families if re.match(family.pattern, name)), UNKNOWN_FAMILY)


def _may_match(pattern: str, name: str) -> bool:
    """Return False if a pattern begins with another letter, so that it need not be compiled."""
    is_literal = pattern[0].isalpha() and pattern[1:2] not in tuple("?*{")
    return not is_literal or pattern[0] == name[:1] or "|" in _GROUP.sub("", pattern)


def bundled_facts(endpoint: Endpoint, model: str) -> ModelFacts:
    """Return what the tables state; a price only where the maker's price applies."""
    family, entry = family_of(model), _entries().get(normalize_name(model), ModelEntry(model))
    if family is UNKNOWN_FAMILY:
        return ModelFacts(id=model)
    pays = endpoint.id in LIST_PRICE_PROVIDERS or (
        is_maker(endpoint, family) and _provider_kind(endpoint) not in UNPRICED_PROVIDERS
    )
    return ModelFacts(
        id=model,
        context_length=entry.context or family.context,
        max_output=entry.output or family.output,
        price=entry.price if pays else None,
        images=family.images if entry.images is None else entry.images,
        tools=family.tools,
        reasoning=family.reasoning,
        language=family.language,
    )


def bundled_models(endpoint: Endpoint) -> tuple[str, ...]:
    """Return the models of the endpoint that are known by name, best first."""
    models = bundled_tables().models
    own = [entry.name for entry in models if is_maker(endpoint, family_of(entry.name))]
    if _provider_kind(endpoint) == "custom":
        own = []
    names = [endpoint.default_model, endpoint.small_model, *own]
    return tuple(dict.fromkeys(name for name in names if name))


def is_maker(endpoint: Endpoint, family: Family) -> bool:
    """Return whether the endpoint belongs to the maker of the family."""
    return _provider_kind(endpoint) in family.makers


def complete_price(
    model: str,
    input_price: float,
    output_price: float,
    cache_read: float | None,
    cache_write: float | None,
    date: str,
) -> Price:
    """Return a price with cache prices filled in when a list omits them.

    The usual ratios of the family apply; in an unknown family caching saves nothing.
    """
    family = family_of(model)
    return Price(
        input_price,
        output_price,
        round(input_price * family.cache_read, 6) if cache_read is None else cache_read,
        round(input_price * family.cache_write, 6) if cache_write is None else cache_write,
        date,
    )


def _provider_kind(endpoint: Endpoint) -> str:
    """Return the provider id, `custom` for every custom endpoint."""
    return endpoint.id.partition(":")[0]


# Model lists on disk, one file per endpoint.

log = logging.getLogger(__name__)

FRESH_SECONDS = 24 * 3600
FORMAT = 1


class CachedModelList(msgspec.Struct, frozen=True):
    """The models of one endpoint, as it listed them."""

    base_url: str
    fetched_at: float  #: Seconds since the epoch.
    models: tuple[ModelFacts, ...]
    format: int = FORMAT

    def find(self, model: str) -> ModelFacts | None:
        return next((facts for facts in self.models if facts.matches(model)), None)

    def age(self, now: float) -> float:
        return max(0.0, now - self.fetched_at)

    def is_fresh(self, now: float) -> bool:
        """Return whether the list is recent. One from the future was written by a wrong clock."""
        return 0 <= now - self.fetched_at < FRESH_SECONDS


class ModelListCache:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, base_url: str) -> Path:
        host = re.sub(r"[^a-z0-9.]+", "-", base_url.partition("://")[2].lower())[:40].strip("-")
        digest = hashlib.sha256(base_url.encode()).hexdigest()[:12]
        return self.folder / f"{host}-{digest}.json"

    def read(self, base_url: str) -> CachedModelList | None:
        """Return the stored list; None when it is missing or invalid."""
        path = self.path(base_url)
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=CachedModelList)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("the list of models %s is damaged and not used: %s", path, error)
            return None
        return stored if (stored.base_url, stored.format) == (base_url, FORMAT) else None

    def write(self, models: CachedModelList) -> None:
        """Store the list. If that fails, it is fetched again next time."""
        data = msgspec.json.encode(models)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_bytes(self.path(models.base_url), data)
        except OSError as error:
            log.warning("the list of models cannot be stored in %s: %s", self.folder, error)


# Settings in config.yaml.

Overrides = Mapping[str, Mapping[str, ModelOverrides]]
"""By provider id (`custom:NAME` for a named endpoint) and model name."""


def model_overrides(settings: Settings) -> Overrides:
    known: dict[str, Mapping[str, ModelOverrides]] = {
        name: provider.models for name, provider in settings.providers.items()
    }
    for own in settings.custom_providers:
        name = f"custom:{own.name}"
        known[name] = {**known.get(name, {}), **own.models}
    return known


def override_facts(model: str, override: ModelOverrides) -> ModelFacts:
    return ModelFacts(
        id=model,
        context_length=override.context_length,
        max_output=override.max_output,
        images=override.images,
        price=_price(override.price) if override.price else None,
    )


def _price(price: ModelPrice) -> Price:
    return Price(
        price.input,
        price.output,
        price.input if price.cache_read is None else price.cache_read,
        price.input if price.cache_write is None else price.cache_write,
        price.date,
    )


SMALL_CONTEXT = 4096  #: Context that local servers give a small model by default.

_SMALL = late_pattern(r"(?<![\d.])(0\.\d+|1(\.\d+)?)b\b")
"""Fewer than two billion parameters, as in `qwen2.5-coder:1.5b`."""


class ExplainedFact(NamedTuple):
    """One fact and its source."""

    field: str
    value: Any
    source: str


class FactSource(NamedTuple):
    kind: str  #: `config`, `list`, `endpoint` or `bundled`.
    description: str
    facts: ModelFacts


class ModelCatalog:
    """Facts and profiles of models. A process reads at most one small file per endpoint."""

    def __init__(self, cache_dir: Path, overrides: Overrides, clock: Clock) -> None:
        """`cache_dir` is `models` in the cache of a home, `overrides` come from its settings."""
        self._cache, self._overrides, self._clock = ModelListCache(cache_dir), overrides, clock
        self._lists: dict[str, CachedModelList | None] = {}

    def facts(self, endpoint: Endpoint, base_url: str, model: str) -> ModelFacts:
        merged: dict[str, Any] = {}
        for source in self.sources(endpoint, base_url, model):
            for field in MERGED_FIELDS:
                if merged.get(field) is None:
                    merged[field] = getattr(source.facts, field)
        return ModelFacts(id=model, **merged)

    def explain(self, endpoint: Endpoint, base_url: str, model: str) -> list[ExplainedFact]:
        """Return each known fact with its source."""
        explained: list[ExplainedFact] = []
        sources = tuple(self.sources(endpoint, base_url, model))
        for field in MERGED_FIELDS:
            for source in sources:
                value = getattr(source.facts, field)
                if value is not None:
                    dated = field == "price" and value.date
                    note = f" (price of {value.date})" if dated else ""
                    explained.append(ExplainedFact(field, value, source.description + note))
                    break
        return explained

    def sources(self, endpoint: Endpoint, base_url: str, model: str) -> Iterator[FactSource]:
        """Yield all sources that know the model, best first."""
        override = self._overrides.get(endpoint.id, {}).get(model)
        if override is not None:
            yield FactSource("config", "config.yaml", override_facts(model, override))
        stored = self.cached_list(base_url)
        facts = stored.find(model) if stored else None
        if stored is not None and facts is not None:
            age = human_duration(stored.age(self._now()))
            yield FactSource("list", f"the list of {endpoint.label}, {age} old", facts)
        profile = endpoint.profile
        general = ModelFacts(id=model, price=profile.price, images=profile.images)
        yield FactSource("endpoint", f"holds for all of {endpoint.label}", general)
        yield FactSource("bundled", "comes with Hermes", bundled_facts(endpoint, model))

    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile:
        """Return the endpoint's profile with the facts of the model applied."""
        base, family = endpoint.profile, family_of(model)
        facts = self.facts(endpoint, base_url, model)
        small = base.small or (bool(_SMALL.search(model.lower())) and is_loopback(base_url))
        chat = endpoint.api_mode == "chat_completions"
        field = family.max_tokens_field if chat and is_maker(endpoint, family) else ""
        return msgspec.structs.replace(
            base,
            context_length=self._context(endpoint, base_url, model, small=small),
            max_output=facts.max_output,
            price=facts.price,
            images=facts.images,
            tools=base.tools and facts.tools is not False,
            reasoning=_reasoning_format(endpoint, family, facts),
            # The documented rule also applies to names of unknown families.
            developer_role=base.developer_role
            or family.developer_role
            or "gpt-5" in model.lower()
            or "codex" in model.lower(),
            # Part of Anthropic's API; elsewhere the endpoint must accept and the model need them.
            cache_marks=endpoint.api_mode == "anthropic_messages"
            or (base.cache_marks and family.cache_marks),
            max_tokens_field=field or base.max_tokens_field,
            temperature=base.temperature and family.temperature,
            small=small,
        )

    def cached_list(self, base_url: str) -> CachedModelList | None:
        """Return the endpoint's list as last fetched, of any age; None when it never was."""
        if base_url not in self._lists:
            self._lists[base_url] = self._cache.read(base_url) if base_url else None
        return self._lists[base_url]

    def is_fresh(self, base_url: str) -> bool:
        stored = self.cached_list(base_url)
        return stored is not None and stored.is_fresh(self._now())

    async def refresh(
        self,
        endpoint: Endpoint,
        base_url: str,
        credential: Credential | None,
        client: AnyClient,
        region: str = "",
    ) -> tuple[ModelFacts, ...]:
        """Fetch and store the endpoint's model list. Raises a `ProviderError`.

        The credential is sent only to its own hosts; no redirect is followed.
        """
        now = self._now()
        date = datetime.fromtimestamp(now, UTC).date().isoformat()
        from hermes.providers.catalog.listing import fetch_models  # rarely needed

        models = await fetch_models(
            endpoint, base_url, credential, client, date=date, region=region
        )
        stored = CachedModelList(base_url, now, models)
        self._lists[base_url] = stored
        self._cache.write(stored)
        return models

    def _context(self, endpoint: Endpoint, base_url: str, model: str, *, small: bool) -> int:
        """Return the context window. For a small model the bundled value is ignored: its server
        usually gives it less."""
        for source in self.sources(endpoint, base_url, model):
            if source.facts.context_length and not (small and source.kind == "bundled"):
                return source.facts.context_length
        usual = endpoint.profile.context_length
        return min(usual, SMALL_CONTEXT) if small else usual

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _reasoning_format(endpoint: Endpoint, family: Family, facts: ModelFacts) -> ReasoningFormat:
    """Return how the endpoint takes the effort; empty unless the model is known to reason."""
    if facts.reasoning is not True:
        return ""
    if endpoint.api_mode == "anthropic_messages":
        return family.reasoning_format if family.reasoning_format in ("budget", "adaptive") else ""
    if is_maker(endpoint, family) and family.reasoning_format:
        return family.reasoning_format
    if endpoint.id.startswith("custom:"):
        return "effort"
    return endpoint.profile.reasoning
