"""The command line of MCP Inspector as a client, in both eras over both transports."""

import asyncio
import json
import os
import subprocess
from collections.abc import Sequence

import pytest

from tests.installed import node24_program
from tests.integration.mcp_server.conftest import serve_http
from tests.screens.chat import HERMES


def inspect(target: Sequence[str], era: str, *words: str) -> dict:
    program = node24_program("mcp-inspector")
    done = subprocess.run(
        [*program, "--cli", *target, "--protocol-era", era, "--format", "json", *words],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    found: dict = json.loads(done.stdout)
    return found.get("result", found)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_inspector_lists_and_calls_tools(chat, transport, era):
    def check(target: Sequence[str]) -> None:
        listed = inspect(target, era, "--method", "tools/list", "--strict")
        assert {"messages_read", "permissions_respond"} <= {
            each["name"] for each in listed["tools"]
        }
        call = ("--method", "tools/call", "--tool-name")
        read = inspect(target, era, *call, "messages_read", "--tool-arg", f"session_key={chat}")
        messages = read["structuredContent"]["messages"]
        assert [each["text"] for each in messages] == ["is there soup?", "yes, there is"]

    if transport == "stdio":
        await asyncio.to_thread(check, [*HERMES, "mcp", "serve"])
        return
    async with serve_http() as server:
        header = f"Authorization: Bearer {server.token}"
        await asyncio.to_thread(check, [server.url, "--header", header])
