"""The overhead of a request besides the conversation."""

import json

from hermes.core.testing import ModelServer
from tests.integration.chat.conftest import at

MOST = 16_000
"""Characters of all tools and the system prompt. Every request of every user pays for them."""


def fixed_part(body: dict) -> int:
    system = body["messages"][0]["content"]
    return len(json.dumps(body["tools"], separators=(",", ":"), ensure_ascii=False)) + len(system)


def test_the_default_request_is_lean(hermes):
    with ModelServer(["hi"]) as server:
        hermes("chat", "-q", "hello", *at(server))
        (request,) = server.requests
    assert {"terminal", "read_file", "patch", "execute_code", "web_search"} <= {
        tool["function"]["name"] for tool in request.body["tools"]
    }
    assert fixed_part(request.body) <= MOST


def test_a_chat_can_have_other_tools(hermes):
    with ModelServer(["hi"]) as server:
        hermes("chat", "-t", "file,-patch,todo", "-q", "hello", *at(server))
        unknown = hermes("chat", "-t", "fil", "-q", "hello", *at(server))
        (request,) = server.requests
    assert {tool["function"]["name"] for tool in request.body["tools"]} == {
        "read_file",
        "write_file",
        "search_files",
        "todo",
    }
    assert hermes("sessions", "list", "--json").stdout.count('"id"') == 1
    assert (unknown.returncode, "did you mean file?" in unknown.stderr) == (2, True)
