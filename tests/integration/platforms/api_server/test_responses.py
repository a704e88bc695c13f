"""Answers that are kept, and conversations that go on from any of them."""

import asyncio
import json
from typing import Any

import httpx2

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import RecordedRequest, StepLike
from tests.integration.platforms.api_server.conftest import Served

SESSION = "x-hermes-session-id"
TODO = ToolCall("call_1", "todo", '{"todos":[{"id":"1","content":"x","status":"pending"}]}')


def asks_a_tool(request: RecordedRequest) -> StepLike:
    """Text and a call first; then the answer."""
    if request.body["messages"][-1]["role"] == "tool":
        return "All done."
    return [Text("Let me see."), TODO]


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


async def test_client_that_returns_or_refers_to_items_continues_its_session(serve):
    async with serve(asks_a_tool) as server:
        question = {"role": "user", "content": "go"}
        for kind in ("items", "items without output", "references"):
            first = await respond(server.http, [question])
            items = [
                {"type": "item_reference", "id": item["id"]} if kind == "references" else item
                for item in first["output"]
            ]
            if kind == "items without output":  # as @openai/agents does
                items = [{n: v for n, v in each.items() if n != "output"} for each in items]
            second = await respond(server.http, [question, *items, *items[-1:], question])
            if kind != "references":  # the repeated item makes this another conversation
                assert second["hermes"]["session_id"] != first["hermes"]["session_id"]
                second = await respond(server.http, [question, *items, question])
            assert second["hermes"]["session_id"] == first["hermes"]["session_id"], kind
            messages = server.model.calls[-2].body["messages"][1:]
            roles = [each["role"] for each in messages]
            assert roles == ["user", "assistant", "tool", "assistant", "user"]
            assert messages[2]["content"].startswith("Todo list")


async def test_items_of_a_lost_session_become_the_history_of_a_new_one(serve):
    async with serve(asks_a_tool) as server:
        question = {"role": "user", "content": "go"}
        first = await respond(server.http, [question])
        other = {"role": "user", "content": "something else"}
        second = await respond(server.http, [other, *first["output"], question])
        assert second["hermes"]["session_id"] != first["hermes"]["session_id"]
        _system, asked, called, result, *_rest = server.model.calls[-2].body["messages"]
        assert asked["content"] == "something else"
        assert called["tool_calls"][0]["function"]["name"] == "todo"
        assert called["tool_calls"][0]["id"] == result["tool_call_id"] == first["output"][1]["id"]


async def test_reference_to_an_unknown_item_is_refused(served):
    first = await respond(served.http, "one")
    known = first["output"][0]["id"]
    await served.http.delete(f"/v1/responses/{first['id']}")
    for item_id in (known, "msg_of_another_server", f"{known}99", ""):
        items = [{"type": "item_reference", "id": item_id}, {"role": "user", "content": "x"}]
        reply = await served.http.post("/v1/responses", json={"input": items})
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, "item_not_found")
        assert reply.json()["error"]["param"] == "input[0].id"


async def test_stored_response_with_a_tool_equals_the_stream(serve):
    async with serve(asks_a_tool) as server:
        body = {"input": "go", "stream": True}
        text = (await server.http.post("/v1/responses", json=body)).text
        last = json.loads(text.strip().split("data: ")[-1])["response"]
        kept = (await server.http.get(f"/v1/responses/{last['id']}")).json()
        assert kept == last
        assert [item["type"] for item in kept["output"]] == ["message", "mcp_call", "message"]
        assert kept["output"][1]["server_label"] == "hermes"
        assert "function_call" not in text
