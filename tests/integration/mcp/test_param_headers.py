"""Arguments in HTTP headers (`Mcp-Param-…`), checked by the official SDK's server."""

import asyncio
import json
import socket

import pytest
from mcp.server import MCPServer
from mcp.shared.inbound import decode_header_value
from pydantic import Field

from hermes.config.settings import McpServer
from hermes.core.errors import ToolError
from hermes.sdk.platforms import HttpServer
from tests.integration.mcp.stage import Stage, inside
from tests.integration.mcp.test_revisions import modern_site
from tests.integration.mcp.web import Reply, Request, Site


def mirrored(name: str):
    return Field(default=None, json_schema_extra={"x-mcp-header": name})


def sdk_app():
    """A server that refuses each call whose headers and arguments differ."""
    server = MCPServer("mirror", log_level="ERROR")

    @server.tool()
    def query(
        text: str = mirrored("Text"),
        dry: bool = mirrored("Dry-Run"),
        limit: int = mirrored("Limit"),
    ) -> str:
        """Query."""
        return repr((text, dry, limit))

    return server, server.streamable_http_app()


CALLS = [
    {"text": "us-west1", "dry": True, "limit": -7},
    {"text": "Hello, 世界", "dry": False},
    {"text": " padded "},
    {"text": "line1\nline2\r\nHost: evil"},
    {"text": "=?base64?literal?="},
    {"text": ""},
    {"limit": 2**53 - 1},
    {},
]


async def test_official_server_accepts_every_value(stage: Stage) -> None:
    server, app = sdk_app()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    http = HttpServer(app, "127.0.0.1", port, label="mirror", hint="", drain_seconds=1)
    async with server.session_manager.run():
        serving = asyncio.create_task(http.serve())
        await http.listening.wait()
        hub = stage.hub(McpServer(url=f"http://127.0.0.1:{http.port}/mcp"))
        tools = await stage.tools(hub)
        for given in CALLS:
            seen = tuple(given.get(name) for name in ("text", "dry", "limit"))
            result = inside(await stage.run(tools["mcp_srv_query"], **given))
            assert result == repr(seen), given
        await hub.close()
        await http.close(serving)


TOOL = {
    "name": "act",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string", "x-mcp-header": "Text"},
            "where": {
                "type": "object",
                "properties": {"row": {"type": "integer", "x-mcp-header": "Row"}},
            },
        },
    },
}
BAD = {
    "name": "bad",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}},
}


def listing(site: Site, *lists: list[dict]):
    """A site without a handshake, whose list of tools changes from request to request."""
    post, left = modern_site(site), list(lists)

    async def answer(request: Request, reply: Reply) -> None:
        if request.message["method"] != "tools/list":
            return await post(request, reply)
        tools = left.pop(0) if len(left) > 1 else left[0]
        return await reply.json({"id": request.message["id"], "result": {"tools": tools}})

    return answer


async def test_values_are_encoded_and_missing_ones_are_left_out(stage: Stage) -> None:
    async with Site() as site:
        site.handlers["POST"] = listing(site, [TOOL, BAD])
        tools = await stage.tools(stage.hub(McpServer(url=site.url)))
        assert set(tools) == {"mcp_srv_act"}
        assert "bad: the header N" in stage.notices[0]
        values = ("us-west1", "Hello, 世界", " padded ", "a\r\nb", None)
        for value in values:
            await stage.run(tools["mcp_srv_act"], text=value, where={"row": 7})
        assert {each.headers["mcp-param-row"] for each in site.seen("tools/call")} == {"7"}
        sent = [each.headers.get("mcp-param-text") for each in site.seen("tools/call")]
    assert sent[:2] == ["us-west1", "=?base64?SGVsbG8sIOS4lueVjA==?="]
    assert [decode_header_value(each) for each in sent] == list(values)


async def test_refused_headers_are_read_anew_and_the_call_is_repeated_once(stage: Stage) -> None:
    async def act(request: Request, reply: Reply) -> None:
        if "mcp-param-text" in request.headers:
            return await site.echo(request, reply)
        error = {"code": -32020, "message": "Header mismatch"}
        body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "error": error})
        return await reply.status(400, body, Content_Type="application/json")

    plain = {**TOOL, "inputSchema": {"type": "object"}}
    async with Site() as site:
        site.act = act
        site.handlers["POST"] = listing(site, [plain], [TOOL])
        assert await stage.act(stage.hub(McpServer(url=site.url)), "x") == "done"
        assert [len(site.seen(each)) for each in ("tools/list", "tools/call")] == [2, 2]
    async with Site() as site:
        site.act = act
        site.handlers["POST"] = listing(site, [plain])
        with pytest.raises(ToolError, match="Header mismatch"):
            await stage.act(stage.hub(McpServer(url=site.url)), "x")
        assert len(site.seen("tools/call")) == 2


async def test_server_with_a_handshake_gets_no_such_headers(stage: Stage) -> None:
    async with Site() as site:

        async def post(request: Request, reply: Reply) -> None:
            if request.message.get("method") != "tools/list":
                return await site.post(request, reply)
            found = {"tools": [TOOL, BAD]}
            return await reply.json({"id": request.message["id"], "result": found})

        site.handlers["POST"] = post
        tools = await stage.tools(stage.hub(McpServer(url=site.url)))
        assert set(tools) == {"mcp_srv_act", "mcp_srv_bad"}
        await stage.run(tools["mcp_srv_act"], text="x")
        assert "mcp-param-text" not in site.seen("tools/call")[0].headers
