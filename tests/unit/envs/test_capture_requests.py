"""Images on the way from the fronts of the capture endpoint to the model server."""

from typing import Any

import httpx2
import pytest

from hermes.envs import CaptureServer, Trace
from tests.unit.envs.token_server import GENERATE, TokenServer

PIXEL = "iVBORw0KGgo="
URL = f"data:image/png;base64,{PIXEL}"
IMAGE = {"type": "image_url", "image_url": {"url": URL}}
ANTHROPIC_IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
}
CALL = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def anthropic(*turns: tuple[str, Any]) -> tuple[str, dict[str, Any]]:
    messages = [{"role": role, "content": content} for role, content in turns]
    return "/messages", {"model": "m", "max_tokens": 9, "messages": messages}


def responses(*items: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "/responses", {"model": "m", "input": list(items)}


def result(number: int, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"c{number}", "content": list(parts)}


FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
ASKED = [
    pytest.param(
        anthropic(("user", [text("What is it?"), ANTHROPIC_IMAGE])),
        [{"role": "user", "content": [text("What is it?"), IMAGE]}],
        id="anthropic",
    ),
    pytest.param(
        anthropic(
            ("user", [{"type": "image", "source": {"type": "url", "url": "https://e.test/a.png"}}])
        ),
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "https://e.test/a.png"}}],
            }
        ],
        id="anthropic-url",
    ),
    pytest.param(
        anthropic(
            ("user", "Look."),
            ("assistant", [CALL, {**CALL, "id": "c2"}]),
            ("user", [result(1, text("A"), ANTHROPIC_IMAGE), result(2, text("B")), text("Well?")]),
        ),
        [
            {"role": "tool", "tool_call_id": "c1", "content": "A"},
            {"role": "tool", "tool_call_id": "c2", "content": "B"},
            {"role": "user", "content": [IMAGE, text("Well?")]},
        ],
        id="anthropic-tool-result",
    ),
    pytest.param(
        responses(
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What?"},
                    {"type": "input_image", "image_url": URL, "detail": "low"},
                ],
            }
        ),
        [
            {
                "role": "user",
                "content": [
                    text("What?"),
                    {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
                ],
            }
        ],
        id="responses",
    ),
    pytest.param(
        responses(
            {"role": "user", "content": "Look."},
            FUNCTION_CALL,
            {
                "type": "function_call_output",
                "call_id": "c1",
                "output": [{"type": "input_image", "image_url": URL}],
            },
        ),
        [
            {"role": "tool", "tool_call_id": "c1", "content": ""},
            {"role": "user", "content": [IMAGE]},
        ],
        id="responses-tool-output",
    ),
]


@pytest.mark.parametrize(("asked", "sent"), ASKED)
async def test_chat_server_gets_the_images_of_every_front(asked, sent) -> None:
    path, body = asked
    with TokenServer(["A dot."], template=lambda _messages, _tools: "") as server:
        async with CaptureServer(server.url, "chat") as capture, httpx2.AsyncClient() as client:
            response = await client.post(f"{capture.url('r')}{path}", json=body)
            trace = Trace("r", "k", "h", "m", nodes=capture.take("r").nodes)
    assert response.status_code == 200, response.text
    (request,) = server.requests
    assert request.body["messages"][-len(sent) :] == sent
    (branch,) = trace.branches()
    assert list(branch.messages[:-1])[-len(sent) :] == sent


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "sglang"])
@pytest.mark.parametrize(
    "asked",
    [
        anthropic(("user", [ANTHROPIC_IMAGE])),
        responses({"role": "user", "content": [{"type": "input_image", "image_url": URL}]}),
        ("/chat/completions", {"messages": [{"role": "user", "content": [IMAGE]}]}),
    ],
    ids=["anthropic", "responses", "chat"],
)
async def test_token_server_refuses_an_image_instead_of_losing_it(kind, asked) -> None:
    path, body = asked
    with TokenServer([]) as server:
        async with CaptureServer(server.url, kind) as capture, httpx2.AsyncClient() as client:
            response = await client.post(f"{capture.url('r')}{path}", json=body)
            assert capture.take("r").nodes == []
    assert response.status_code == 400
    assert "server kind chat" in response.json()["error"]["message"]
    assert not [request for request in server.requests if request.path in GENERATE]


@pytest.mark.parametrize(
    "asked",
    [
        anthropic(("user", [{"type": "document", "source": {"type": "text", "data": "x"}}])),
        anthropic(("user", [{"type": "image", "source": {"type": "file", "file_id": "f1"}}])),
        responses({"role": "user", "content": [{"type": "input_file", "file_id": "f1"}]}),
    ],
    ids=["document", "stored image", "stored file"],
)
async def test_content_that_cannot_be_converted_is_refused(asked) -> None:
    path, body = asked
    async with CaptureServer("http://127.0.0.1:9", "chat") as capture, httpx2.AsyncClient() as http:
        response = await http.post(f"{capture.url('r')}{path}", json=body)
    assert response.status_code == 400
    assert "is not supported" in response.json()["error"]["message"]
