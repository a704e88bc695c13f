"""Fetches and parses the model list of any endpoint.

The lists differ mostly in names, so each fact has a table of paths where it may be. A path is
dotted; a list on the way stands for each of its members. A fact found at no path is unknown.
"""

import posixpath
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, TypeGuard
from urllib.parse import urlsplit

import msgspec

from hermes.core.errors import ProviderError, ReplyInvalid
from hermes.core.model import Price
from hermes.providers.aws import sign_request
from hermes.providers.catalog.catalog import ModelFacts, complete_price, family_of
from hermes.providers.endpoints import Credential, Endpoint, Target, may_receive_key
from hermes.providers.failures import refused, unreachable
from hermes.providers.wire.anthropic import AnthropicDialect
from hermes.providers.wire.model import join_url, request_headers
from hermes.util.http import AnyClient, HttpError, fetch

LIST_NAMES = ("data", "models")
ID_NAMES = ("id", "model", "slug", "name")
LABEL_NAMES = ("display_name", "displayName", "name")
CONTEXT_PATHS = (
    "loaded_context_length", "context_length", "context_window", "max_context_length",
    "max_model_len", "max_input_tokens", "inputTokenLimit",
    "capabilities.limits.max_context_window_tokens", "capabilities.limits.max_prompt_tokens",
    "top_provider.context_length", "providers.context_length", "meta.n_ctx", "meta.n_ctx_train",
)  # fmt: skip
OUTPUT_PATHS = (
    "top_provider.max_completion_tokens", "max_completion_tokens", "max_output_tokens",
    "max_output_length", "outputTokenLimit", "capabilities.limits.max_output_tokens", "max_tokens",
)  # fmt: skip

Signs = tuple[tuple[str, str], ...]
"""Path and word: the value is or contains the word. Without a word: the value is true."""

IMAGE_SIGNS: Signs = (
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
TOOL_SIGNS: Signs = (
    ("supported_parameters", "tools"),
    ("tags", "tool-use"),
    ("capabilities", "tools"),
    ("capabilities", "tool_use"),
    ("capabilities.function_calling", ""),
    ("capabilities.supports.tool_calls", ""),
    ("providers.supports_tools", ""),
    ("supports_tools", ""),
)
REASONING_SIGNS: Signs = (
    ("supported_parameters", "reasoning"),
    ("tags", "reasoning"),
    ("capabilities", "thinking"),
    ("capabilities.thinking", ""),
    ("capabilities.reasoning", ""),
    ("capabilities.supports.reasoning_effort", ""),
    ("supports_reasoning", ""),
)
KIND_PATHS = ("type", "capabilities.type", "model_type")
OTHER_KINDS = (
    "embedding", "embeddings", "image", "video", "audio", "speech", "transcription",
    "transcribe", "rerank", "reranking", "moderation", "completion",
)  # fmt: skip
CHAT_SIGNS: Signs = (
    ("architecture.output_modalities", "text"),
    ("output_modalities", "text"),
    ("supportedGenerationMethods", "generateContent"),
    ("capabilities.completion_chat", ""),
)
AVAILABILITY_FLAGS = ("model_picker_enabled", "active")
"""When one of these is false, the endpoint does not offer the model."""
DEPRECATION_DATES = ("deprecation", "deprecation_date", "expiration_date", "retirement_date")

TOOL_USERS_ONLY = frozenset({"ai-gateway"})
"""Endpoints that list many unusable models: only language models with tools are kept."""

_PRICE_NAMES = (
    ("prompt", "input"),
    ("completion", "output"),
    ("input_cache_read", "input_cache_reads", "cache_read", "cached_input"),
    ("input_cache_write", "input_cache_writes", "cache_write"),
)
_CENTS = 10_000  #: xAI states whole cents for a hundred million tokens.


def parse_models(document: Any, *, provider: str, date: str) -> tuple[ModelFacts, ...]:
    """Return every listed model once. Invalid rows are skipped."""
    found: dict[str, ModelFacts] = {}
    if isinstance(document, Mapping):
        document = next((rows for name in LIST_NAMES if _is_list(rows := document.get(name))), ())
    for row in document if _is_list(document) else ():
        if not isinstance(row, Mapping):
            continue
        facts = parse_model(row, date=date)
        if facts is not None and (
            provider not in TOOL_USERS_ONLY or (facts.language is True and facts.tools is True)
        ):
            found.setdefault(facts.id, facts)
    return tuple(found.values())


def parse_model(row: Mapping[str, Any], *, date: str) -> ModelFacts | None:
    """Parse one row; None when it has no name or is not offered."""
    model = _text(row, ID_NAMES)
    if not model or any(row.get(name) is False for name in AVAILABILITY_FLAGS):
        return None
    model = model.removeprefix("models/")
    aliases = row.get("aliases")
    label = _text(row, LABEL_NAMES).removeprefix("models/")
    kinds = {kind for path in KIND_PATHS for kind in _values(row, path) if isinstance(kind, str)}
    is_other = any(kind.lower() in OTHER_KINDS for kind in kinds) or not family_of(model).language
    chat = _supports(row, CHAT_SIGNS)
    return ModelFacts(
        id=model,
        aliases=tuple(a for a in aliases if isinstance(a, str)) if _is_list(aliases) else (),
        label=label if label not in ("", model) else None,
        context_length=_count(row, CONTEXT_PATHS),
        max_output=_count(row, OUTPUT_PATHS),
        price=_price(model, row, date),
        images=_supports(row, IMAGE_SIGNS),
        tools=_supports(row, TOOL_SIGNS),
        reasoning=_supports(row, REASONING_SIGNS),
        language=False if is_other else True if {"language", "chat"} & kinds else chat,
        deprecated=True if any(row.get(name) for name in DEPRECATION_DATES) else None,
    )


def next_page(document: Any) -> str:
    """Return the cursor of the next page, or an empty string."""
    if isinstance(document, Mapping) and document.get("has_more") is True:
        last = document.get("last_id")
        return last if isinstance(last, str) else ""
    return ""


def _text(row: Mapping[str, Any], names: Sequence[str]) -> str:
    texts = (row.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str) and text), "")


