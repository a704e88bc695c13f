"""Clients of `hermes mcp serve`, of the Python SDK and our own, over both transports."""

import asyncio
import base64
import json
import os
import subprocess

import httpx2
import pytest

from hermes.config.settings import McpServer
from hermes.core.messages import Image, Text, User
from hermes.mcp import McpOptions, probe
from hermes.store import open_store
from tests.integration.mcp.stage import Stage, inside
from tests.integration.mcp_server.conftest import ERAS, TOKEN, serve_http
from tests.screens.chat import HERMES

TOOLS = [
    "conversations_list", "conversation_get", "messages_read", "attachments_fetch", "events_poll",
    "events_wait", "channels_list", "messages_send", "permissions_list_open",
    "permissions_respond",
]  # fmt: skip
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}  # fmt: skip
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_sdk_client_uses_the_tools_in_both_eras(connect, chat, transport, mode):
    client = await connect(transport, mode)
    assert client.protocol_version == ERAS[mode]
    listed = await client.list_tools()
    assert sorted(each.name for each in listed.tools) == sorted(TOOLS)
    changing = [each.name for each in listed.tools if not each.annotations.read_only_hint]
    assert changing == ["messages_send", "permissions_respond"]

    start = (await client.call_tool("events_poll", {})).structured_content["next_cursor"]
    found = (await client.call_tool("conversations_list", {"platform": "local"})).structured_content
    assert [each["session_key"] for each in found["conversations"]] == [chat]
    read = await client.call_tool("messages_read", {"session_key": chat})
    texts = [each["text"] for each in read.structured_content["messages"]]
    assert texts == ["is there soup?", "yes, there is"]
    assert json.loads(read.content[0].text) == read.structured_content
    sent = await client.call_tool("messages_send", {"target": chat, "message": "hi", "key": "k"})
    assert sent.structured_content["state"] == "pending"
    assert "no gateway runs" in sent.structured_content["note"]
    waited = await client.call_tool("events_wait", {"after_cursor": start, "timeout_ms": 1})
    assert waited.structured_content["events"] == []

    refused = await client.call_tool("conversation_get", {"session_key": "none"})
    assert refused.is_error
    assert "there is no conversation 'none'" in refused.content[0].text
    wrong = await client.call_tool("messages_read", {"session_key": chat, "limit": "many"})
    assert wrong.is_error
    assert "Traceback" not in wrong.content[0].text


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_our_own_client_uses_the_tools(chat, tmp_path, transport):
    async def check(settings: McpServer) -> None:
        stage = Stage(tmp_path)
        tools = await stage.tools(stage.hub(settings))
        assert {f"mcp_srv_{name}" for name in TOOLS} <= set(tools)
        assert tools["mcp_srv_messages_read"].examine is None
        assert tools["mcp_srv_permissions_respond"].examine is not None
        answer = inside(await stage.run(tools["mcp_srv_messages_read"], session_key=chat))
        assert "yes, there is" in answer
        found = await probe("srv", settings, McpOptions(cache=tmp_path, folder=str(tmp_path)))
        assert len(found.tools) == len(TOOLS)
        assert not found.problems
        assert found.server_info.protocol == ERAS["auto"]
        await stage.close()

    if transport == "stdio":
        variables = {name: os.environ[name] for name in ("HERMES_HOME", "LOCAL_SOCKET")}
        await check(McpServer(command=HERMES[0], args=(*HERMES[1:], "mcp", "serve"), env=variables))
        return
    async with serve_http() as server:
        await check(McpServer(url=server.url, headers=server.headers))


async def test_attachments_arrive_as_images_texts_and_files(connect, chat, home):
    folder = home.root / "cache" / "media"
    folder.mkdir(parents=True)
    (folder / "sum.txt").write_text("1 + 1 = 2")
    (folder / "tone.ogg").write_bytes(b"OggS" * 10)
    pixels = base64.b64encode(b"\x89PNG").decode()
    said = f"look\n[document: {folder / 'sum.txt'}]\n[voice: {folder / 'tone.ogg'}]"
    store = open_store("", home.state_db)
    image = Image(f"data:image/png;base64,{pixels}")
    number = await store.append("s1", User((Text(said), image)))
    store.close()
    client = await connect("stdio")
    about = {"session_key": chat, "message_id": number}
    listed = (await client.call_tool("attachments_fetch", about)).structured_content
    assert [each["kind"] for each in listed["attachments"]] == ["image", "document", "voice"]
    picture, text, tone = [
        (await client.call_tool("attachments_fetch", {**about, "index": index})).content[1]
        for index in range(3)
    ]
    assert (picture.type, picture.data, picture.mime_type) == ("image", pixels, "image/png")
    assert text.text == "1 + 1 = 2"
    assert base64.b64decode(tone.resource.blob) == b"OggS" * 10


