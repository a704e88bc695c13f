"""Answers that are kept, and conversations that go on from any of them."""

import asyncio
import json
from typing import Any

import httpx2

from tests.integration.platforms.api_server.conftest import Served

SESSION = "x-hermes-session-id"


async def respond(http: httpx2.AsyncClient, text: Any, **more: Any) -> dict[str, Any]:
    answer = await http.post("/v1/responses", json={"input": text, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def heard(server: Served) -> list[str]:
    """What the model was reply last, without the system prompt."""
    return [each["content"] for each in server.model.calls[-1].body["messages"][1:]]


async def test_last_answer_is_continued_in_its_session(served):
    first = await respond(served.http, "one", instructions="Be brief.")
    second = await respond(served.http, "two", previous_response_id=first["id"])
    assert heard(served) == ["one", "one", "two"]
    assert second["previous_response_id"] == first["id"]
    assert first["hermes"]["session_id"] == second["hermes"]["session_id"]
    systems = [call.body["messages"][0]["content"] for call in served.model.calls]
    assert systems[0].endswith("Be brief.")
    assert not systems[1].endswith("Be brief.")  # only for the answer it was said with


async def test_older_answer_is_continued_without_later_messages(served):
    first = await respond(served.http, "one")
    second = await respond(served.http, "two", previous_response_id=first["id"])
    other = await respond(served.http, "three", previous_response_id=first["id"])
    assert heard(served) == ["one", "one", "three"]
    assert other["hermes"]["session_id"] != second["hermes"]["session_id"]
    await respond(served.http, "four", previous_response_id=second["id"])
    assert heard(served) == ["one", "one", "two", "two", "four"]


async def test_two_continuations_of_one_answer_do_not_mix(served):
    first = await respond(served.http, "one")
    asked = [respond(served.http, f"q{n}", previous_response_id=first["id"]) for n in range(4)]
    answers = await asyncio.gather(*asked)
    assert len({answer["hermes"]["session_id"] for answer in answers}) == 4
    reply = [call.body["messages"][1:] for call in served.model.calls[1:]]
    assert sorted(each[-1]["content"] for each in reply) == ["q0", "q1", "q2", "q3"]
    assert all([m["content"] for m in each[:-1]] == ["one", "one"] for each in reply)


async def test_stored_answers_survive_a_restart(serve):
    async with serve() as server:
        first = await respond(server.http, "one")
    async with serve() as server:
        assert (await server.http.get(f"/v1/responses/{first['id']}")).json() == first
        second = await respond(server.http, "two", previous_response_id=first["id"])
        assert heard(server) == ["one", "one", "two"]
        assert second["hermes"]["session_id"] == first["hermes"]["session_id"]


async def test_answers_of_a_named_conversation_are_serialized(served):
    asked = [respond(served.http, f"q{n}", conversation={"id": "plan"}) for n in range(4)]
    answers = await asyncio.gather(*asked)
    last = await respond(served.http, "end", conversation="plan")
    elsewhere = await respond(served.http, "hello", conversation="other")
    assert len({answer["hermes"]["session_id"] for answer in [*answers, last]}) == 1
    assert elsewhere["hermes"]["session_id"] != last["hermes"]["session_id"]
    assert last["conversation"] == {"id": "plan"}
    assert len(served.model.calls[-2].body["messages"]) == 10


async def test_unstored_answer_is_not_found(served):
    answer = await respond(served.http, "one", store=False)
    assert answer["store"] is False
    gone = await served.http.get(f"/v1/responses/{answer['id']}")
    assert gone.status_code == 404
    body = {"input": "x", "previous_response_id": answer["id"]}
    reply = await served.http.post("/v1/responses", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (
        400,
        "previous_response_not_found",
    )


async def test_more_than_one_message_can_be_added(served):
    first = await respond(served.http, "one")
    items = [
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "2"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "three"}]},
    ]
    await respond(served.http, items, previous_response_id=first["id"])
    assert heard(served) == ["one", "one", "two", "2", "three"]


async def test_invalid_combinations_are_refused(served):
    for body, param in (
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "conversation": "a", "previous_response_id": "b"}, "conversation"),
        ({"input": []}, "input"),
        ({"input": "x", "conversation": ""}, "conversation"),
        ({}, ""),
    ):
        reply = await served.http.post("/v1/responses", json=body)
        assert (reply.status_code, reply.json()["error"]["param"] or "") == (400, param)
    assert (await served.http.delete("/v1/responses/resp_0")).status_code == 404


async def test_stream_equals_the_stored_response(served):
    text = (await served.http.post("/v1/responses", json={"input": "hi", "stream": True})).text
    last = json.loads(text.strip().split("data: ")[-1])
    assert last["type"] == "response.completed"
    kept = await served.http.get(f"/v1/responses/{last['response']['id']}")
    assert kept.json() == last["response"]
