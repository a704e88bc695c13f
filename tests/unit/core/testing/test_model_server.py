"""What the server does around its replies: scripts, records, connections."""

import asyncio
import http.client
import json

import httpx2
import pytest

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Refuse, ScriptError

BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def test_steps_are_used_in_order_and_requests_are_recorded(ask):
    with ModelServer(["one", [Text("two")]]) as server:
        texts = [ask(server, "/v1/chat/completions", temperature=n).text for n in (0, 1)]
        first, second = server.requests
    assert texts == ["one", "two"]
    assert (first.method, first.path) == ("POST", "/v1/chat/completions")
    assert (first.body["temperature"], second.body["temperature"]) == (0, 1)
    assert json.loads(first.raw) == first.body
    assert int(first.headers["content-length"]) == len(first.raw)


def test_a_function_answers_by_the_request(ask):
    with ModelServer(lambda request: f"{len(request.body['messages'])} messages") as server:
        assert ask(server, "/v1/messages").text == "1 messages"


def test_a_step_can_be_a_function(ask):
    with ModelServer(["plain", lambda request: request.body["model"]]) as server:
        assert ask(server, "/v1/responses").text == "plain"
        assert ask(server, "/v1/responses", model="asked").text == "asked"


def test_an_unused_step_fails_the_test(ask):
    with (
        pytest.raises(ScriptError, match="1 of 2 steps never used; next: 'b'"),
        ModelServer(["a", "b"]) as server,
    ):
        ask(server, "/v1/responses")


def test_a_call_too_many_is_refused_and_fails_the_test(post, path):
    used_up = pytest.raises(ScriptError, match="used up: call 2 has no step")
    with used_up, ModelServer(["a"]) as server:
        post(server, path)
        answered = post(server, path)
        assert answered.status == 400
        assert "used up" in answered.json["error"]["message"]


def test_an_error_in_a_script_function_fails_the_test(post):
    with pytest.raises(ZeroDivisionError), ModelServer(lambda _request: 1 / 0) as server:
        assert post(server, "/v1/messages").status == 400


def test_an_error_in_the_block_is_not_hidden_by_an_unused_step():
    with pytest.raises(RuntimeError, match="the real problem"), ModelServer(["a"]):
        raise RuntimeError("the real problem")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"model": ', "could not parse the JSON body"),
        (b"[1]", "could not parse the JSON body"),
        (b'{"messages": []}', "Missing required parameter: 'model'"),
        (b'{"model": "m"}', "Missing required parameter: 'm"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_wrong_request_is_refused_without_using_a_step(path, body, complaint):
    with ModelServer([]) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
        connection.request("POST", path, body)
        response = connection.getresponse()
        assert response.status == 400
        assert complaint in json.loads(response.read())["error"]["message"]
        connection.close()


def test_a_connection_is_kept_for_the_next_request():
    with ModelServer(["one", "two"]) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
        for stream in (True, False):
            connection.request(
                "POST", "/v1/chat/completions", json.dumps({**BODY, "stream": stream})
            )
            assert connection.getresponse().read()
        connection.close()
        assert (server.connections, server.hangups) == (1, 0)


async def test_async_clients_can_call_at_the_same_time():
    with ModelServer(lambda request: request.body["model"]) as server:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            calls = [
                client.post("/v1/chat/completions", json={**BODY, "model": f"m{n}"})
                for n in range(8)
            ]
            replies = await asyncio.gather(*calls)
    texts = [reply.json()["choices"][0]["message"]["content"] for reply in replies]
    assert texts == [f"m{n}" for n in range(8)]
    assert len(server.requests) == 8


async def test_a_stream_is_sent_piece_by_piece():
    with ModelServer(["a text of several deltas"]) as server:
        async with httpx2.AsyncClient() as client:
            body = {**BODY, "stream": True}
            address = f"{server.url}/v1/chat/completions"
            async with client.stream("POST", address, json=body) as response:
                lines = [line async for line in response.aiter_lines() if line]
    assert response.headers["content-type"].startswith("text/event-stream")
    assert lines[-1] == "data: [DONE]"
    assert len(lines) > 4


def test_a_line_is_logged_for_each_request(post):
    lines: list[str] = []
    with ModelServer(["hi", Refuse("overloaded")], log=lines.append) as server:
        post(server, "/v1/messages", stream=True)
        post(server, "/v1/messages")
    assert lines == [
        "POST /v1/messages -> 200 (11 prompt tokens, 0 from the cache)",
        "POST /v1/messages -> 529",
    ]


def test_model_calls_are_separated_from_listings(ask, path):
    with ModelServer(["hi"]) as server:
        address = server.url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=20)
        for listing in ("/v1/models", "/models?limit=5", path):
            connection.request("GET", listing)
            connection.getresponse().read()
        connection.close()
        ask(server, path)
    assert [call.method for call in server.calls] == ["POST"]
    assert len(server.requests) == 4


def test_a_taken_port_is_an_error_at_once():
    with ModelServer([]) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with pytest.raises(OSError, match="in use"):
            ModelServer([], port=port).start()
