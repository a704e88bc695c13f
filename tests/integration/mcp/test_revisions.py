"""Both kinds of protocol revisions: without a handshake (2026-07-28), and with one."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.config.settings import McpServer
from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, ToolError
from hermes.mcp import Caller, CatalogCache, McpOptions, RemoteTool, ServerCatalog, probe
from hermes.mcp import session as mcp_session
from tests.integration.mcp.stage import ManualClock, Stage, heard, inside, methods, program
from tests.integration.mcp.test_elicitation import Person, form
from tests.integration.mcp.test_sampling import Scripted
from tests.integration.mcp.web import Reply, Request, Site, answering

SDK_SERVER = str(Path(__file__).with_name("sdk_server.py"))


@asynccontextmanager
async def sdk_server(transport: str, log: Path, **env: str) -> AsyncIterator[McpServer]:
    """Settings of the SDK's server, which runs meanwhile if it is an HTTP server."""
    env = {"HEARD": str(log), **env}
    if transport == "stdio":
        yield McpServer(command=sys.executable, args=(SDK_SERVER,), env=env, roots=("/data",))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, SDK_SERVER, str(port), env={**os.environ, **env}
    )
    try:
        async with asyncio.timeout(30):
            while not await listens(port):
                await asyncio.sleep(0.05)
        yield McpServer(url=f"http://127.0.0.1:{port}/mcp", roots=("/data",))
    finally:
        process.kill()
        await process.wait()


async def listens(port: int) -> bool:
    try:
        _reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_sdk_server_is_used_without_a_handshake(stage: Stage, transport: str) -> None:
    log = stage.folder / "heard"
    person = Person("blue", "owls")
    async with sdk_server(transport, log) as settings:
        hub = stage.hub(settings)
        tools = await stage.tools(hub, Caller(clarifier=person))
        assert "5" in inside(await stage.run(tools["mcp_srv_add"], a=2, b=3))
        assert inside(await stage.run(tools["mcp_srv_gr__e"])) == "hi"
        assert "a note" in inside(await stage.run(tools["mcp_srv_read_resource"], uri="note://one"))
        asked = inside(await stage.run(tools["mcp_srv_ask"]))
        assert asked == "accept {'colour': 'blue'} 1 kept"
        assert inside(await stage.run(tools["mcp_srv_research"])) == "all about owls"
        await hub.close()
    assert person.done()
    assert "reading\n" in stage.shown
    assert "initialize" not in methods(log)
    assert methods(log)[0] == "server/discover"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_sdk_server_that_is_known_to_be_old_gets_the_handshake(stage, transport):
    log = stage.folder / "heard"
    parameters = {"type": "object", "properties": {}}
    tools = tuple(RemoteTool(name, "", parameters) for name in ("add", "ask"))
    async with sdk_server(transport, log) as settings:
        cache = CatalogCache(stage.folder / "cache")
        cache.save("srv", settings, ServerCatalog(tools, protocol="2025-11-25"))
        hub = stage.hub(settings)
        known = await stage.tools(hub)
        assert "5" in inside(await stage.run(known["mcp_srv_add"], a=2, b=3))
        await hub.close()
    assert "server/discover" not in methods(log)
    assert methods(log)[0] == "initialize"


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_subscription_reports_a_changed_list(stage: Stage, transport: str) -> None:
    log = stage.folder / "heard"
    async with sdk_server(transport, log, TTL="3600000") as settings:
        hub = stage.hub(settings)
        tools = await stage.tools(hub)
        async with asyncio.timeout(20):
            while "subscriptions/listen" not in methods(log):
                await asyncio.sleep(0.02)
            await stage.run(tools["mcp_srv_grow"])
            while "mcp_srv_sprout" not in await stage.tools(hub):
                await asyncio.sleep(0.02)
        await hub.close()


async def test_fresh_list_is_not_asked_for_again(stage: Stage) -> None:
    log = stage.folder / "heard"
    async with sdk_server("stdio", log, TTL="3600000") as settings:
        for _ in range(2):
            hub = stage.hub(settings)
            tools = await stage.tools(hub)
            assert "5" in inside(await stage.run(tools["mcp_srv_add"], a=2, b=3))
            await hub.close()
        assert methods(log).count("server/discover") == 2
        assert methods(log).count("tools/list") == 1
        found = await probe("srv", settings, McpOptions(cache=stage.folder / "cache"))
        assert found.server_info.protocol == "2026-07-28"
        assert (found.server_info.name, found.server_info.version) == ("both", "3.1")
        assert methods(log).count("tools/list") == 2, "an explicit request always asks"


async def test_old_server_is_probed_once(stage: Stage) -> None:
    log = stage.folder / "heard"
    settings = program(env={"HEARD": str(log)}, idle_timeout=0.1)
    hub = stage.hub(settings)
    await stage.tools(hub)
    assert methods(log)[:2] == ["server/discover", "initialize"]
    while hub.status()[0].state != "not connected":
        await asyncio.sleep(0.02)
    await stage.act(hub, "big 1")
    await stage.act(stage.hub(settings), "big 1")  # another process, with the same cache
    assert methods(log).count("server/discover") == 1
    assert methods(log).count("initialize") == 3
    await hub.reload({"srv": settings})
    assert methods(log).count("server/discover") == 2, "an explicit restart tries again"


