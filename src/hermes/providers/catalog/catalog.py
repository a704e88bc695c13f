"""What is known of models: bundled, listed by their endpoints, and said by the user.

For each fact the best source that knows it wins: config.yaml, then the list of the endpoint (kept
on disk), then what holds for all models of the endpoint, then the bundled tables.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec

from hermes.config.settings import Settings
from hermes.config.settings.model import ModelOverrides, ModelPrice
from hermes.core.ports import Clock
from hermes.core.usage import Price
from hermes.providers.catalog.tables import FAMILIES, MODELS, Family, ModelEntry
from hermes.providers.endpoints import Endpoint, ModelProfile, ReasoningFormat, is_loopback
from hermes.providers.target import Credential
from hermes.util import atomic
from hermes.util.text import human_duration

# What one source says of one model.


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """None: this source says nothing of it."""

    id: str
    aliases: tuple[str, ...] = ()
    """Other names the endpoint takes for it."""
    label: str | None = None
    context_length: int | None = None
    max_output: int | None = None
    price: Price | None = None
    images: bool | None = None
    """Whether it sees images."""
    tools: bool | None = None
    reasoning: bool | None = None
    language: bool | None = None
    """False for models that embed, speak, listen or draw."""
    deprecated: bool | None = None

    def answers_to(self, name: str) -> bool:
        return name == self.id or name in self.aliases


MERGED_FIELDS = (
    "label",
    "context_length",
    "max_output",
    "price",
    "images",
    "tools",
    "reasoning",
    "language",
    "deprecated",
)
"""The fields of which the best source wins, each for itself."""


# Looking a model up in the tables that come with Hermes.

LIST_PRICE_PROVIDERS = frozenset({"openrouter", "ai-gateway", "kilocode", "opencode-zen"})
"""Gateways that pass a model on for what its maker asks."""

UNPRICED_PROVIDERS = frozenset({"copilot", "openai-codex", "custom"})
"""Subscriptions, and endpoints of which nobody knows what they ask."""

UNKNOWN_FAMILY = Family(pattern="")

_MAKER = re.compile(r"([a-z]{2,6}\.)?(anthropic|openai|meta|mistral|deepseek|qwen|zai|minimax)\.")
_VERSION = re.compile(r"[-@](v\d+(-\d+)?|\d{8}|\d{4}-\d{2}-\d{2}|latest|free|beta)$")


@lru_cache(maxsize=4096)
def normalize_name(model: str) -> str:
    """`us.anthropic.claude-opus-4-5-20251101-v1:0` and `anthropic/claude-opus-4.5` are both
    `claude-opus-4-5`."""
    name = model.lower().rpartition("/")[2]
    name = _MAKER.sub("", name, count=1).replace(".", "-").replace(":", "-")
    while (shorter := _VERSION.sub("", name)) != name:
        name = shorter
    return name


@lru_cache(maxsize=4096)
def family_of(model: str) -> Family:
    """The family of the model; `UNKNOWN` when its name tells nothing."""
    name = normalize_name(model)
    return next((family for family in FAMILIES if re.match(family.pattern, name)), UNKNOWN_FAMILY)


def bundled_facts(endpoint: Endpoint, model: str) -> ModelFacts:
    """What the tables say of the model; a price only where its maker's price is asked."""
    family, entry = family_of(model), _ENTRIES.get(normalize_name(model), ModelEntry(model))
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
        reasoning=family.thinks,
        language=family.language,
    )


def bundled_models(endpoint: Endpoint) -> tuple[str, ...]:
    """Models of the endpoint that are known by name, best first: a list for want of a better."""
    own = [entry.name for entry in MODELS if is_maker(endpoint, family_of(entry.name))]
    if _provider_kind(endpoint) == "custom":
        own = []
    names = [endpoint.default_model, endpoint.small_model, *own]
    return tuple(dict.fromkeys(name for name in names if name))


