"""Servers over streamable HTTP, good ones and others."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hermes.config.settings import McpServer
from hermes.core.errors import ToolError
from hermes.mcp import McpLimits
from tests.integration.mcp.stage import ManualClock, Stage
from tests.integration.mcp.web import INITIALIZED, Reply, Request, Site, answering, result


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


def at(site: Site, **fields: object) -> McpServer:
    return McpServer(url=site.url, **fields)  # type: ignore[arg-type]


async def test_a_tool_over_http_answers(stage: Stage, site: Site) -> None:
    hub = stage.hub(at(site, headers={"X-Api-Key": "k"}))
    assert await stage.act(hub, "x") == "done"
    probe, greeting, *others = site.seen("POST")
    assert probe.message["method"] == "server/discover"
    assert greeting.headers["accept"] == "application/json, text/event-stream"
    assert "mcp-session-id" not in greeting.headers
    assert "mcp-protocol-version" not in greeting.headers
    assert all(each.headers["mcp-session-id"] == "session-1" for each in others)
    assert all(each.headers["mcp-protocol-version"] == "2025-11-25" for each in others)
    assert all(each.headers["x-api-key"] == "k" for each in site.requests)
    assert hub.status()[0].transport == "http"


async def test_the_session_is_ended_politely(stage: Stage, site: Site) -> None:
    hub = stage.hub(at(site))
    await stage.act(hub, "x")
    await hub.close()
    (goodbye,) = site.seen("DELETE")
    assert goodbye.headers["mcp-session-id"] == "session-1"


async def test_an_answer_may_be_a_stream_with_progress_and_questions(stage, site):
    async def act(request: Request, reply: Reply) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        await reply.begin_events()
        await reply.event(": a comment", data="")
        await reply.event(
            {
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1, "message": "half"},
            }
        )
        roots = await site.ask(reply, "roots/list", {})
        await reply.event(result(request, f"{roots}"))

    site.act = act
    assert await stage.act(stage.hub(at(site)), "x") == "{'roots': []}"
    assert stage.shown == ["half\n"]


async def test_a_broken_stream_is_taken_up_where_it_broke(stage: Stage, site: Site) -> None:
    waiting: list[Request] = []

    async def act(request: Request, reply: Reply) -> None:
        waiting.append(request)
        await reply.begin_events()
        await reply.event(id="7", retry=10, data="")

    async def get(request: Request, reply: Reply) -> None:
        place = request.headers.get("last-event-id")
        if place is None:
            await reply.status(405)
            return
        await reply.begin_events()
        if place == "7":
            await reply.event(id="8", data="")
        else:
            await reply.event(result(waiting[0], f"after {place}"))

    site.act, site.handlers["GET"] = act, get
    assert await stage.act(stage.hub(at(site)), "x") == "after 8"
    assert len(waiting) == 1


async def test_a_stream_that_breaks_for_good_is_an_error_and_nothing_is_asked_twice(stage, site):
    async def act(_request: Request, reply: Reply) -> None:
        await reply.begin_events()

    site.act = act
    hub = stage.hub(at(site))
    with pytest.raises(ToolError, match="the connection to srv ended before the answer came"):
        await stage.act(hub, "x")
    assert len(site.seen("tools/call")) == 1


async def test_a_forgotten_session_is_begun_anew_and_the_call_made_again(stage, site):
    hub = stage.hub(at(site))
    await stage.act(hub, "x")

    async def forgotten(request: Request, reply: Reply) -> None:
        known = request.headers.get("mcp-session-id") in (None, "session-2")
        await (site.post(request, reply) if known else reply.status(404))

    site.session, site.handlers["POST"] = "session-2", forgotten
    assert await stage.act(hub, "x") == "done"
    assert len(site.seen("initialize")) == 2
    assert site.seen("tools/call")[-1].headers["mcp-session-id"] == "session-2"


async def test_server_stream_is_read_and_resumed(stage: Stage, site: Site) -> None:
    places: list[str | None] = []

    async def get(request: Request, reply: Reply) -> None:
        places.append(request.headers.get("last-event-id"))
        await reply.begin_events()
        if len(places) == 1:
            await reply.event({"method": "notifications/tools/list_changed"}, id="5", retry=10)
        else:
            await asyncio.sleep(60)

    site.handlers["GET"] = get
    hub = stage.hub(at(site))
    await hub.tools()
    await site.until(lambda: len(site.seen("tools/list")) == 2 and len(places) > 1)
    assert places[:2] == [None, "5"]


async def test_stopping_a_call_tells_the_server(stage: Stage, site: Site) -> None:
    async def act(_request: Request, reply: Reply) -> None:
        await reply.begin_events()
        await asyncio.sleep(60)

    site.act = act
    hub = stage.hub(at(site, timeout=0.2))
    with pytest.raises(ToolError, match="did not answer within"):
        await stage.act(hub, "x")
    await site.until(lambda: bool(site.seen("notifications/cancelled")))
    reported = site.seen("notifications/cancelled")[0].message
    assert reported["params"]["requestId"] == site.seen("tools/call")[0].message["id"]


async def test_an_endless_answer_is_cut_off(stage: Stage, site: Site) -> None:
    limits = McpLimits(message_bytes=200_000, messages=1_000, messages_per_second=1)
    long = "x" * 300_000

    async def huge(request: Request, reply: Reply) -> None:
        await reply.json(result(request, long))

    async def event(request: Request, reply: Reply) -> None:
        await reply.begin_events()
        await reply.event(result(request, long))

    async def endless(_request: Request, reply: Reply) -> None:
        await reply.begin_events()
        while True:
            await reply.event(data="la la la")

    for site.act, words in (
        (huge, r"srv sent more than 200\.0 kB in one message"),
        (event, "exceeded the 200000 byte limit"),
        (endless, "sends messages without an end and was stopped"),
    ):
        with pytest.raises(ToolError, match=words):
            await stage.act(stage.hub(at(site), {"limits": limits}), "x")


async def test_credentials_never_follow_a_redirect_to_another_host(stage, site):
    async with Site() as other:
        site.handlers["POST"] = answering(307, Location=other.url)
        hub = stage.hub(at(site, headers={"Authorization": "Bearer secret"}))
        assert await hub.tools() == []
        assert other.requests == []
    assert (
        f"srv redirects to http://127.0.0.1:{other.port}, which is not followed" in stage.notices[0]
    )


async def test_a_redirect_on_the_same_host_is_followed(stage: Stage, site: Site) -> None:
    async def moved(request: Request, reply: Reply) -> None:
        if request.path == "/mcp":
            await reply.status(308, Location="/mcp/")
        else:
            await site.post(request, reply)

    site.handlers["POST"] = moved
    assert await stage.act(stage.hub(at(site, headers={"X-Key": "k"})), "x") == "done"
    assert all(each.headers["x-key"] == "k" for each in site.requests)


class Pass:
    """An authorizer with one token, which it can renew once."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.refusals: list[tuple[int, str]] = []

    async def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    async def refused(self, response_status: int, www_authenticate: str) -> bool:
        self.refusals.append((response_status, www_authenticate))
        if len(self.tokens) == 1:
            return False
        del self.tokens[0]
        return True