@pytest.mark.parametrize("scene", ["touchy", "deaf"])
async def test_old_server_may_end_or_be_silent_when_probed(stage, scene, monkeypatch):
    if scene == "deaf":
        monkeypatch.setattr(mcp_session, "PROBE_SECONDS", 0.2)
    assert await stage.act(stage.hub(program(scene)), "big 1") == "y"
    assert stage.notices == []


async def test_server_that_drops_the_handshake_is_used_without_it(stage: Stage) -> None:
    async with Site() as site:
        settings = McpServer(url=site.url)
        await stage.act(stage.hub(settings), "x")
        site.handlers["POST"] = modern_site(site)
        assert await stage.act(stage.hub(settings), "x") == "done"
        assert [each.message["method"] for each in site.seen("POST")][-4:] == [
            "initialize",
            "server/discover",
            "tools/list",
            "tools/call",
        ]


def modern_site(site: Site):
    async def post(request: Request, reply: Reply) -> None:
        number = request.message["id"]
        match request.message["method"]:
            case "initialize":
                error = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}
                body = json.dumps({"jsonrpc": "2.0", "id": number, "error": error})
                await reply.status(400, body, Content_Type="application/json")
            case "server/discover":
                found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                await reply.json({"id": number, "result": found}, MCP_Session_Id="none")
            case _:
                await site.post(request, reply)

    return post


async def test_http_requests_carry_their_headers_and_no_session(stage: Stage) -> None:
    async with Site() as site:
        site.handlers["POST"] = modern_site(site)
        hub = stage.hub(McpServer(url=site.url))
        assert await stage.act(hub, "x") == "done"
        await hub.close()
        assert site.seen("GET") == site.seen("DELETE") == []
        for each in site.requests:
            assert each.headers["mcp-protocol-version"] == "2026-07-28"
            assert each.headers["mcp-method"] == each.message["method"]
            assert "mcp-session-id" not in each.headers
            meta = each.message["params"]["_meta"]
            assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
            assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "hermes"
            offered = meta["io.modelcontextprotocol/clientCapabilities"]
            assert offered["extensions"] == {"io.modelcontextprotocol/tasks": {}}
        assert site.seen("tools/call")[0].headers["mcp-name"] == "act"


async def test_stopped_http_request_is_closed_and_not_reported(stage: Stage) -> None:
    closed = asyncio.Event()

    async def act(_request: Request, reply: Reply) -> None:
        await reply.begin_events()
        try:
            while True:
                await reply.event(": still here", data="")
                await asyncio.sleep(0.01)
        except ConnectionError:
            closed.set()

    async with Site() as site:
        site.handlers["POST"], site.act = modern_site(site), act
        with pytest.raises(ToolError, match="did not answer within"):
            await stage.act(stage.hub(McpServer(url=site.url, timeout=0.2)), "x")
        async with asyncio.timeout(20):
            await closed.wait()
        assert site.seen("notifications/cancelled") == []


@pytest.mark.parametrize("status", [400, 404, 405, 500])
async def test_error_status_of_a_probe_means_an_old_server(stage: Stage, status: int) -> None:
    async with Site() as site:

        async def post(request: Request, reply: Reply) -> None:
            probed = request.message["method"] == "server/discover"
            await (answering(status, "<p>no</p>") if probed else site.post)(request, reply)

        site.handlers["POST"] = post
        assert await stage.act(stage.hub(McpServer(url=site.url)), "x") == "done"


async def test_error_of_a_request_is_read_from_its_error_status(stage: Stage) -> None:
    async with Site() as site:

        async def act(request: Request, reply: Reply) -> None:
            error = {"code": -32602, "message": "token=abc is wrong"}
            body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": error})
            await reply.status(400, body, Content_Type="application/json")

        site.handlers["POST"], site.act = modern_site(site), act
        with pytest.raises(ToolError, match=r"^srv reports an error: token=…\[redacted\] is wrong"):
            await stage.act(stage.hub(McpServer(url=site.url)), "x")


async def test_questions_are_answered_within_the_limits_of_the_session(stage: Stage) -> None:
    hub = stage.hub(program("modern"))
    asked = f"question elicitation/create {json.dumps(form(name={'type': 'string'}))}"
    said = await stage.act(hub, asked, Caller(clarifier=Person("Ann")))
    assert json.loads(said) == {"action": "accept", "content": {"name": "Ann"}}
    assert json.loads(await stage.act(hub, asked)) == {"action": "decline"}
    assert json.loads(await stage.act(hub, "question roots/list")) == {"roots": []}
    message = {"role": "user", "content": {"type": "text", "text": "well?"}}
    sample = f"question sampling/createMessage {json.dumps({'messages': [message]})}"
    said = await stage.act(hub, sample, Caller(sampler=Scripted()))
    assert json.loads(said)["role"] == "assistant"
    with pytest.raises(ToolError, match="which was refused: no session is there to ask a model"):
        await stage.act(hub, sample)
    with pytest.raises(ToolError, match="asked for 'no/such', which is not offered"):
        await stage.act(hub, "question no/such")