def is_maker(endpoint: Endpoint, family: Family) -> bool:
    """Whether the endpoint is one of the makers of the family."""
    return _provider_kind(endpoint) in family.home


def complete_price(
    model: str,
    reading: float,
    writing: float,
    cached: float | None,
    caching: float | None,
    date: str,
) -> Price:
    """A price of which a list may not give what the cache costs.

    What is missing comes from what is usual in the model's family; in a family that is not known
    the cache is taken to save nothing.
    """
    family = family_of(model)
    return Price(
        reading,
        writing,
        round(reading * family.cache_read, 6) if cached is None else cached,
        round(reading * family.cache_write, 6) if caching is None else caching,
        date,
    )


def _provider_kind(endpoint: Endpoint) -> str:
    """`custom` for every endpoint of the user's own."""
    return endpoint.id.partition(":")[0]


_ENTRIES = {normalize_name(entry.name): entry for entry in MODELS}


# Lists of models on disk, one file for each endpoint.

log = logging.getLogger(__name__)

FRESH_SECONDS = 24 * 3600
FORMAT = 1


class CachedModelList(msgspec.Struct, frozen=True):
    """The models of one endpoint, as it listed them."""

    base_url: str
    fetched_at: float
    """Seconds since the epoch."""
    models: tuple[ModelFacts, ...]
    format: int = FORMAT

    def find(self, model: str) -> ModelFacts | None:
        return next((facts for facts in self.models if facts.answers_to(model)), None)

    def age(self, now: float) -> float:
        return max(0.0, now - self.fetched_at)

    def is_fresh(self, now: float) -> bool:
        """A list from the future was written by a wrong clock."""
        return 0 <= now - self.fetched_at < FRESH_SECONDS


class ModelListCache:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, base_url: str) -> Path:
        host = re.sub(r"[^a-z0-9.]+", "-", base_url.partition("://")[2].lower())[:40].strip("-")
        digest = hashlib.sha256(base_url.encode()).hexdigest()[:12]
        return self.folder / f"{host}-{digest}.json"

    def read(self, base_url: str) -> CachedModelList | None:
        """The stored list; None when there is none, or one that cannot be understood."""
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
        """A list that cannot be stored is fetched again next time."""
        data = msgspec.json.encode(models)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            atomic.write_bytes(self.path(models.base_url), data)
        except OSError as error:
            log.warning("the list of models cannot be stored in %s: %s", self.folder, error)


# What the user says of models in config.yaml.

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


def override_facts(model: str, said: ModelOverrides) -> ModelFacts:
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


SMALL_CONTEXT = 4096
"""What servers on this machine give a small model unless told otherwise."""

_SMALL = re.compile(r"(?<![\d.])(0\.\d+|1(\.\d+)?)b\b")
"""Fewer than two billion parameters, as in `qwen2.5-coder:1.5b`."""


class ExplainedFact(NamedTuple):
    """One fact and where it comes from."""

    field: str
    value: Any
    source: str


class FactSource(NamedTuple):
    kind: str
    """`config`, `list`, `endpoint` or `bundled`."""
    words: str
    facts: ModelFacts


