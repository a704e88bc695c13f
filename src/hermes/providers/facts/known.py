"""What is known of models: bundled, listed by their endpoints, and said by the user.

For each fact the best source that knows it wins: config.yaml, then the list of the endpoint (kept
on disk), then what holds for all models of the endpoint, then the bundled tables.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import msgspec

from hermes.core.ports import Clock
from hermes.providers.endpoint import Endpoint
from hermes.providers.facts.bundled import bundled_facts, family_of, is_home
from hermes.providers.facts.cache import ListCache, ModelList
from hermes.providers.facts.families import Family
from hermes.providers.facts.model import MERGED, ModelFacts
from hermes.providers.facts.overrides import Overrides, said_facts
from hermes.providers.hosts import is_loopback
from hermes.providers.profile import Profile, ReasoningForm
from hermes.providers.target import Credential
from hermes.util.text import human_duration

SMALL_CONTEXT = 4096
"""What servers on this machine give a small model unless told otherwise."""

_SMALL = re.compile(r"(?<![\d.])(0\.\d+|1(\.\d+)?)b\b")
"""Fewer than two billion parameters, as in `qwen2.5-coder:1.5b`."""


class Explained(NamedTuple):
    """One fact and where it comes from."""

    field: str
    value: Any
    source: str


class Source(NamedTuple):
    kind: str
    """`config`, `list`, `endpoint` or `bundled`."""
    words: str
    facts: ModelFacts


class KnownModels:
    """Cheap to ask: at most one small file is read for an endpoint in the life of a process."""

    def __init__(self, cache_dir: Path, overrides: Overrides, clock: Clock) -> None:
        """`cache_dir` is `models` in the cache of a home, `overrides` those of its settings."""
        self._cache, self._overrides, self._clock = ListCache(cache_dir), overrides, clock
        self._lists: dict[str, ModelList | None] = {}

    def facts(self, endpoint: Endpoint, base_url: str, model: str) -> ModelFacts:
        merged: dict[str, Any] = {}
        for source in self.sources(endpoint, base_url, model):
            for field in MERGED:
                if merged.get(field) is None:
                    merged[field] = getattr(source.facts, field)
        return ModelFacts(id=model, **merged)

    def explain(self, endpoint: Endpoint, base_url: str, model: str) -> list[Explained]:
        """Each known fact with its source in words."""
        explained: list[Explained] = []
        sources = tuple(self.sources(endpoint, base_url, model))
        for field in MERGED:
            for source in sources:
                value = getattr(source.facts, field)
                if value is not None:
                    explained.append(Explained(field, value, _words(source, field, value)))
                    break
        return explained

    def sources(self, endpoint: Endpoint, base_url: str, model: str) -> Iterator[Source]:
        """Who says anything of the model, best first."""
        said = self._overrides.get(endpoint.id, {}).get(model)
        if said is not None:
            yield Source("config", "config.yaml", said_facts(model, said))
        listed = self.listed(base_url)
        facts = listed.find(model) if listed else None
        if listed is not None and facts is not None:
            age = human_duration(listed.age(self._now()))
            yield Source("list", f"the list of {endpoint.label}, {age} old", facts)
        profile = endpoint.profile
        general = ModelFacts(id=model, price=profile.price, images=profile.images)
        yield Source("endpoint", f"holds for all of {endpoint.label}", general)
        yield Source("bundled", "comes with Hermes", bundled_facts(endpoint, model))

    def profile(self, endpoint: Endpoint, base_url: str, model: str) -> Profile:
        """The endpoint's profile with what is known of the model worked in."""
        base, family = endpoint.profile, family_of(model)
        facts = self.facts(endpoint, base_url, model)
        small = base.small or (is_loopback(base_url) and bool(_SMALL.search(model.lower())))
        chat = endpoint.api_mode == "chat_completions"
        field = family.max_tokens_field if chat and is_home(endpoint, family) else ""
        return msgspec.structs.replace(
            base,
            context_length=self._context(endpoint, base_url, model, small=small),
            max_output=facts.max_output,
            price=facts.price,
            images=facts.images,
            tools=base.tools and facts.tools is not False,
            reasoning=_form(endpoint, family, facts),
            developer_role=base.developer_role or family.developer_role or _wants_developer(model),
            cache_marks=_marks(endpoint, family),
            max_tokens_field=field or base.max_tokens_field,
            temperature=base.temperature and family.temperature,
            small=small,
        )

    def listed(self, base_url: str) -> ModelList | None:
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
        # Loaded when it is needed: most programs never ask for a list.
        fetch = import_module("hermes.providers.facts.fetch")
        models: tuple[ModelFacts, ...] = await fetch.fetch_models(
            endpoint, base_url, credential, client, date=date, region=region
        )
        listed = ModelList(base_url, now, models)
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


def _wants_developer(model: str) -> bool:
    """The documented rule, which holds for names that tell nothing else too."""
    return "gpt-5" in model.lower() or "codex" in model.lower()


def _words(source: Source, field: str, value: Any) -> str:
    if field == "price" and value.date:
        return f"{source.words} (price of {value.date})"
    return source.words


def _form(endpoint: Endpoint, family: Family, facts: ModelFacts) -> ReasoningForm:
    """How the model is asked for effort there; not at all when it is not known to think."""
    if facts.reasoning is not True:
        return ""
    if endpoint.api_mode == "anthropic_messages":
        return family.form if family.form in ("budget", "adaptive") else ""
    if is_home(endpoint, family) and family.form:
        return family.form
    if endpoint.id.startswith("custom:"):
        return "effort"
    return endpoint.profile.reasoning


def _marks(endpoint: Endpoint, family: Family) -> bool:
    """Marks are part of Anthropic's API; elsewhere the endpoint must know them and the model
    need them."""
    if endpoint.api_mode == "anthropic_messages":
        return True
    return endpoint.profile.cache_marks and family.cache_marks
