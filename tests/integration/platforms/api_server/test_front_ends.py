"""What web front ends send, as they send it. Each request is one of theirs."""

import json
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from hermes.core.messages import Text
from hermes.core.testing import RecordedRequest, Stall, Step, StepLike
from hermes.gateway.platforms.api_server.http import ApiOptions
from tests.integration.platforms.api_server.conftest import KEY, Served, chat
from tests.integration.platforms.api_server.raw import dialled, post
from tests.integration.platforms.api_server.test_openai_sdk import async_client

CHAT = "/v1/chat/completions"
HELD = "hold still"
REQUESTS = Path(__file__).with_name("front_ends.json")


async def test_requests_of_known_front_ends_are_answered(served):
    requests = json.loads(REQUESTS.read_text("utf-8"))
    failures = {name: await failure(served, body) for name, body in requests.items()}
    assert {name: why for name, why in failures.items() if why} == {}


async def failure(served: Served, body: dict[str, Any]) -> str:
    """Return what is wrong with the answer; "" if nothing is."""
    answer = await served.http.post(CHAT, json=body)
    if answer.status_code != 200:
        return answer.text
    if not body.get("stream"):
        return "" if answer.json()["choices"][0]["message"]["content"] else "no content"
    pieces = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(piece) for piece in pieces[:-1]]
    contents = [
        choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]
    ]
    has_usage = bool(chunks[-1].get("usage"))
    complete = pieces[-1] == "[DONE]" and "".join(contents)
    return "" if complete and has_usage == bool(body.get("stream_options")) else answer.text


async def test_paths_may_end_with_a_slash(served):
    for path in ("/v1/models", "/v1/models/", "/health/"):
        assert (await served.http.get(path)).status_code == 200
        assert (await served.http.head(path)).status_code == 200
    assert (await served.http.post(f"{CHAT}/", json=chat("hi"))).status_code == 200
    lost = await served.http.get("/models")
    assert (lost.status_code, "ends with /v1" in lost.text) == (404, True)


async def test_model_can_be_retrieved(served):
    async with async_client(served) as client:
        assert (await client.models.retrieve("hermes")).id == "hermes"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-9")


class Title(pydantic.BaseModel):
    title: str


async def test_response_format_becomes_an_instruction(serve):
    async with (
        serve(lambda _request: '{"title": "Plum"}') as server,
        async_client(server) as client,
    ):
        parsed = await client.chat.completions.parse(**chat("a title"), response_format=Title)
        assert parsed.choices[0].message.parsed == Title(title="Plum")
        response = await client.responses.parse(model="m", input="a title", text_format=Title)
        assert response.output_parsed == Title(title="Plum")
        for call in server.model.calls:
            reply = call.body["messages"][0]["content"].rpartition("JSON schema: ")[2]
            assert json.loads(reply)["required"] == ["title"]


async def test_head_request_gets_no_stream(serve):
    async with serve(holding) as server:
        run = (await server.http.post("/v1/runs", json={"input": HELD})).json()["run_id"]
        head = await server.http.head(f"/v1/runs/{run}/events")
        assert head.status_code == 200
        await server.http.post(f"/v1/runs/{run}/stop")


async def test_overload_gets_503_with_retry_after(serve):
    options = ApiOptions(port=0, key=KEY, max_turns=1)
    async with serve(holding, options=options) as server:
        run = (await server.http.post("/v1/runs", json={"input": HELD})).json()["run_id"]
        for path, body in ((CHAT, chat("hi", stream=True)), ("/v1/responses", {"input": "hi"})):
            away = await server.http.post(path, json=body)
            assert (away.status_code, away.headers["retry-after"]) == (503, "5")
            assert away.json()["error"]["code"] == "overloaded"
        await server.http.post(f"/v1/runs/{run}/stop")


async def test_client_that_leaves_while_waiting_starts_no_turn(serve):
    async with serve(holding) as server:
        body = {"input": HELD, "conversation": "plan", "stream": True}
        first, second = await dialled(server), await dialled(server)
        await first.send(post(server, "/v1/responses", body))
        await first.until(b"output_text.delta")
        waiting = post(server, "/v1/responses", {"input": "never mind", "conversation": "plan"})
        await second.send(waiting)
        second.writer.transport.abort()
        first.close()
        third = await server.http.post(
            "/v1/responses", json={"input": "third", "conversation": "plan"}
        )
        assert third.status_code == 200
        reply = [call.body["messages"][-1]["content"] for call in server.model.calls]
        assert reply == [HELD, "third"]
        assert await server.sessions() == 2


def holding(request: RecordedRequest) -> StepLike:
    text = str(request.body["messages"][-1]["content"])
    if text == HELD:
        return Step((Text("one two three four five"),), faults=(Stall(after=2),))
    return text