def _values(row: Any, path: str) -> list[Any]:
    """Return all values at `path`."""
    found = [row]
    for name in path.split("."):
        held = [one.get(name) for one in found if isinstance(one, Mapping)]
        found = [one for value in held for one in (value if _is_list(value) else [value])]
    return [value for value in found if value is not None]


def _count(row: Mapping[str, Any], paths: Sequence[str]) -> int | None:
    """Return the first token count; the largest one when several hosts state one."""
    for path in paths:
        counts = [v for v in _values(row, path) if isinstance(v, int | float) and v > 0]
        if counts and not isinstance(counts[0], bool):
            return int(max(counts))
    return None


def _supports(row: Mapping[str, Any], signs: Signs) -> bool | None:
    """Return whether any sign is present; None when none of the fields is."""
    answers = [answer for path, word in signs for answer in _sign_values(row, path, word)]
    return any(answers) if answers else None


def _sign_values(row: Mapping[str, Any], path: str, word: str) -> Iterator[bool]:
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


def _price(model: str, row: Mapping[str, Any], date: str) -> Price | None:
    """Return the price. Strings are dollars per token, numbers per million tokens.

    Of several hosts the highest price counts.
    """
    prices = [
        price
        for holder in (*_values(row, "pricing"), *_values(row, "providers.pricing"))
        if isinstance(holder, Mapping)
        and (price := _parse_pricing(model, holder, date)) is not None
    ]
    if not prices and "prompt_text_token_price" in row:
        prices = _cent_prices(model, row, date)
    return max(prices, key=lambda price: price.input + price.output) if prices else None


def _parse_pricing(model: str, pricing: Mapping[str, Any], date: str) -> Price | None:
    input_price, output_price, cache_read, cache_write = (
        _dollars(pricing, names) for names in _PRICE_NAMES
    )
    if input_price is None or output_price is None:
        return None
    return complete_price(model, input_price, output_price, cache_read, cache_write, date)


def _cent_prices(model: str, row: Mapping[str, Any], date: str) -> list[Price]:
    names = ("prompt_text_token_price", "completion_text_token_price")
    cents = [row.get(name) for name in (*names, "cached_prompt_text_token_price")]
    input_price, output_price, cache_read = (
        v / _CENTS if isinstance(v, int) else None for v in cents
    )
    if input_price is None or output_price is None:
        return []
    return [complete_price(model, input_price, output_price, cache_read, None, date)]


def _dollars(pricing: Mapping[str, Any], names: Sequence[str]) -> float | None:
    """Return dollars per million tokens. A negative price means that it varies."""
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


# Fetching.

MAX_RESPONSE_BYTES = 32 * 1024 * 1024  #: Limit of one response.
MAX_PAGES = 20
PAGE_SIZE = 1000
TOTAL_SECONDS = 300.0  #: Longest duration of one request.
MAX_DETAIL_REQUESTS = 100  #: Ollama models whose details are requested one by one.

_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def fetch_models(
    endpoint: Endpoint,
    base_url: str,
    credential: Credential | None,
    client: AnyClient,
    *,
    date: str,
    region: str = "",
) -> tuple[ModelFacts, ...]:
    """Return the models the endpoint lists. Raises a `ProviderError`."""
    listing = _ListingClient(endpoint, base_url, credential, client, region)
    models: dict[str, ModelFacts] = {}
    async for page in _pages(listing):
        for facts in parse_models(page, provider=endpoint.id, date=date):
            models.setdefault(facts.id, facts)
    found = tuple(models.values())
    if endpoint.id != "ollama":
        return found
    loaded = await _ollama_contexts(listing)
    details = [
        await _ollama_facts(listing, facts, loaded, date) for facts in found[:MAX_DETAIL_REQUESTS]
    ]
    return (*details, *found[MAX_DETAIL_REQUESTS:])