async def test_read_only_server_cannot_send_or_answer(connect, chat):
    client = await connect("stdio", "auto", "--read-only")
    names = {each.name for each in (await client.list_tools()).tools}
    assert set(TOOLS) - names == {"messages_send", "permissions_respond"}
    refused = await client.call_tool("messages_send", {"target": chat, "message": "hi"})
    assert refused.is_error


async def test_many_clients_wait_at_the_same_time(connect, chat):
    client = await connect("http")
    arguments = {"timeout_ms": 500, "after_cursor": ""}
    calls = [client.call_tool("events_wait", arguments) for _ in range(20)]
    assert all(not each.is_error for each in await asyncio.gather(*calls))


async def test_http_needs_the_token_the_host_and_no_foreign_page(home, monkeypatch):
    monkeypatch.setenv("MCP_SERVER_TOKEN", TOKEN)
    async with serve_http() as server, httpx2.AsyncClient() as client:
        assert TOKEN not in "\n".join(server.notes)

        async def post(body=INITIALIZE, **headers: str) -> httpx2.Response:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            fields = {"Content-Type": "application/json", **ACCEPT, **headers}
            return await client.post(server.url, content=content, headers=fields)

        bearer = f"Bearer {TOKEN}"
        assert (await post(Authorization=bearer)).status_code == 200
        for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": TOKEN}):
            refused = await post(**wrong)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert (await client.get(server.url.replace("/mcp", "/other"))).status_code == 401
        assert (await post(Authorization=bearer, Host="evil.example")).status_code == 421
        page = await post(Authorization=bearer, Origin="http://localhost:3000")
        assert page.status_code == 403
        for body in (b"{", b"[]", b'{"jsonrpc": "2.0"}', b"\xff", b"[" * 5000):
            answer = await post(body, Authorization=bearer)
            assert 400 <= answer.status_code < 500
            assert "Traceback" not in answer.text
            assert "/site-packages/" not in answer.text


async def test_other_addresses_need_a_token_and_the_names_of_the_server(home, monkeypatch):
    monkeypatch.setenv("OWN_TOKEN", TOKEN)
    (home.root / "config.yaml").write_text(
        "mcp_server: {token: '${OWN_TOKEN}', allowed_hosts: [hermes.example.com],"
        " allowed_origins: ['https://tools.example.com']}"
    )
    async with serve_http(address="0.0.0.0:0") as server, httpx2.AsyncClient() as client:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        headers = {**ACCEPT, "Authorization": f"Bearer {TOKEN}"}
        for host, origin, code in (
            ("hermes.example.com", "", 200),
            ("hermes.example.com:8443", "https://tools.example.com", 200),
            ("hermes.example.com", "https://evil.example", 403),
            ("127.0.0.1", "", 421),
        ):
            fields = {**headers, "Host": host, **({"Origin": origin} if origin else {})}
            answer = await client.post(url, json=INITIALIZE, headers=fields)
            assert answer.status_code == code, (host, origin)


async def test_missing_token_is_made_stored_and_shown_once(home):
    async with serve_http() as server:
        made = server.token
    assert f"MCP_SERVER_TOKEN={made}" in home.env_file.read_text()
    assert home.env_file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("address", "settings", "problem"),
    [
        ("0.0.0.0:0", {}, "does not listen on 0.0.0.0 without a token"),
        ("0.0.0.0:0", {"MCP_SERVER_TOKEN": TOKEN}, "mcp_server.allowed_hosts"),
        ("0", {"MCP_SERVER_TOKEN": "short"}, "shorter than 16"),
        ("here", {}, "'here' is not an address"),
        (":80", {}, "':80' is not an address"),
        ("99999", {}, "'99999' is not an address"),
    ],
)
def test_unsafe_or_invalid_addresses_are_refused(home, monkeypatch, address, settings, problem):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [*HERMES, "mcp", "serve", "--http", address], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
    assert not home.env_file.exists()


def test_malformed_frames_are_answered_and_output_is_the_protocol_only(home):
    frames = [
        "", "{", "[]", "null", '"x"', "\x00", '{"jsonrpc": "2.0"}', '{"id": 1}',
        '{"jsonrpc": "2.0", "id": 2, "method": "no/such"}',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}',
        '{"jsonrpc": "1.0", "id": 4, "method": "ping"}',
        '{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
        "[" * 3000,
        json.dumps(INITIALIZE),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "events_poll", "arguments": {"limit": []}}}',  # noqa: E501
        '{"jsonrpc": "2.0", "id": 10, "method": "tools/list"}',
    ]  # fmt: skip
    process = subprocess.Popen(
        [*HERMES, "mcp", "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write("\n".join(frames) + "\n")
        process.stdin.flush()
        answers = []
        while not answers or answers[-1].get("id") != 10:
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.wait(30) == 0
    assert all(each["jsonrpc"] == "2.0" for each in answers)
    assert not any("Traceback" in json.dumps(each) for each in answers)
    assert len(answers[-1]["result"]["tools"]) == len(TOOLS)
    assert next(each for each in answers if each.get("id") == 9)["result"]["isError"]
