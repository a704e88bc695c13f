"""Looking a model up in the tables that come with Hermes."""

import re
from functools import lru_cache

from hermes.core.usage import Price
from hermes.providers.endpoint import Endpoint
from hermes.providers.facts.catalogue import CATALOGUE, Entry
from hermes.providers.facts.families import FAMILIES, Family
from hermes.providers.facts.model import ModelFacts

AT_LIST_PRICE = frozenset({"openrouter", "ai-gateway", "kilocode", "opencode-zen"})
"""Gateways that pass a model on for what its maker asks."""

PAID_OTHERWISE = frozenset({"copilot", "openai-codex", "custom"})
"""Subscriptions, and endpoints of which nobody knows what they ask."""

UNKNOWN = Family(pattern="")

_MAKER = re.compile(r"([a-z]{2,6}\.)?(anthropic|openai|meta|mistral|deepseek|qwen|zai|minimax)\.")
_VERSION = re.compile(r"[-@](v\d+(-\d+)?|\d{8}|\d{4}-\d{2}-\d{2}|latest|free|beta)$")


@lru_cache(maxsize=4096)
def normal_name(model: str) -> str:
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
    name = normal_name(model)
    return next((family for family in FAMILIES if re.match(family.pattern, name)), UNKNOWN)


def bundled_facts(endpoint: Endpoint, model: str) -> ModelFacts:
    """What the tables say of the model; a price only where its maker's price is asked."""
    family, entry = family_of(model), _ENTRIES.get(normal_name(model), Entry(model))
    if family is UNKNOWN:
        return ModelFacts(id=model)
    pays = endpoint.id in AT_LIST_PRICE or (
        is_home(endpoint, family) and _kind(endpoint) not in PAID_OTHERWISE
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
    own = [entry.name for entry in CATALOGUE if is_home(endpoint, family_of(entry.name))]
    if _kind(endpoint) == "custom":
        own = []
    names = [endpoint.default_model, endpoint.small_model, *own]
    return tuple(dict.fromkeys(name for name in names if name))


def is_home(endpoint: Endpoint, family: Family) -> bool:
    """Whether the endpoint is one of the makers of the family."""
    return _kind(endpoint) in family.home


def whole_price(
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


def _kind(endpoint: Endpoint) -> str:
    """`custom` for every endpoint of the user's own."""
    return endpoint.id.partition(":")[0]


_ENTRIES = {normal_name(entry.name): entry for entry in CATALOGUE}