class ModelCatalog:
    """Cheap to ask: at most one small file is read for an endpoint in the life of a process."""

    def __init__(self, cache_dir: Path, overrides: Overrides, clock: Clock) -> None:
        """`cache_dir` is `models` in the cache of a home, `overrides` those of its settings."""
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
        """Each known fact with its source in words."""
        explained: list[ExplainedFact] = []
        sources = tuple(self.sources(endpoint, base_url, model))
        for field in MERGED_FIELDS:
            for source in sources:
                value = getattr(source.facts, field)
                if value is not None:
                    explained.append(
                        ExplainedFact(field, value, _describe_source(source, field, value))
                    )
                    break
        return explained

    def sources(self, endpoint: Endpoint, base_url: str, model: str) -> Iterator[FactSource]:
        """Who says anything of the model, best first."""
        said = self._overrides.get(endpoint.id, {}).get(model)
        if said is not None:
            yield FactSource("config", "config.yaml", override_facts(model, said))
        listed = self.listed(base_url)
        facts = listed.find(model) if listed else None
        if listed is not None and facts is not None:
            age = human_duration(listed.age(self._now()))
            yield FactSource("list", f"the list of {endpoint.label}, {age} old", facts)
        profile = endpoint.profile
        general = ModelFacts(id=model, price=profile.price, images=profile.images)
        yield FactSource("endpoint", f"holds for all of {endpoint.label}", general)
        yield FactSource("bundled", "comes with Hermes", bundled_facts(endpoint, model))

    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> ModelProfile:
        """The endpoint's profile with what is known of the model worked in."""
        base, family = endpoint.profile, family_of(model)
        facts = self.facts(endpoint, base_url, model)
        small = base.small or (is_loopback(base_url) and bool(_SMALL.search(model.lower())))
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
            developer_role=base.developer_role
            or family.developer_role
            or _needs_developer_role(model),
            cache_marks=_needs_cache_marks(endpoint, family),
            max_tokens_field=field or base.max_tokens_field,
            temperature=base.temperature and family.temperature,
            small=small,
        )

    def listed(self, base_url: str) -> CachedModelList | None:
        """The list of the endpoint as it was last fetched, however old; None when it never was."""
        if base_url not in self._lists:
            self._lists[base_url] = self._cache.read(base_url) if base_url else None
        return self._lists[base_url]

    def is_fresh(self, base_url: str) -> bool:
        listed = self.listed(base_url)
        return listed is not None and listed.is_fresh(self._now())

    async def refresh(
        self,
        endpoint: Endpoint,
        base_url: str,
        credential: Credential | None,
        client: httpx2.AsyncClient,
        region: str = "",
    ) -> tuple[ModelFacts, ...]:
        """Ask the endpoint and remember what it says. Raises a `ProviderError`.

        The credential is sent only where it belongs; no redirect is followed.
        """
        now = self._now()
        date = datetime.fromtimestamp(now, UTC).date().isoformat()
        from hermes.providers.catalog.listing import fetch_models  # most processes never list

        models = await fetch_models(
            endpoint, base_url, credential, client, date=date, region=region
        )
        listed = CachedModelList(base_url, now, models)
        self._lists[base_url] = listed
        self._cache.write(listed)
        return models

    def _context(self, endpoint: Endpoint, base_url: str, model: str, *, small: bool) -> int:
        """What a small model was made for says nothing of what its server gives it."""
        for source in self.sources(endpoint, base_url, model):
            if source.facts.context_length and not (small and source.kind == "bundled"):
                return source.facts.context_length
        usual = endpoint.profile.context_length
        return min(usual, SMALL_CONTEXT) if small else usual

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _needs_developer_role(model: str) -> bool:
    """The documented rule, which holds for names that tell nothing else too."""
    return "gpt-5" in model.lower() or "codex" in model.lower()


def _describe_source(source: FactSource, field: str, value: Any) -> str:
    if field == "price" and value.date:
        return f"{source.words} (price of {value.date})"
    return source.words


def _reasoning_format(endpoint: Endpoint, family: Family, facts: ModelFacts) -> ReasoningFormat:
    """How the model is asked for effort there; not at all when it is not known to think."""
    if facts.reasoning is not True:
        return ""
    if endpoint.api_mode == "anthropic_messages":
        return family.form if family.form in ("budget", "adaptive") else ""
    if is_maker(endpoint, family) and family.form:
        return family.form
    if endpoint.id.startswith("custom:"):
        return "effort"
    return endpoint.profile.reasoning


def _needs_cache_marks(endpoint: Endpoint, family: Family) -> bool:
    """Marks are part of Anthropic's API; elsewhere the endpoint must know them and the model
    need them."""
    if endpoint.api_mode == "anthropic_messages":
        return True
    return endpoint.profile.cache_marks and family.cache_marks
