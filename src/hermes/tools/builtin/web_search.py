"""The tool `web_search`: search the web with a configured service, or with ddgs."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from hermes import __version__
from hermes.config.installation import InstallFailed, ensure_extra
from hermes.core.errors import ToolArgumentsInvalid, ToolError, ToolTimedOut
from hermes.core.tool import Effect, ToolContext
from hermes.tools.registry import ToolDeps, tool
from hermes.util.concurrency import in_thread
from hermes.util.extras import is_installed
from hermes.util.http import HttpError, fetch, is_header_value, make_client
from hermes.util.lazy import late_pattern
from hermes.util.text import clean

if TYPE_CHECKING:
    import httpx2

MAX_RESULTS = 5  #: Results of one search.


class WebSearchOptions(msgspec.Struct, frozen=True):
    """What the user has configured."""

    backend: str = "auto"
    """`web.backend`: a service, `ddgs`, or `auto` for the first one that is configured."""
    keys: Mapping[str, str] = {}
    """Keys by service: FIRECRAWL_API_KEY, PARALLEL_API_KEY, TAVILY_API_KEY, EXA_API_KEY,
    BRAVE_API_KEY."""
    urls: Mapping[str, str] = {}
    """Addresses of the user's own servers: `firecrawl` (FIRECRAWL_API_URL), `searxng`
    (SEARXNG_URL). They may be in a private network."""
    parallel_mode: str = "agentic"  #: PARALLEL_SEARCH_MODE.
    seconds: float = 30.0  #: For one search.
    install: bool = False  #: Install ddgs on its first use (`security.install_packages`).

    def __repr__(self) -> str:  # without the keys
        return f"SearchOptions({self.backend!r}, keys of {sorted(self.keys)}, {dict(self.urls)!r})"


class SearchService(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `search_services.json`."""

    name: str
    url: str  #: The address of the service; "" when the user must configure it.
    path: str
    body: dict[str, Any]
    """The JSON of a POST, or the parameters of a GET. {query}, {short} and {mode} are filled in."""
    rows: tuple[str, ...]  #: The keys that lead to the list of results.
    snippet: str  #: The field with the text of a result: a string or a list of strings.
    method: Literal["POST", "GET"] = "POST"
    key_header: str = "Authorization"
    key_form: str = "Bearer {}"
    variable: str = ""  #: The variable of its key; "" when it needs none.
    url_variable: str = ""  #: The variable with the address of the user's own server.
    max_chars: int | None = None  #: Limits of {short}.
    max_words: int | None = None

    def is_configured(self, options: WebSearchOptions) -> bool:
        return bool(options.keys.get(self.name) or options.urls.get(self.name))

    def request(self, query: str, options: WebSearchOptions) -> dict[str, Any]:
        short = " ".join(query.split()[: self.max_words])[: self.max_chars]
        mode = _PARALLEL_MODES.get(options.parallel_mode, options.parallel_mode) or "advanced"
        filled: dict[str, Any] = _fill(
            self.body, {"{query}": query, "{short}": short, "{mode}": mode}
        )
        return filled


def _fill(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _fill(each, words) for name, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, words) for each in value]
    return words.get(value, value) if isinstance(value, str) else value


_PARALLEL_MODES = {"agentic": "advanced", "one-shot": "advanced", "fast": "basic"}
"""Modes of the beta API and their successors."""

SERVICES_BY_NAME = {
    service.name: service
    for service in msgspec.json.decode(
        Path(__file__).parent.with_name("search_services.json").read_bytes(),
        type=tuple[SearchService, ...],
    )
}
"""In the order in which `auto` tries them."""
KEY_VARIABLES = {each.name: each.variable for each in SERVICES_BY_NAME.values() if each.variable}
URL_VARIABLES = {
    each.name: each.url_variable for each in SERVICES_BY_NAME.values() if each.url_variable
}

MAX_ANSWER_BYTES = 5_000_000  #: For one answer.
MAX_QUOTED_CHARS = 200  #: For the body of an error answer.

Connect: TypeAlias = "Callable[[], httpx2.AsyncClient]"  #: Makes the HTTP client for services.

_OTHER_SERVICE_HINT = "the user can choose another service with the setting web.backend"


async def request_json(
    service: SearchService,
    options: WebSearchOptions,
    connect: Connect,
    path: str,
    body: dict[str, Any],
) -> Any:
    """Return the decoded answer; raises `ToolError`, whose message never has the key."""
    key = options.keys.get(service.name, "")
    if not is_header_value(key) or " " in key:
        hint = _check_hint(service.variable or service.url_variable)
        raise ToolError(f"the key of {service.name} has odd characters in it", hint=hint)
    url = f"{(options.urls.get(service.name) or service.url).rstrip('/')}{path}"
    sent: dict[str, Any] = {"params": body} if service.method == "GET" else {"json": body}
    headers = {"Accept": "application/json", "User-Agent": f"Hermes/{__version__}"}
    if key:
        headers[service.key_header] = service.key_form.format(key)
    try:
        async with connect() as client:
            response = await fetch(
                client,
                service.method,
                url,
                headers=headers,
                seconds=options.seconds,
                max_bytes=MAX_ANSWER_BYTES,
                **sent,
            )
        if response.status >= 300:
            raise http_error(service, options, response.status, response.body)
        return response.json()
    except HttpError as error:
        raise _fetch_error(service, options, error) from error


