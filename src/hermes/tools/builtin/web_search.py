"""web_search over the service the settings choose."""

from hermes.core.tool import Tool
from hermes.tools.bench import Bench
from hermes.tools.registry import ToolEntry
from hermes.tools.web.search import web_search_available, web_search_tool
from hermes.tools.web.services import SearchOptions

KEYS = {
    "firecrawl": "FIRECRAWL_API_KEY",
    "parallel": "PARALLEL_API_KEY",
    "tavily": "TAVILY_API_KEY",
    "exa": "EXA_API_KEY",
    "brave": "BRAVE_API_KEY",
}
ADDRESSES = {"firecrawl": "FIRECRAWL_API_URL", "searxng": "SEARXNG_URL"}


def search_options(bench: Bench) -> SearchOptions:
    return SearchOptions(
        backend=bench.settings.web.backend,
        keys=bench.keys(KEYS),
        urls=bench.keys(ADDRESSES),
        parallel_mode=bench.variables("PARALLEL_SEARCH_MODE") or "agentic",
    )


def make(bench: Bench) -> Tool:
    return web_search_tool(search_options(bench))


def missing(bench: Bench) -> str:
    return web_search_available(search_options(bench))


ENTRY = ToolEntry("web_search", "web", make, missing, requires_env=tuple(KEYS.values()), emoji="🌐")
