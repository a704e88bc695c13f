"""The search without a key: the library ddgs, which asks several engines by itself."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hermes.core.errors import ToolError, ToolTimedOut
from hermes.tools.web.services import SHOWN
from hermes.util.packages import is_installed
from hermes.util.threads import in_thread

NAME = "ddgs"
ENGINE_SECONDS = 10
"""For one engine."""
_NOTHING = "no results found"

Search = Callable[[str, int], list[dict[str, Any]]]
"""Query and count → rows with `title`, `href` and `body`."""

MISSING = "ddgs is not installed: pip install 'hermes[web]'"


def installed() -> bool:
    return is_installed(NAME)


def library_search(query: str, count: int) -> list[dict[str, Any]]:
    """Asks the library. It does its own networking: a name, a proxy and TLS are its business."""
    try:
        library, errors = import_module(NAME), import_module(f"{NAME}.exceptions")
    except ImportError as error:
        raise ToolError(MISSING) from error
    try:
        rows = library.DDGS(timeout=ENGINE_SECONDS).text(query, max_results=count)
    except errors.TimeoutException as error:
        raise ToolTimedOut("the search engines did not answer in time", hint=_LATER) from error
    except errors.RatelimitException as error:
        raise ToolError("the search engines get too many searches", hint=_LATER) from error
    except errors.DDGSException as error:
        if _NOTHING in str(error).lower():
            return []
        raise ToolError(f"the search failed: {str(error)[:200]}", hint=_LATER) from error
    return list(rows)


async def ddgs_rows(query: str, seconds: float, search: Search) -> list[dict[str, Any]]:
    """Rows as the other services have them."""
    try:
        async with asyncio.timeout(seconds):
            rows = await in_thread(search, query, SHOWN)
    except TimeoutError as error:
        raise ToolTimedOut("the search engines did not answer in time", hint=_LATER) from error
    return [
        {"title": row.get("title"), "url": row.get("href"), "snippet": row.get("body")}
        for row in rows
    ]


_LATER = "wait a little; with the key of a search service it works better"