def _fetch_error(service: SearchService, options: WebSearchOptions, error: HttpError) -> ToolError:
    name = service.name
    if error.kind == "timeout":
        return ToolTimedOut(f"{name} did not answer in time", hint=_OTHER_SERVICE_HINT)
    if error.kind == "too_large":
        return ToolError(f"the answer of {name} is too large")
    if error.kind == "not_json":
        return ToolError(f"{name} did not answer with JSON", hint=_check_hint(service.url_variable))
    words = f"{name} cannot be reached: {error.__cause__}"
    return ToolError(_mask_key(words, service, options), hint=_check_hint(service.url_variable))


def http_error(
    service: SearchService, options: WebSearchOptions, status: int, body: bytes
) -> ToolError:
    """Return an error that explains an HTTP status of a service."""
    name = service.name
    if name == "searxng" and status == 403:
        hint = "the server must list json under search.formats in its settings.yml"
        return ToolError("searxng does not answer in JSON (HTTP 403)", hint=hint)
    if status in (401, 403):
        hint = _check_hint(service.variable or service.url_variable)
        return ToolError(f"{name} refused the key (HTTP {status})", hint=hint)
    if status in (402, 432, 433):
        return ToolError(f"the plan of {name} is used up (HTTP {status})", hint=_OTHER_SERVICE_HINT)
    if status == 429:
        hint = f"wait a little; {_OTHER_SERVICE_HINT}"
        return ToolError(f"{name} gets too many searches (HTTP 429)", hint=hint)
    if status >= 500:
        return ToolError(
            f"{name} has a problem (HTTP {status}); try again later", hint=_OTHER_SERVICE_HINT
        )
    if status < 400:
        return ToolError(
            f"{name} redirects (HTTP {status})", hint=_check_hint(service.url_variable)
        )
    said = " ".join(body.decode("utf-8", "replace").split())
    words = _mask_key(f"{name} refused the search (HTTP {status}): {said}", service, options)
    return ToolError(words[:MAX_QUOTED_CHARS], hint=_OTHER_SERVICE_HINT)


def _check_hint(variable: str) -> str:
    return f"the user should check {variable}" if variable else _OTHER_SERVICE_HINT


def _mask_key(text: str, service: SearchService, options: WebSearchOptions) -> str:
    key = options.keys.get(service.name, "")
    return text.replace(key, "…") if key else text


DDGS = "ddgs"
ENGINE_SECONDS = 10  #: For one engine.
_NO_RESULTS = "no results found"

Search = Callable[[str, int], list[dict[str, Any]]]
"""Takes a query and a count; returns rows with `title`, `href` and `body`."""

DDGS_MISSING = "ddgs is not installed: hermes setup web"


def search_ddgs(query: str, count: int) -> list[dict[str, Any]]:
    """Search with the library ddgs, which needs no key and does its own networking."""
    try:
        library, errors = import_module(DDGS), import_module(f"{DDGS}.exceptions")
    except ImportError as error:
        raise ToolError(DDGS_MISSING) from error
    try:
        rows = library.DDGS(timeout=ENGINE_SECONDS).text(query, max_results=count)
    except errors.TimeoutException as error:
        raise ToolTimedOut("the search engines did not answer in time", hint=_LATER_HINT) from error
    except errors.RatelimitException as error:
        raise ToolError("the search engines get too many searches", hint=_LATER_HINT) from error
    except errors.DDGSException as error:
        if _NO_RESULTS in str(error).lower():
            return []
        raise ToolError(f"the search failed: {str(error)[:200]}", hint=_LATER_HINT) from error
    return list(rows)


async def ddgs_rows(query: str, seconds: float, search: Search) -> list[dict[str, Any]]:
    """Search with ddgs and return rows in the format of the services."""
    try:
        async with asyncio.timeout(seconds):
            rows = await in_thread(search, query, MAX_RESULTS)
    except TimeoutError as error:
        raise ToolTimedOut("the search engines did not answer in time", hint=_LATER_HINT) from error
    return [{**row, "url": row.get("href"), "snippet": row.get("body")} for row in rows]


_LATER_HINT = "wait a little; with the key of a search service it works better"


