"""web_search: pages about something."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from hermes.core.errors import ToolArgumentsInvalid, ToolError
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.tools.web.asking import Connect, ask, service_client
from hermes.tools.web.ddgs_search import MISSING, NAME, Search, ddgs_rows, installed, library_search
from hermes.tools.web.fence import fenced
from hermes.tools.web.services import BY_NAME, SERVICES, SHOWN, SearchOptions, Service
from hermes.util.text import clean

AUTO = "auto"
LONGEST_QUERY = 1_000
LONGEST_TITLE = 200
LONGEST_SNIPPET = 400

_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,100}>")


class Result(msgspec.Struct, frozen=True):
    title: str
    url: str
    snippet: str


def chosen(options: SearchOptions) -> Service | None:
    """The service to ask; None is ddgs. Raises `ToolError` when `web.backend` names none that can
    be used."""
    name = _wished(options)
    if name == AUTO:
        return next((service for service in SERVICES if service.configured(options)), None)
    if name == NAME:
        return None
    service = BY_NAME.get(name)
    if service is None:
        known = ", ".join((AUTO, *BY_NAME, NAME))
        raise ToolError(f"web.backend is {name!r}; it can be {known}")
    if not service.configured(options):
        needed = " or ".join(filter(None, (service.variable, service.url_variable)))
        raise ToolError(f"{name} is not configured: set {needed}")
    return service


def web_search_available(options: SearchOptions) -> str:
    """Why there can be no search; empty when there can."""
    if _wished(options) in (AUTO, NAME) and installed():
        return ""  # whichever keys there are
    try:
        service = chosen(options)
    except ToolError as error:
        return str(error)
    return "" if service else f"no search service has a key, and {MISSING}"


def _wished(options: SearchOptions) -> str:
    return options.backend.strip().lower() or AUTO


def web_search_tool(
    options: SearchOptions, connect: Connect = service_client, search: Search = library_search
) -> Tool:
    """`connect` makes the HTTP client for a service; `search` is the library without a key."""

    async def web_search(call: ToolContext, query: str) -> str:
        """Search the web: up to 5 results with title, URL, snippet. web_extract reads them."""
        query = " ".join(clean(query).split())
        if not 0 < len(query) <= LONGEST_QUERY:
            raise ToolArgumentsInvalid(f"query must have 1 to {LONGEST_QUERY} characters")
        service = chosen(options)
        if service is None:
            rows = await call.cancel.guard(ddgs_rows(query, options.seconds, search))
        else:
            body = service.ask(query, options)
            answer = await call.cancel.guard(ask(service, options, connect, service.path, body))
            rows = _rows(answer, service)
        found = list(_results(rows))[:SHOWN]
        if not found:
            return f"nothing was found for {query!r}; try other words"
        text = "\n\n".join(_shown(number, result) for number, result in enumerate(found, 1))
        return fenced(text, f"results of {service.name if service else NAME}")

    return Tool.from_function(web_search, effect=Effect.NETWORK, toolset="web")


def _rows(answer: Any, service: Service) -> list[dict[str, Any]]:
    """The results of an answer, with their text under `snippet`."""
    for step in service.rows:
        answer = answer.get(step) if isinstance(answer, dict) else None
    rows = answer if isinstance(answer, list) else []
    return [{**row, "snippet": row.get(service.snippet)} for row in rows if isinstance(row, dict)]


def _results(rows: list[dict[str, Any]]) -> Iterator[Result]:
    for row in rows:
        url = _line(row.get("url"), 2_000)
        if url.startswith(("http://", "https://")):
            title = _line(row.get("title"), LONGEST_TITLE)
            yield Result(title or url, url, _line(row.get("snippet"), LONGEST_SNIPPET))


def _line(value: Any, longest: int) -> str:
    """Text of a result on one line, without tags; several pieces are joined."""
    pieces = value if isinstance(value, list) else [value]
    text = " … ".join(piece for piece in pieces if isinstance(piece, str))
    text = " ".join(_TAG.sub("", clean(text)).split())
    return text if len(text) <= longest else f"{text[:longest]}…"


def _shown(number: int, result: Result) -> str:
    lines = (f"{number}. {result.title}", f"   {result.url}", f"   {result.snippet}")
    return "\n".join(line for line in lines if line.strip())
