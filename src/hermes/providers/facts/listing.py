"""Reading the list of models of any endpoint.

No two endpoints write it alike, but most differ in names only. So each fact has a table of places
where it may stand, and what stands nowhere is not known. A place is a dotted path; a list on the
way means each of its members.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from hermes.core.usage import Price
from hermes.providers.facts.bundled import family_of, whole_price
from hermes.providers.facts.model import ModelFacts

MODELS = ("data", "models")
IDS = ("id", "model", "slug", "name")
LABELS = ("display_name", "displayName", "name")
CONTEXT = (
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
    "max_model_len",
    "max_input_tokens",
    "inputTokenLimit",
    "capabilities.limits.max_context_window_tokens",
    "capabilities.limits.max_prompt_tokens",
    "top_provider.context_length",
    "providers.context_length",
    "meta.n_ctx",
    "meta.n_ctx_train",
)
OUTPUT = (
    "top_provider.max_completion_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_output_length",
    "outputTokenLimit",
    "capabilities.limits.max_output_tokens",
    "max_tokens",
)

Signs = tuple[tuple[str, str], ...]
"""Path and word: the word is among what stands there. Without a word: what stands there is true."""

IMAGES: Signs = (
    ("architecture.input_modalities", "image"),
    ("input_modalities", "image"),
    ("modalities.input", "image"),
    ("tags", "vision"),
    ("capabilities", "vision"),
    ("capabilities.vision", ""),
    ("capabilities.image_input", ""),
    ("capabilities.supports.vision", ""),
    ("supports_image_in", ""),
    ("supports_vision", ""),
    ("type", "vlm"),
)
TOOLS: Signs = (
    ("supported_parameters", "tools"),
    ("tags", "tool-use"),
    ("capabilities", "tools"),
    ("capabilities", "tool_use"),
    ("capabilities.function_calling", ""),
    ("capabilities.supports.tool_calls", ""),
    ("providers.supports_tools", ""),
    ("supports_tools", ""),
)
REASONING: Signs = (
    ("supported_parameters", "reasoning"),
    ("tags", "reasoning"),
    ("capabilities", "thinking"),
    ("capabilities.thinking", ""),
    ("capabilities.reasoning", ""),
    ("capabilities.supports.reasoning_effort", ""),
    ("supports_reasoning", ""),
)
KINDS = ("type", "capabilities.type", "model_type")
OTHER_KINDS = frozenset(
    {
        "embedding",
        "embeddings",
        "image",
        "video",
        "audio",
        "speech",
        "transcription",
        "transcribe",
        "rerank",
        "reranking",
        "moderation",
        "completion",
    }
)
TALKS: Signs = (
    ("architecture.output_modalities", "text"),
    ("output_modalities", "text"),
    ("supportedGenerationMethods", "generateContent"),
    ("capabilities.completion_chat", ""),
)
WITHDRAWN = ("model_picker_enabled", "active")
"""False here: the endpoint does not offer the model."""
ENDS = ("deprecation", "deprecation_date", "expiration_date", "retirement_date")

TOOL_USERS_ONLY = frozenset({"ai-gateway"})
"""Endpoints that list much a conversation cannot use: only language models with tools are kept."""

_READ, _WRITTEN = ("prompt", "input"), ("completion", "output")
_CACHED = ("input_cache_read", "input_cache_reads", "cache_read", "cached_input")
_CACHING = ("input_cache_write", "input_cache_writes", "cache_write")
_CENTS = 10_000
"""xAI gives whole cents for a hundred million tokens."""


def parse_models(document: Any, *, provider: str, date: str) -> tuple[ModelFacts, ...]:
    """Every model an answer lists, each once. What cannot be understood is left out."""
    found: dict[str, ModelFacts] = {}
    for row in _rows(document):
        facts = parse_model(row, date=date)
        if facts is not None and _kept(facts, provider):
            found.setdefault(facts.id, facts)
    return tuple(found.values())


def parse_model(row: Mapping[str, Any], *, date: str) -> ModelFacts | None:
    """One model; None when it has no name or is not offered."""
    model = _text(row, IDS)
    if not model or any(row.get(name) is False for name in WITHDRAWN):
        return None
    model = model.removeprefix("models/")
    aliases = row.get("aliases")
    label = _text(row, LABELS).removeprefix("models/")
    return ModelFacts(
        id=model,
        aliases=tuple(a for a in aliases if isinstance(a, str)) if _is_list(aliases) else (),
        label=label if label not in ("", model) else None,
        context_length=_count(row, CONTEXT),
        max_output=_count(row, OUTPUT),
        price=_price(model, row, date),
        images=_says(row, IMAGES),
        tools=_says(row, TOOLS),
        reasoning=_says(row, REASONING),
        language=_language(model, row),
        deprecated=True if any(row.get(name) for name in ENDS) else None,
    )


def next_page(document: Any) -> str:
    """The cursor of the next page, or empty."""
    if isinstance(document, Mapping) and document.get("has_more") is True:
        last = document.get("last_id")
        return last if isinstance(last, str) else ""
    return ""


def _rows(document: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(document, Mapping):
        document = next((rows for name in MODELS if _is_list(rows := document.get(name))), ())
    if _is_list(document):
        yield from (row for row in document if isinstance(row, Mapping))


def _text(row: Mapping[str, Any], names: Sequence[str]) -> str:
    texts = (row.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")


def _kept(facts: ModelFacts, provider: str) -> bool:
    return provider not in TOOL_USERS_ONLY or (facts.language is True and facts.tools is True)


def _values(row: Any, path: str) -> list[Any]:
    """Whatever stands at `path`."""
    found = [row]
    for name in path.split("."):
        held = [one.get(name) for one in found if isinstance(one, Mapping)]
        found = [one for value in held for one in (value if _is_list(value) else [value])]
    return [value for value in found if value is not None]


def _count(row: Mapping[str, Any], paths: Sequence[str]) -> int | None:
    """The first number of tokens; the largest where several hosts have one each."""
    for path in paths:
        counts = [v for v in _values(row, path) if isinstance(v, int | float) and v > 0]
        if counts and not isinstance(counts[0], bool):
            return int(max(counts))
    return None


def _says(row: Mapping[str, Any], signs: Signs) -> bool | None:
    """Whether any sign is there; None when no place for one is."""
    answers = [answer for path, word in signs for answer in _answers(row, path, word)]
    return any(answers) if answers else None


def _answers(row: Mapping[str, Any], path: str, word: str) -> Iterator[bool]:
    parent, _, last = path.rpartition(".")
    for holder in _values(row, parent) if parent else [row]:
        value = holder.get(last) if isinstance(holder, Mapping) else None
        if word and _is_list(value):
            yield word in value
        elif word and value == word:
            yield True
        elif not word and isinstance(value, bool | list):
            yield bool(value)
        elif not word and isinstance(value, Mapping) and isinstance(value.get("supported"), bool):
            yield value["supported"]


def _language(model: str, row: Mapping[str, Any]) -> bool | None:
    kinds = [kind for path in KINDS for kind in _values(row, path) if isinstance(kind, str)]
    if any(kind.lower() in OTHER_KINDS for kind in kinds) or not family_of(model).language:
        return False
    return True if "language" in kinds or "chat" in kinds else _says(row, TALKS)


def _price(model: str, row: Mapping[str, Any], date: str) -> Price | None:
    """Texts are dollars for a token, numbers for a million; of several hosts the dearest counts."""
    prices = [
        price
        for holder in (*_values(row, "pricing"), *_values(row, "providers.pricing"))
        if isinstance(holder, Mapping) and (price := _priced(model, holder, date)) is not None
    ]
    if not prices and "prompt_text_token_price" in row:
        prices = _in_cents(model, row, date)
    return max(prices, key=lambda price: price.input + price.output) if prices else None


def _priced(model: str, pricing: Mapping[str, Any], date: str) -> Price | None:
    reading, writing = _dollars(pricing, _READ), _dollars(pricing, _WRITTEN)
    if reading is None or writing is None:
        return None
    cached, caching = _dollars(pricing, _CACHED), _dollars(pricing, _CACHING)
    return whole_price(model, reading, writing, cached, caching, date)


def _in_cents(model: str, row: Mapping[str, Any], date: str) -> list[Price]:
    names = ("prompt_text_token_price", "completion_text_token_price")
    cents = [row.get(name) for name in (*names, "cached_prompt_text_token_price")]
    reading, writing, cached = (v / _CENTS if isinstance(v, int) else None for v in cents)
    if reading is None or writing is None:
        return []
    return [whole_price(model, reading, writing, cached, None, date)]


def _dollars(pricing: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """For a million tokens. A negative price means that it depends."""
    for name in names:
        value = pricing.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        try:
            dollars = float(value) * 1_000_000 if isinstance(value, str) else float(value)
        except ValueError:
            continue
        return round(dollars, 6) if dollars >= 0 else None
    return None


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