AUTO = "auto"
MAX_QUERY_CHARS = 1_000
MAX_TITLE_CHARS = 200
MAX_SNIPPET_CHARS = 400

_TAG = late_pattern(r"</?[a-zA-Z][^<>]{0,100}>")


def select_service(options: WebSearchOptions) -> SearchService | None:
    """Return the service to use, None for ddgs; raises `ToolError` for an unusable setting."""
    name = options.backend.strip().lower() or AUTO
    if name == AUTO:
        return next(
            (each for each in SERVICES_BY_NAME.values() if each.is_configured(options)), None
        )
    if name == DDGS:
        return None
    service = SERVICES_BY_NAME.get(name)
    if service is None:
        known = ", ".join((AUTO, *SERVICES_BY_NAME, DDGS))
        raise ToolError(f"web.backend is {name!r}; it can be {known}")
    if not service.is_configured(options):
        needed = " or ".join(filter(None, (service.variable, service.url_variable)))
        raise ToolError(f"{name} is not configured: set {needed}")
    return service


def search_unavailable(options: WebSearchOptions) -> str:
    """Return why no search is possible, or ""."""
    if (options.backend.strip().lower() or AUTO) in (AUTO, DDGS) and (
        options.install or is_installed(DDGS)
    ):
        return ""  # ddgs is the fallback without any key
    try:
        service = select_service(options)
    except ToolError as error:
        return str(error)
    return "" if service else f"no search service has a key, and {DDGS_MISSING}"


def _result_rows(answer: Any, service: SearchService) -> list[dict[str, Any]]:
    """Return the results of an answer, with their text under `snippet`."""
    for step in service.rows:
        answer = answer.get(step) if isinstance(answer, dict) else None
    rows = answer if isinstance(answer, list) else []
    return [{**row, "snippet": row.get(service.snippet)} for row in rows if isinstance(row, dict)]


def _format_results(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield title, address and snippet of each row that has an address."""
    for row in rows:
        url = _clean_line(row.get("url"), 2_000)
        if url.startswith(("http://", "https://")):
            title = _clean_line(row.get("title"), MAX_TITLE_CHARS) or url
            snippet = _clean_line(row.get("snippet"), MAX_SNIPPET_CHARS)
            yield f"{title}\n   {url}\n   {snippet}".rstrip()


def _clean_line(value: Any, longest: int) -> str:
    """Return the text of a field on one line, without tags; lists are joined."""
    pieces = value if isinstance(value, list) else [value]
    text = " … ".join(piece for piece in pieces if isinstance(piece, str))
    text = " ".join(_TAG.sub("", clean(text)).split())
    return text if len(text) <= longest else f"{text[:longest]}…"


async def search_web(
    call: ToolContext,
    query: str,
    options: WebSearchOptions,
    connect: Connect = make_client,
    search: Search = search_ddgs,
) -> str:
    """Return the results for the model. `connect` returns the HTTP client for services; `search`
    is ddgs."""
    query = " ".join(clean(query).split())
    if not 0 < len(query) <= MAX_QUERY_CHARS:
        raise ToolArgumentsInvalid(f"query must have 1 to {MAX_QUERY_CHARS} characters")
    service = select_service(options)
    if service is None:
        if options.install:
            try:
                await call.cancel.guard(ensure_extra("web", DDGS, call.output))
            except InstallFailed as error:
                raise ToolError(str(error), hint=error.hint) from error
        rows = await call.cancel.guard(ddgs_rows(query, options.seconds, search))
    else:
        body = service.request(query, options)
        asking = request_json(service, options, connect, service.path, body)
        rows = _result_rows(await call.cancel.guard(asking), service)
    found = list(_format_results(rows))[:MAX_RESULTS]
    if not found:
        return f"nothing was found for {query!r}; try other words"
    from hermes.tools.web_pages import fence_untrusted  # every session makes this tool, few use it

    text = "\n\n".join(f"{number}. {result}" for number, result in enumerate(found, 1))
    return fence_untrusted(text, f"results of {service.name if service else DDGS}")


def search_options(deps: ToolDeps) -> WebSearchOptions:
    return WebSearchOptions(
        backend=deps.settings.web.backend,
        keys=deps.keys(KEY_VARIABLES),
        urls=deps.keys(URL_VARIABLES),
        parallel_mode=deps.variables("PARALLEL_SEARCH_MODE") or "agentic",
        install=deps.settings.security.install_packages,
    )


@tool(
    toolset="web",
    effect=Effect.NETWORK,
    unavailable=lambda deps: search_unavailable(search_options(deps)),
    requires_env=KEY_VARIABLES.values(),
    emoji="🌐",
)
async def web_search(deps: ToolDeps, call: ToolContext, query: str) -> str:
    """Search the web: up to 5 results with title, URL and snippet. Read them with web_extract."""
    return await search_web(call, query, search_options(deps))
