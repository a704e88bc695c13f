"""A conversation that grows stays one session with one warm cache; others stay apart."""

import asyncio
from typing import Any

from hermes.core.messages import Text
from hermes.core.testing import RecordedRequest, Refuse, Slow, Stall, Step, StepLike
from hermes.gateway.platforms.api_server.http import ApiOptions
from tests.integration.platforms.api_server.conftest import KEY, chat

SESSION = "x-hermes-session-id"


def said(*texts: str) -> list[dict[str, str]]:
    """User and assistant in turn."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


async def ask(http: Any, *texts: str, **more: Any) -> Any:
    body = {"messages": said(*texts), **more}
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    return answer


async def test_conversation_continues_with_a_byte_stable_prefix(served):
    first = await ask(served.http, "one")
    second = await ask(served.http, "one", "one", "two", stream=True)
    third = await ask(served.http, "one", "one", "two", " two\n", "three")
    assert first.headers[SESSION] == second.headers[SESSION] == third.headers[SESSION]
    assert await served.sessions() == 1
    prefixes = [call.body["messages"] for call in served.model.calls]
    assert prefixes[1][: len(prefixes[0])] == prefixes[0]
    assert prefixes[2][: len(prefixes[1])] == prefixes[1]
    log = await served.app.store.messages(first.headers[SESSION])
    assert [message.text for message in log] == ["one", "one", "two", "two", "three", "three"]
    assert (await served.app.store.info(first.headers[SESSION])).source == "api-server"


async def test_an_edited_or_repeated_question_begins_another_session(served):
    first = await ask(served.http, "one")
    await ask(served.http, "one", "one", "two")
    again = await ask(served.http, "one", "one", "two")
    edited = await ask(served.http, "one", "ONE", "two")
    other = await ask(served.http, "one", "one", "two", user="another")
    ids = {answer.headers[SESSION] for answer in (first, again, edited, other)}
    assert len(ids) == 4
    bodies = [call.body["messages"] for call in served.model.calls]
    assert [each["content"] for each in bodies[2][1:]] == ["one", "one", "two"]
    assert [each["content"] for each in bodies[3][1:]] == ["one", "ONE", "two"]


async def test_conversation_continues_after_its_agent_was_closed(serve):
    async with serve(settings="  live_agents: 1\n") as server:
        first = await ask(server.http, "one")
        await ask(server.http, "something else")
        again = await ask(server.http, "one", "one", "two")
        assert again.headers[SESSION] == first.headers[SESSION]


async def test_client_instructions_follow_the_system_prompt_and_are_not_stored(served):
    body = {"messages": [{"role": "system", "content": "Speak like a pirate."}, *said("hi")]}
    answer = await served.http.post("/v1/chat/completions", json=body)
    system = served.model.calls[0].body["messages"][0]
    assert system["role"] == "system"
    assert system["content"].endswith("Speak like a pirate.")
    info = await served.app.store.info(answer.headers[SESSION])
    assert info.system_prompt
    assert "pirate" not in info.system_prompt


async def test_a_picture_reaches_the_model(served):
    pixel = "data:image/png;base64,iVBORw0KGgo="
    parts = [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": pixel}},
    ]
    body = {"messages": [{"role": "user", "content": parts}]}
    assert (await served.http.post("/v1/chat/completions", json=body)).status_code == 200
    assert served.model.calls[0].body["messages"][-1]["content"] == parts


async def test_a_session_can_be_named(served):
    first = await ask(served.http, "one")
    name = first.headers[SESSION]
    answer = await served.http.post(
        "/v1/chat/completions", json=chat("two"), headers={SESSION: name}
    )
    assert answer.headers[SESSION] == name
    texts = [each["content"] for each in served.model.calls[-1].body["messages"][1:]]
    assert texts == ["one", "one", "two"]
    unknown = {SESSION: "20260101_000000_00000000"}
    gone = await served.http.post("/v1/chat/completions", json=chat("x"), headers=unknown)
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "session_not_found")


async def test_session_of_another_surface_is_not_found(served):
    store = served.app.store
    await store.create("private", source="cli", model="m", system_prompt="p")
    answer = await served.http.post(
        "/v1/chat/completions", json=chat("x"), headers={SESSION: "private"}
    )
    assert answer.status_code == 404


async def test_busy_session_gets_409(serve):
    def script(request: RecordedRequest) -> StepLike:
        text = str(request.body["messages"][-1]["content"])
        return Step((Text("wait a moment"),), faults=(Stall(),)) if text == "hold" else text

    options = ApiOptions(port=0, key=KEY, wait_seconds=0.1)
    async with serve(script, options=options) as server:
        name = (await ask(server.http, "one")).headers[SESSION]
        held = {"json": chat("hold", stream=True), "headers": {SESSION: name}}
        async with server.http.stream("POST", "/v1/chat/completions", **held) as stream:
            pieces = stream.aiter_bytes()
            await anext(pieces)
            busy = await server.http.post(
                "/v1/chat/completions", json=chat("two"), headers={SESSION: name}
            )
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")


async def test_request_for_a_busy_session_waits_for_its_turn(serve):
    def script(request: RecordedRequest) -> StepLike:
        text = str(request.body["messages"][-1]["content"])
        return Step((Text("first"),), faults=(Slow(0.2),)) if text == "slow" else text

    async with serve(script) as server:
        name = (await ask(server.http, "one")).headers[SESSION]

        def post(text: str) -> Any:
            body, headers = chat(text), {SESSION: name}
            return server.http.post("/v1/chat/completions", json=body, headers=headers)

        slow = asyncio.ensure_future(post("slow"))
        while len(server.model.calls) < 2:
            await asyncio.sleep(0.01)
        answers = await asyncio.gather(slow, post("second"), post("third"))
        assert [each.status_code for each in answers] == [200, 200, 200]
        log = [message.text for message in await server.app.store.messages(name)]
        assert log[2:4] == ["slow", "first"]
        assert sorted(log[4:]) == ["second", "second", "third", "third"]


async def test_after_a_failure_the_client_can_ask_again(serve):
    async with serve(lambda _request: answers.pop(0)) as server:
        answers: list[StepLike] = ["one", Refuse("unauthorized"), "two"]
        await ask(server.http, "one")
        body = {"messages": said("one", "one", "two")}
        failed = await server.http.post("/v1/chat/completions", json=body)
        assert failed.status_code == 500
        assert failed.headers["x-should-retry"] == "false"
        assert (await ask(server.http, "one", "one", "two")).json()["choices"][0]["message"][
            "content"
        ] == "two"


async def test_fifty_concurrent_requests_get_their_own_answers(served):
    answers = await asyncio.gather(*[ask(served.http, f"number {n}") for n in range(50)])
    for number, answer in enumerate(answers):
        assert answer.json()["choices"][0]["message"]["content"] == f"number {number}"
    assert await served.sessions() == 50
