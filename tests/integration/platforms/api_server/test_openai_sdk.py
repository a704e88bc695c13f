"""The official openai client takes the server for the real thing."""

import asyncio
import json

import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

from hermes.core.messages import Text
from hermes.core.testing import Refuse, Stall, Step
from tests.integration.platforms.api_server.conftest import KEY, Served, chat
from tests.integration.platforms.api_server.test_responses import asks_a_tool
from tests.integration.sdk.strict import checked

OURS = frozenset({"hermes", "store", "tool", "call_id", "status", "label", "seconds"})
"""OpenAI sends `store` too, but its client does not know."""


def sync_client(server: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)


def async_client(server: Served) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)


async def test_the_sync_client_talks_in_every_way(served):
    def talk() -> list[str]:
        with sync_client(served) as client:
            whole = client.chat.completions.create(**chat("one"))
            stream = client.chat.completions.create(**chat("two"), stream=True)
            said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            response = client.responses.create(model="m", input="three")
            with client.responses.stream(model="m", input="four") as events:
                final = events.get_final_response()
            names = [model.id for model in client.models.list()]
            return [
                whole.choices[0].message.content or "", said, response.output_text,
                final.output_text, *names,
            ]  # fmt: skip

    assert await asyncio.to_thread(talk) == ["one", "two", "three", "four", "hermes"]


async def test_the_async_client_talks_in_every_way(served):
    async with async_client(served) as client:
        whole = await client.chat.completions.create(**chat("one"))
        assert whole.choices[0].message.content == "one"
        assert whole.usage is not None
        assert whole.usage.total_tokens > 0
        said, finish, usage = "", "", None
        async for chunk in await client.chat.completions.create(
            **chat("two"), stream=True, stream_options={"include_usage": True}
        ):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                said += choice.delta.content or ""
                finish = choice.finish_reason or finish
        assert (said, finish) == ("two", "stop")
        assert usage is not None
        async with client.chat.completions.stream(**chat("five")) as events:
            assert (await events.get_final_completion()).choices[0].message.content == "five"
        first = await client.responses.create(model="m", input="three")
        second = await client.responses.create(
            model="m", input="again", previous_response_id=first.id
        )
        assert second.output_text == "again"
        assert (await client.responses.retrieve(second.id)).output_text == "again"
        await client.responses.delete(second.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(second.id)


async def test_responses_match_the_types_of_the_openai_sdk(serve):
    async with serve(asks_a_tool) as server:
        whole = await server.http.post("/v1/chat/completions", json=chat("go"))
        checked(ChatCompletion, whole.json())
        streamed = await server.http.post(
            "/v1/chat/completions",
            json=chat("go", stream=True, stream_options={"include_usage": True}),
        )
        for data in datas(streamed.text)[:-1]:
            checked(ChatCompletionChunk, json.loads(data), extensions=OURS)
        assert datas(streamed.text)[-1] == "[DONE]"
        response = await server.http.post("/v1/responses", json={"input": "go"})
        checked(Response, response.json(), extensions=OURS)
        events = await server.http.post("/v1/responses", json={"input": "go", "stream": True})
        for data in datas(events.text):
            checked(ResponseStreamEvent, json.loads(data), extensions=OURS)


async def test_tool_progress_is_ignored_by_other_clients(serve):
    async with serve(asks_a_tool) as server:
        text = (await server.http.post("/v1/chat/completions", json=chat("go", stream=True))).text
        events = [block for block in text.split("\n\n") if "hermes.tool.progress" in block]
        reply = [json.loads(block.partition("data: ")[2]) for block in events]
        assert [(each["tool"], each["status"]) for each in reply] == [
            ("todo", "started"),
            ("todo", "finished"),
        ]
        async with async_client(server) as client:
            stream = await client.chat.completions.create(**chat("go"), stream=True)
            said = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(said) == "Let me see.\n\nAll done."


async def test_calls_of_our_tools_ask_nothing_of_the_client(serve):
    async with serve(asks_a_tool) as server, async_client(server) as client:
        response = await client.responses.create(model="m", input="go")
        assert [item.type for item in response.output] == [
            "message", "mcp_call", "message",
        ]  # fmt: skip
        kinds: list[str] = []
        async with client.responses.stream(model="m", input="go") as events:
            kinds.extend([event.type async for event in events])
            final = await events.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
        assert final.output_text == "Let me see.All done."


async def test_closing_a_stream_stops_the_turn(serve):
    outcomes: list[str] = []
    held = Step((Text("one two"),), faults=(Stall(after=1),))
    async with serve(lambda _request: held, count_turn=lambda _name: outcomes.append) as server:
        async with async_client(server) as client:
            chunks = await client.chat.completions.create(**chat("go"), stream=True)
            async for chunk in chunks:
                if chunk.choices[0].delta.content:
                    break
            await chunks.close()
            async with client.responses.stream(model="m", input="go") as events:
                async for event in events:
                    if event.type == "response.output_text.delta":
                        break
        while len(outcomes) < 2:
            await asyncio.sleep(0.01)
    assert outcomes == ["client_left", "client_left"]


async def test_model_failure_raises_an_api_error(serve):
    async with serve(lambda _request: Refuse("unauthorized")) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(**chat("x"))
            calls = len(server.model.calls)
            with pytest.raises(openai.APIError):
                async for _ in await client.chat.completions.create(**chat("x"), stream=True):
                    pass
            with pytest.raises(openai.InternalServerError):
                await client.responses.create(model="m", input="x")
            failed = [
                event
                async for event in await client.responses.create(model="m", input="x", stream=True)
            ]
        assert failed[-1].type == "response.failed"
        assert calls == len(server.model.calls) / 4  # the client repeats nothing


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"messages": []}, openai.BadRequestError),
        ({"messages": [{"role": "user", "content": [{"type": "file"}]}]}, openai.BadRequestError),
    ],
)
async def test_bad_requests_use_the_error_format_of_openai(served, body, kind):
    async with async_client(served) as client:
        with pytest.raises(kind) as reply:
            await client.post("/chat/completions", cast_to=object, body=body)
    assert isinstance(reply.value.body, dict)
    assert set(reply.value.body) == {"message", "type", "param", "code"}


async def test_a_wrong_key_is_an_authentication_error(served):
    client = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="wrong", max_retries=0)
    async with client:
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()


def datas(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    return [line.removeprefix("data: ") for line in lines]