class _ListingClient:
    """Requests to one endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        base_url: str,
        credential: Credential | None,
        client: AnyClient,
        region: str,
    ) -> None:
        self.endpoint, self._client = endpoint, client
        # The key may be sent to the provider's own hosts, or to a custom endpoint.
        is_custom = endpoint.id.partition(":")[0] == "custom"
        if credential is not None and not (
            is_custom
            or credential.id == "given"
            or may_receive_key(endpoint, credential.base_url or base_url)
        ):
            credential = None
        self._credential = credential
        base = (credential.base_url if credential else "") or base_url
        self._base = base.rstrip("/")
        self._target = Target(
            provider=endpoint.id,
            model="",
            base_url=self._base,
            api_mode=endpoint.api_mode,
            auth=endpoint.auth,
            headers=endpoint.headers,
            region=region,
        )

    @property
    def is_anthropic(self) -> bool:
        return self.endpoint.api_mode == "anthropic_messages"

    def url(self, path: str) -> str:
        """Return `path` under the base URL; `..` goes up."""
        if self.is_anthropic and not self._base.endswith("/v1"):
            path = f"/v1{path}"
        bare, _, query = path.partition("?")
        url = urlsplit(join_url(self._base, bare))
        plain = url._replace(path=posixpath.normpath(url.path)).geturl()
        return f"{plain}{'&' if '?' in plain else '?'}{query}" if query else plain

    async def get(self, url: str, body: Any = None) -> Any:
        """Return the decoded response; with a body the request is a POST."""
        content = b"" if body is None else msgspec.json.encode(body)
        method = "GET" if body is None else "POST"
        own = AnthropicDialect.headers if self.is_anthropic else {}
        headers = request_headers(self._target, self._credential, own, stream=False)
        if self._target.auth == "aws":
            region = self._target.region
            headers = sign_request(
                method, url, headers, content, region=region, credential=self._credential
            )
        try:
            response = await fetch(
                self._client,
                method,
                url,
                content=content or None,
                headers=headers,
                seconds=TOTAL_SECONDS,
                max_bytes=MAX_RESPONSE_BYTES,
            )
        except HttpError as error:
            if error.kind == "too_large":
                text = f"the list of models of {self.endpoint.id} is too long"
                raise ReplyInvalid(text, provider=self.endpoint.id) from error
            raise unreachable(self.endpoint.id, url, error) from error
        if response.status >= 300:
            secret = self._credential.secret if self._credential else ""
            raise refused(
                self.endpoint.id, response.status, response.headers, response.body, secret=secret
            )
        try:
            return response.json()
        except HttpError as error:
            raise ReplyInvalid(
                f"{self.endpoint.id} sent something that is not a list of models",
                provider=self.endpoint.id,
                hint=f"is {self._base} the right address?",
            ) from error


async def _pages(listing: _ListingClient) -> AsyncIterator[Any]:
    path = listing.endpoint.models_path
    first = listing.url(f"{path}?limit={PAGE_SIZE}" if listing.is_anthropic else path)
    url, cursor = first, ""
    for _ in range(MAX_PAGES):
        page = await listing.get(url)
        yield page
        after = next_page(page)
        if not after or after == cursor:
            return
        cursor = after
        url = f"{first}&after_id={cursor}"


async def _ollama_contexts(listing: _ListingClient) -> dict[str, int]:
    """Return the context windows of the models that Ollama runs now."""
    try:
        running = await listing.get(listing.url("/../api/ps"))
    except ProviderError:
        return {}  # an older server, or one that only resembles Ollama
    rows = running.get("models") if isinstance(running, dict) else None
    return {
        row["model"]: row["context_length"]
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
        and isinstance(row.get("model"), str)
        and isinstance(row.get("context_length"), int)
    }


async def _ollama_facts(
    listing: _ListingClient, facts: ModelFacts, loaded: dict[str, int], date: str
) -> ModelFacts:
    """Request the details of a model; Ollama lists names only.

    The context window of the running model takes precedence, then the configured one, then the
    model's maximum.
    """
    try:
        details = await listing.get(listing.url("/../api/show"), {"model": facts.id})
    except ProviderError:
        return facts
    if not isinstance(details, dict):
        return facts
    known = details.get("model_info")
    maximum = [
        size
        for name, size in (known.items() if isinstance(known, dict) else ())
        if name.endswith(".context_length") and isinstance(size, int)
    ]
    configured = _NUM_CTX.search(str(details.get("parameters") or ""))
    sizes = [loaded.get(facts.id), int(configured[1]) if configured else None, *maximum]
    context = next((size for size in sizes if size), None)
    row = {"id": facts.id, "capabilities": details.get("capabilities"), "context_length": context}
    return parse_model(row, date=date) or facts
