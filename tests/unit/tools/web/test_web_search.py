"""web_search over fakes of the documented services, on real HTTP, and over the ddgs adapter.

Each fake checks method, path, headers and body as the service documents them, and answers in the
documented form. The services themselves are not asked. The engines behind ddgs cannot run without
the internet: a callable stands in for the library.
"""

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import msgspec
import pytest

from hermes import __version__
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolArgumentsInvalid, ToolError, ToolTimedOut
from hermes.core.tool import Tool, ToolContext
from hermes.tools.builtin.web_search import (
    WebSearchOptions,
    search_ddgs,
    search_unavailable,
    search_web,
)
from tests.cases import cases
from tests.unit.tools.web.conftest import Site, eventually
from tests.unit.tools.web.test_web_extract import unfenced
from tests.workspace import make_tool

CASES = cases(__file__)

KEY = "key-9f2c"


def web_search_tool(options: WebSearchOptions, *parts: Any, **more: Any) -> Tool:
    async def handler(call: ToolContext, arguments: dict[str, Any]) -> str:
        return await search_web(call, arguments["query"], options, *parts, **more)

    return msgspec.structs.replace(make_tool("web_search"), handler=handler)


class Rerouted(httpx2.AsyncHTTPTransport):
    """Sends what is meant for a service to the fake, and remembers where it was meant to go."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._port = site.port
        self.meant: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.meant.append(str(request.url))
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


@pytest.fixture
def rerouted(site):
    return Rerouted(site)


def connect(transport: Rerouted) -> Callable[[], httpx2.AsyncClient]:
    return lambda: httpx2.AsyncClient(transport=transport, trust_env=False)


def row(**fields: Any) -> dict[str, Any]:
    return {"title": "A title", "url": "https://a.example/x", **fields}


FAKES = CASES["services"]


def configured(name: str, **fields: Any) -> WebSearchOptions:
    if name == "searxng":
        return WebSearchOptions(urls={name: "http://search.lan:8080/"}, **fields)
    return WebSearchOptions(keys={name: KEY}, **fields)


def path_of(name: str) -> str:
    return httpx2.URL(FAKES[name]["url"]).raw_path.decode()


@pytest.mark.parametrize("name", FAKES)
async def test_each_service_gets_its_documented_request(name, site, rerouted, use):
    fake = FAKES[name]
    answer = fake["answer"].replace("ROW", '"title": "A title", "url": "https://a.example/x"')
    site.page(path_of(name), answer.encode(), content_type="application/json")
    tool = web_search_tool(configured(name), connect(rerouted))
    about, text = unfenced(await use(tool, query="salt water"))
    assert about == f"results of {name}"
    assert text == f"1. A title\n   https://a.example/x\n   {fake.get('snippet', 'A text')}"
    assert rerouted.meant == [fake["url"]]
    [request] = site.requests
    assert request.method == ("POST" if "body" in fake else "GET")
    assert request.body == fake.get("body")
    assert request.headers["user-agent"] == f"Hermes/{__version__}"
    assert request.headers["accept"] == "application/json"
    if "body" in fake:
        assert request.headers["content-type"] == "application/json"
    if "key" in fake:
        assert request.headers[fake["key"][0]] == fake["key"][1]
    assert list(request.headers.values()).count(KEY) <= 1


@pytest.mark.parametrize(("mode", "sent"), CASES["parallel_modes_are_translated"])
async def test_parallel_modes_are_translated(site, rerouted, use, mode, sent):
    site.page("/v1/search", b'{"results": []}')
    options = configured("parallel", parallel_mode=mode)
    await use(web_search_tool(options, connect(rerouted)), query="x" * 300)
    [request] = site.requests
    assert request.body["mode"] == sent
    assert request.body["search_queries"] == ["x" * 200]


async def test_self_hosted_server_may_be_in_a_private_network(site, use):
    site.page("/sx/search?q=salt&format=json", b'{"results": []}')
    site.page("/fc/v2/search", b'{"data": {"web": []}}')
    for name, path in {"searxng": "/sx", "firecrawl": "/fc"}.items():
        tool = web_search_tool(WebSearchOptions(urls={name: site.url(path)}))
        assert "nothing was found" in await use(tool, query="salt")
    assert "authorization" not in site.requests[-1].headers


def test_auto_uses_the_first_configured_service():
    names = ["firecrawl", "parallel", "tavily", "exa", "brave"]
    for position, name in enumerate(names):
        options = WebSearchOptions(keys=dict.fromkeys(names[position:], KEY))
        assert search_unavailable(options) == ""
        assert name in _service_used(options)
    assert "searxng" in _service_used(WebSearchOptions(urls={"searxng": "http://127.0.0.1:1"}))
    both = WebSearchOptions(backend="exa", keys={"tavily": KEY, "exa": KEY})
    assert "exa" in _service_used(both)


def _service_used(options: WebSearchOptions) -> str:
    """The service whose search fails, since nothing can be reached."""

    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no way", request=request)

    client = lambda: httpx2.AsyncClient(transport=httpx2.MockTransport(refuse))  # noqa: E731
    call = ToolContext("session", "call", CancelToken(), print)

    async def search() -> str:
        try:
            return await web_search_tool(options, client).handler(call, {"query": "x"})
        except ToolError as error:
            return str(error)

    return asyncio.run(search())


@pytest.mark.parametrize(
    ("status", "message", "hint"), CASES["service_error_has_a_hint_and_never_the_key"]
)
async def test_service_error_never_shows_the_key(site, rerouted, use, status, message, hint):
    body = f'{{"detail": "bad key {KEY} in request"}}'.encode()
    site.page("/search", body, status=status, location="http://127.0.0.1:1/")
    with pytest.raises(ToolError, match=message) as refusal:
        await use(web_search_tool(configured("tavily"), connect(rerouted)), query="salt")
    assert hint in refusal.value.hint
    assert f"HTTP {status}" in str(refusal.value)
    assert KEY not in f"{refusal.value!r} {refusal.value.hint}"
    assert len(site.requests) == 1


async def test_searxng_without_json_is_explained(site, use):
    site.page("/search?q=salt&format=json", b"Forbidden", status=403)
    with pytest.raises(ToolError, match="does not answer in JSON") as refusal:
        await use(web_search_tool(WebSearchOptions(urls={"searxng": site.url("")})), query="salt")
    assert "settings.yml" in refusal.value.hint


@pytest.mark.parametrize("answer", [b"<html>", b"", b'{"results": '])
async def test_answer_that_is_not_json_is_an_error(site, rerouted, use, answer):
    site.page("/search", answer)
    with pytest.raises(ToolError, match="did not answer with JSON"):
        await use(web_search_tool(configured("tavily"), connect(rerouted)), query="salt")


@pytest.mark.parametrize(
    "answer", ["[]", "{}", '{"results": null}', '{"results": [1, {}, {"url": "javascript:x"}]}']
)
async def test_answer_without_results_says_so(site, rerouted, use, answer):
    site.page("/search", answer.encode())
    tool = web_search_tool(configured("tavily"), connect(rerouted))
    assert await use(tool, query="salt") == "nothing was found for 'salt'; try other words"


async def test_results_are_limited_and_formatted(site, rerouted, use):
    rows = [
        row(title=None, content="x\n2. fake\n" * 200, url=f"https://a.example/{n}")
        for n in range(9)
    ]
    site.page("/search", msgspec.json.encode({"results": rows}))
    tool = web_search_tool(configured("tavily"), connect(rerouted))
    _, text = unfenced(await use(tool, query="salt"))
    assert len(text.splitlines()) == 5 * 3 + 4
    assert "   https://a.example/4" in text
    assert "https://a.example/5" not in text
    assert max(map(len, text.splitlines())) < 410


async def test_slow_service_times_out(site, rerouted, use):
    site.page("/search", b"{", 60.0, chunked=True)
    options = configured("tavily", seconds=0.2)
    with pytest.raises(ToolTimedOut, match="did not answer in time"):
        await use(web_search_tool(options, connect(rerouted)), query="salt")


async def test_endless_answer_is_an_error(site, rerouted, use):
    site.page("/search", *[b" " * 1_000_000] * 20, chunked=True)
    with pytest.raises(ToolError, match="too large"):
        await use(web_search_tool(configured("tavily"), connect(rerouted)), query="salt")


async def test_cancelling_ends_a_search(site, rerouted):
    site.page("/search", b"{", 60.0, chunked=True)
    token = CancelToken()
    tool = web_search_tool(configured("tavily"), connect(rerouted))
    call = ToolContext("session", "call", token, print)
    running = asyncio.ensure_future(tool.handler(call, {"query": "salt"}))
    await eventually(lambda: bool(site.requests))
    token.cancel()
    with pytest.raises(Interrupted):
        await running


@pytest.mark.parametrize("key", ["tvly-1\n2", "schlüssel", "a b"])
async def test_key_with_odd_characters_is_not_sent_and_not_shown(site, rerouted, use, key):
    tool = web_search_tool(WebSearchOptions(keys={"tavily": key}), connect(rerouted))
    with pytest.raises(ToolError, match="odd characters") as refusal:
        await use(tool, query="salt")
    assert key not in str(refusal.value)
    assert site.requests == []


def test_options_do_not_show_their_keys():
    assert KEY not in repr(WebSearchOptions(keys={"exa": KEY}))


@pytest.mark.parametrize("query", ["", "  \n ", "x" * 1_001])
async def test_empty_query_is_an_error(use, query):
    with pytest.raises(ToolArgumentsInvalid):
        await use(web_search_tool(WebSearchOptions()), query=query)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            WebSearchOptions(backend="bing"),
            "it can be auto, firecrawl, parallel, tavily, exa, brave",
        ),
        (WebSearchOptions(backend="tavily"), "set TAVILY_API_KEY"),
        (WebSearchOptions(backend="searxng"), "set SEARXNG_URL"),
        (WebSearchOptions(backend="firecrawl"), "set FIRECRAWL_API_KEY or FIRECRAWL_API_URL"),
    ],
)
async def test_backend_that_cannot_be_used_says_what_is_missing(use, options, reason):
    assert reason in search_unavailable(options)
    with pytest.raises(ToolError, match=reason):
        await use(web_search_tool(options), query="salt")


async def test_ddgs_is_used_when_no_service_is_configured(use):
    asked = []

    def search(query, count):
        asked.append((query, count, threading.current_thread().daemon))
        return [{"title": "A title", "href": "https://a.example/x", "body": "A text"}]

    assert search_unavailable(WebSearchOptions()) == ""
    for options in (WebSearchOptions(), WebSearchOptions(backend="DDGS", keys={"exa": KEY})):
        about, text = unfenced(await use(web_search_tool(options, search=search), query="salt"))
        assert about == "results of ddgs"
        assert text == "1. A title\n   https://a.example/x\n   A text"
    assert asked == [("salt", 5, True)] * 2


async def test_hanging_ddgs_times_out(use):
    leave = threading.Event()

    def search(query, count):
        leave.wait(60)
        return []

    with pytest.raises(ToolTimedOut, match="did not answer in time"):
        await use(web_search_tool(WebSearchOptions(seconds=0.1), search=search), query="salt")
    token = CancelToken()
    tool = web_search_tool(WebSearchOptions(), search=search)
    call = ToolContext("session", "call", token, print)
    running = asyncio.ensure_future(tool.handler(call, {"query": "salt"}))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(Interrupted):
        await running
    leave.set()


class Library:
    """Stands in for `ddgs.DDGS`: raises what the real one would."""

    error: Exception | None = None

    def __init__(self, *, timeout: int) -> None:
        assert timeout > 0

    def text(self, query: str, *, max_results: int) -> list[dict[str, Any]]:
        if self.error:
            raise self.error
        return [{"title": query, "href": "https://a.example", "body": str(max_results)}]


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("DDGSException", "No results found.", None),
        ("DDGSException", "engines failed", "the search failed: engines failed"),
        ("RatelimitException", "202", "too many searches"),
        ("TimeoutException", "timed out", "did not answer in time"),
    ],
)
def test_ddgs_errors_become_tool_errors(monkeypatch, name, words, expected):
    """With the library's real exceptions; its network is replaced."""
    ddgs = importlib.import_module("ddgs")
    monkeypatch.setattr(ddgs, "DDGS", Library)
    assert search_ddgs("salt", 3)[0]["body"] == "3"
    error = getattr(importlib.import_module("ddgs.exceptions"), name)(words)
    monkeypatch.setattr(Library, "error", error)
    if expected is None:
        assert search_ddgs("salt", 3) == []
    else:
        with pytest.raises(ToolError, match=expected):
            search_ddgs("salt", 3)


def test_without_ddgs_and_without_a_key_there_is_no_search(monkeypatch):
    monkeypatch.setitem(sys.modules, "ddgs", None)
    assert "hermes setup web" in search_unavailable(WebSearchOptions())
    assert search_unavailable(WebSearchOptions(keys={"exa": KEY})) == ""
    with pytest.raises(ToolError, match="ddgs is not installed"):
        search_ddgs("salt", 5)
