"""Search services of the web, as data: how each is asked and how it answers."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

SHOWN = 5
"""Results of one search."""


class SearchOptions(msgspec.Struct, frozen=True):
    """What the user has configured."""

    backend: str = "auto"
    """`web.backend`: a service, `ddgs`, or `auto` for the first one that is configured."""
    keys: Mapping[str, str] = {}
    """Keys by service: FIRECRAWL_API_KEY, PARALLEL_API_KEY, TAVILY_API_KEY, EXA_API_KEY,
    BRAVE_API_KEY."""
    urls: Mapping[str, str] = {}
    """Addresses of the user's own servers: `firecrawl` (FIRECRAWL_API_URL), `searxng`
    (SEARXNG_URL). They may be in a private network."""
    parallel_mode: str = "agentic"
    """PARALLEL_SEARCH_MODE."""
    seconds: float = 30.0
    """For one search."""

    def __repr__(self) -> str:
        return f"SearchOptions({self.backend!r}, keys of {sorted(self.keys)}, {dict(self.urls)!r})"


class Service(msgspec.Struct, frozen=True):
    name: str
    url: str
    """Empty: the user must say where it is."""
    path: str
    ask: Callable[[str, SearchOptions], dict[str, Any]]
    """The JSON of a POST, or the parameters of a GET."""
    rows: tuple[str, ...]
    """Where in the answer the results are."""
    snippet: str
    """The field with the text of a result: one or several strings."""
    method: Literal["POST", "GET"] = "POST"
    key_header: str = "Authorization"
    key_form: str = "Bearer {}"
    variable: str = ""
    """Where its key comes from; empty when it has none."""
    url_variable: str = ""
    """Where the address of the user's own server comes from."""

    def configured(self, options: SearchOptions) -> bool:
        return bool(options.keys.get(self.name) or options.urls.get(self.name))

    def address(self, options: SearchOptions) -> str:
        return (options.urls.get(self.name) or self.url).rstrip("/")

    def headers(self, options: SearchOptions) -> dict[str, str]:
        key = options.keys.get(self.name, "")
        return {self.key_header: self.key_form.format(key)} if key else {}


_PARALLEL_MODES = {"agentic": "advanced", "one-shot": "advanced", "fast": "basic"}
"""Modes of its beta API, and what took their place."""
_PARALLEL_QUERY = 200
_BRAVE_QUERY, _BRAVE_WORDS = 400, 50


def _parallel(query: str, options: SearchOptions) -> dict[str, Any]:
    mode = _PARALLEL_MODES.get(options.parallel_mode, options.parallel_mode)
    return {
        "objective": query,
        "search_queries": [query[:_PARALLEL_QUERY]],
        "mode": mode or "advanced",
        "advanced_settings": {"max_results": SHOWN},
    }


def _brave(query: str, _options: SearchOptions) -> dict[str, Any]:
    short = " ".join(query.split()[:_BRAVE_WORDS])[:_BRAVE_QUERY]
    return {"q": short, "count": SHOWN, "text_decorations": "false"}


SERVICES: tuple[Service, ...] = (
    Service(
        "firecrawl",
        "https://api.firecrawl.dev",
        "/v2/search",
        lambda query, _: {"query": query, "limit": SHOWN},
        rows=("data", "web"),
        snippet="description",
        variable="FIRECRAWL_API_KEY",
        url_variable="FIRECRAWL_API_URL",
    ),
    Service(
        "parallel",
        "https://api.parallel.ai",
        "/v1/search",
        _parallel,
        rows=("results",),
        snippet="excerpts",
        key_header="x-api-key",
        key_form="{}",
        variable="PARALLEL_API_KEY",
    ),
    Service(
        "tavily",
        "https://api.tavily.com",
        "/search",
        lambda query, _: {"query": query, "max_results": SHOWN, "search_depth": "basic"},
        rows=("results",),
        snippet="content",
        variable="TAVILY_API_KEY",
    ),
    Service(
        "exa",
        "https://api.exa.ai",
        "/search",
        lambda query, _: {
            "query": query,
            "type": "auto",
            "numResults": SHOWN,
            "contents": {"highlights": True},
        },
        rows=("results",),
        snippet="highlights",
        key_header="x-api-key",
        key_form="{}",
        variable="EXA_API_KEY",
    ),
    Service(
        "brave",
        "https://api.search.brave.com",
        "/res/v1/web/search",
        _brave,
        rows=("web", "results"),
        snippet="description",
        method="GET",
        key_header="X-Subscription-Token",
        key_form="{}",
        variable="BRAVE_API_KEY",
    ),
    Service(
        "searxng",
        "",
        "/search",
        lambda query, _: {"q": query, "format": "json"},
        rows=("results",),
        snippet="content",
        method="GET",
        url_variable="SEARXNG_URL",
    ),
)
"""In the order `auto` takes them."""

BY_NAME = {service.name: service for service in SERVICES}
