"""web_extract: pages as text, behind the guard against private addresses."""

from functools import partial
from pathlib import Path

from hermes.core.errors import ConfigError
from hermes.core.tool import Tool
from hermes.security.url_blocklist import Blocklist
from hermes.security.urls import UrlGuard, allowed_places
from hermes.tools.bench import Bench
from hermes.tools.builtin.web_search import search_options
from hermes.tools.registry import ToolEntry
from hermes.tools.web.extract import web_extract_tool
from hermes.tools.web.fetch import Fetcher
from hermes.tools.web.firecrawl import firecrawl_scrape


def url_guard(bench: Bench) -> UrlGuard:
    settings = bench.settings.security
    blocked = settings.website_blocklist
    files = [Path(name).expanduser() for name in blocked.shared_files]
    try:
        allowed = allowed_places(settings.allow_private_urls)
    except ValueError as error:
        raise ConfigError(f"security.allow_private_urls: {error}") from error
    return UrlGuard(
        blocklist=Blocklist(blocked.domains, files) if blocked.enabled else None, allowed=allowed
    )


def make(bench: Bench) -> Tool:
    find_scrape = partial(firecrawl_scrape, search_options(bench))
    return web_extract_tool(Fetcher(url_guard(bench)), bench.auxiliary, find_scrape)


ENTRY = ToolEntry("web_extract", "web", make, emoji="📄")