async def guarded(site: Site, request: Request, reply: Reply) -> None:
    if request.headers.get("authorization") == "Bearer new":
        await site.post(request, reply)
    else:
        await reply.status(401, WWW_Authenticate='Bearer resource_metadata="x"')


async def test_refused_credentials_are_renewed_and_the_request_made_again(stage, site):
    site.handlers["POST"] = lambda request, reply: guarded(site, request, reply)
    door = Pass("old", "new")
    hub = stage.hub(at(site, auth="oauth"), authorizers=lambda _name, _settings: door)
    assert await stage.act(hub, "x") == "done"
    assert door.refusals == [(401, 'Bearer resource_metadata="x"')]


async def test_credentials_that_cannot_be_renewed_say_what_to_do(stage: Stage, site: Site) -> None:
    site.handlers["POST"] = lambda request, reply: guarded(site, request, reply)
    hub = stage.hub(at(site, auth="oauth"), authorizers=lambda _name, _settings: Pass("old"))
    assert await hub.tools() == []
    (text,) = stage.notices
    assert "srv does not let us in (HTTP 401) (`hermes mcp login srv` signs in again)" in text


async def test_unreachable_server_is_retried_and_then_reported(stage: Stage, site: Site) -> None:
    tries = 0

    async def starting(request: Request, reply: Reply) -> None:
        nonlocal tries
        tries += 1
        await (reply.status(503, "starting") if tries < 3 else site.post(request, reply))

    site.handlers["POST"], stage.clock = starting, ManualClock()
    assert await stage.act(stage.hub(at(site)), "x") == "done"
    gone = McpServer(url="http://127.0.0.1:1/mcp")
    assert await stage.hub({"gone": gone}).tools() == []
    assert "gone (127.0.0.1) cannot be reached" in stage.notices[0]