MANY = {f"q{number}": {"method": "roots/list"} for number in range(100)}
ASKS = '{"inputRequests": {"NEW": {"method": "roots/list"}}}'


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ('as_type "surprise"', "a result of the type 'surprise', which is not expected there"),
        ("as_type [1]", "a result of the type"),
        ('result {"resultType": "input_required"}', "asked for input 10 times and was stopped"),
        (
            'result {"resultType": "input_required", "inputRequests": {"a": {"method": "ping"}}}',
            "asked for input 10 times and was stopped",
        ),
        (
            f"result {json.dumps({'resultType': 'input_required', 'inputRequests': MANY})}",
            "asked for input in a way that is not understood",
        ),
        ('result {"resultType": "task"}', "began a task without an identifier"),
        ("task dancing", "reports a task in an unknown state"),
        ("task completed", "the task completed: no reason given"),
        ('task completed {"result": {"resultType": "task"}}', "a result of the type 'task'"),
        ('task failed {"error": {"code": 1, "message": "no token=abc"}}', "no token=…"),
        ('task cancelled {"statusMessage": "at night"}', "the task cancelled: at night"),
        (f"task input_required {ASKS}", "asked for input 10 times and was stopped"),
        ('task working {"resultType": "input_required"}', "of the type 'input_required'"),
    ],
)
async def test_faulty_result_is_an_error_of_the_call(stage: Stage, act: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        await stage.act(stage.hub(program("modern", timeout=20)), act)


async def test_task_that_never_ends_obeys_the_timeout_and_is_cancelled(stage: Stage) -> None:
    log = stage.folder / "heard"
    hub = stage.hub(program("modern", timeout=0.5, env={"HEARD": str(log)}))
    with pytest.raises(ToolError, match=r"did not answer within 0\.5 seconds"):
        await stage.act(hub, 'task working {"pollIntervalMs": 1e300}')
    await cancelled(log)


async def test_task_survives_broken_connections(stage: Stage, monkeypatch) -> None:
    monkeypatch.setattr(mcp_session, "POLL_RETRY_PAUSES", (0.0, 0.0))
    task = {"resultType": "complete", "taskId": "t1", "pollIntervalMs": 1}
    async with Site() as site:
        modern = modern_site(site)

        async def act(request: Request, reply: Reply) -> None:
            started = {**task, "resultType": "task", "status": "working"}
            await reply.json({"id": request.message["id"], "result": started})

        async def post(request: Request, reply: Reply) -> None:
            if request.message["method"] != "tasks/get":
                await modern(request, reply)
            elif len(site.seen("tasks/get")) == 2:
                await reply.status(503)
            elif len(site.seen("tasks/get")) == 3:
                content = [{"type": "text", "text": "found"}]
                ended = {**task, "status": "completed", "result": {"content": content}}
                await reply.json({"id": request.message["id"], "result": ended})

        site.handlers["POST"], site.act = post, act
        assert await stage.act(stage.hub(McpServer(url=site.url)), "x") == "found"
        assert len(site.seen("tools/call")) == 1
        assert site.seen("tasks/cancel") == []


async def test_task_is_cancelled_when_the_turn_is_stopped(stage: Stage) -> None:
    log = stage.folder / "heard"
    hub = stage.hub(program("modern", env={"HEARD": str(log)}))
    tools, token = await stage.tools(hub), CancelToken()
    work = stage.run(tools["mcp_srv_act"], stage.context(cancel=token), text="task working")
    call = asyncio.create_task(work)
    while "tasks/get" not in methods(log):
        await asyncio.sleep(0.02)
    token.cancel()
    with pytest.raises(Interrupted):
        await call
    await cancelled(log)
    assert hub.status()[0].state == "connected"


async def cancelled(log: Path) -> None:
    async with asyncio.timeout(20):
        while "tasks/cancel" not in methods(log):
            await asyncio.sleep(0.02)
    (message,) = [each for each in heard(log) if each.get("method") == "tasks/cancel"]
    assert message["params"]["taskId"] == "t1"


@pytest.mark.parametrize(
    ("ttl", "days", "lists"),
    [("1e300", 0.9, 1), ("1e300", 1.1, 2), ("-5", 0, 2), ('"x"', 0, 2), ("null", 0, 2)],
)
async def test_list_is_fresh_for_at_most_a_day(stage: Stage, ttl: str, days: float, lists: int):
    log, clock = stage.folder / "heard", ManualClock()
    stage.clock = clock
    env = {"HEARD": str(log), "LIST_FIELDS": f'{{"ttlMs": {ttl}}}'}
    settings = program("modern", env=env)
    await stage.act(stage.hub(settings), "big 1")
    clock.time += days * 86_400
    await stage.act(stage.hub(settings), "big 1")
    assert methods(log).count("tools/list") == lists