async def test_an_error_page_is_not_shown_as_html_and_its_secrets_not_at_all(stage, site):
    site.act = answering(400, '{"error": {"message": "bad token=abc123"}}')
    with pytest.raises(ToolError, match=r"srv answered with HTTP 400: bad token=…\[redacted\]"):
        await stage.act(stage.hub(at(site, transport="http")), "x")


async def test_answer_to_another_request_is_ignored(stage: Stage, site: Site) -> None:
    async def act(_request: Request, reply: Reply) -> None:
        await reply.json({"id": 424242, "result": {}})

    site.act = act
    with pytest.raises(ToolError, match="srv took the request but did not answer it"):
        await stage.act(stage.hub(at(site)), "x")


async def old_get(site: Site, reply: Reply, endpoint: str = "/post") -> None:
    await reply.begin_events()
    await reply.event(event="endpoint", data=endpoint)
    while True:
        await asyncio.sleep(0.01)
        while site.requests and (request := next_post(site)):
            number = request.message.get("id")
            answers = {
                "initialize": {**INITIALIZED, "protocolVersion": "2024-11-05"},
                "tools/list": {"tools": [{"name": "act"}]},
                "tools/call": {"content": [{"type": "text", "text": "old but fine"}]},
            }
            method = request.message.get("method")
            if method in answers:
                await reply.event({"id": number, "result": answers[method]})


async def old_post(request: Request, reply: Reply) -> None:
    await reply.status(202 if request.path == "/post?s=1" else 405)


def next_post(site: Site) -> Request | None:
    for request in site.requests:
        if (
            request.method == "POST"
            and request.path == "/post?s=1"
            and "taken" not in request.headers
        ):
            request.headers["taken"] = "yes"
            return request
    return None


@pytest.mark.parametrize("transport", ["", "sse"])
async def test_a_server_of_the_old_kind_is_understood(stage, site, transport):
    site.handlers["POST"] = old_post
    site.handlers["GET"] = lambda _request, reply: old_get(site, reply, "/post?s=1")
    hub = stage.hub(at(site, transport=transport, headers={"X-Key": "k"}))
    assert await stage.act(hub, "x") == "old but fine"
    assert hub.status()[0].transport == "sse"
    assert all(each.headers["x-key"] == "k" for each in site.requests)


async def test_legacy_endpoint_on_another_host_is_refused(stage: Stage, site: Site) -> None:
    async with Site() as other:
        site.handlers["GET"] = lambda _request, reply: old_get(site, reply, other.url)
        assert await stage.hub(at(site, transport="sse")).tools() == []
        assert other.requests == []
    assert "srv wants its messages sent to another host" in stage.notices[0]


@pytest.mark.parametrize("greets", [True, False])
async def test_error_of_the_older_transport_is_reported(stage, site, greets):
    async def get(_request: Request, reply: Reply) -> None:
        await reply.begin_events()
        await reply.event(event="endpoint", data="/post?s=1" if greets else "http://127.0.0.2/x")
        await site.until(lambda: next_post(site) is not None)
        await reply.event({"id": 1, "error": {"code": 1, "message": "no licence"}})

    site.handlers |= {"POST": old_post, "GET": get}
    assert await stage.hub(at(site)).tools() == []
    why = "srv: no licence" if greets else "srv wants its messages sent to another host, 127.0.0.2"
    assert f"The MCP server srv cannot be used: {why}" in stage.notices[0]


async def test_refused_request_is_reported_despite_an_open_stream(stage: Stage, site: Site) -> None:
    async def get(_request: Request, reply: Reply) -> None:
        await reply.begin_events()
        await asyncio.sleep(30)

    refuse = answering(400, '{"error": {"message": "which tenant?"}}')
    site.handlers |= {"POST": refuse, "GET": get}
    assert await stage.hub(at(site, connect_timeout=0.5)).tools() == []
    assert "srv answered with HTTP 400: which tenant?" in stage.notices[0]


async def test_an_old_server_that_ends_in_a_call_is_an_error(stage: Stage, site: Site) -> None:
    ended = asyncio.Event()

    async def get(_request: Request, reply: Reply) -> None:
        serving = asyncio.ensure_future(old_get(site, reply, "/post?s=1"))
        await ended.wait()
        serving.cancel()

    async def post(request: Request, reply: Reply) -> None:
        if request.message.get("method") == "tools/call":
            request.headers["taken"] = "yes"
            ended.set()
        await reply.status(202)

    site.handlers |= {"GET": get, "POST": post}
    with pytest.raises(ToolError, match="srv ended the connection"):
        await stage.act(stage.hub(at(site, transport="sse")), "x")


async def test_page_that_is_not_a_server_is_reported(stage: Stage, site: Site) -> None:
    site.handlers |= dict.fromkeys(("GET", "POST"), answering(404, "<html>Not here</html>"))
    assert await stage.hub(at(site)).tools() == []
    assert stage.notices == ["The MCP server srv cannot be used: srv answered with HTTP 404"]


async def test_a_session_name_that_cannot_be_sent_back_is_an_error(stage, site):
    site.session = "\xe9\xff"
    assert await stage.hub(at(site)).tools() == []
    assert "srv gave the session a name that cannot be sent back" in stage.notices[0]


async def test_a_place_in_a_stream_that_cannot_be_sent_back_is_not_kept(stage, site):
    async def act(_request: Request, reply: Reply) -> None:
        await reply.begin_events()
        await reply.event(id="\xe9", data="{}")

    site.act = act
    with pytest.raises(ToolError, match="ended before the answer came"):
        await stage.act(stage.hub(at(site)), "x")


async def test_a_header_that_cannot_be_sent_is_named(stage: Stage, site: Site) -> None:
    assert await stage.hub(at(site, headers={"X-Key": "caf\xe9"})).tools() == []
    assert "the header 'X-Key' of srv cannot be sent" in stage.notices[0]
    assert "caf" not in stage.notices[0]


async def test_a_variable_without_a_value_is_named_and_not_sent(stage: Stage, site: Site) -> None:
    headers = {"Authorization": "Bearer ${NO_SUCH_TOKEN}"}
    assert await stage.hub(at(site, headers=headers)).tools() == []
    assert "a variable that is not set: NO_SUCH_TOKEN (write NO_SUCH_TOKEN=…" in stage.notices[0]
    assert site.requests == []


async def test_a_complaint_without_a_bottom_is_a_complaint(stage: Stage, site: Site) -> None:
    site.act = answering(400, '{"x": ' + "[" * 1_990)
    with pytest.raises(ToolError, match="srv answered with HTTP 400"):
        await stage.act(stage.hub(at(site)), "x")


async def test_a_web_page_in_place_of_a_server_says_what_to_check(stage: Stage, site: Site) -> None:
    site.handlers["POST"] = answering(200, "<html>hello</html>", Content_Type="text/html")
    assert await stage.hub(at(site)).tools() == []
    assert "(check that `url` is the address of an MCP server)" in stage.notices[0]
