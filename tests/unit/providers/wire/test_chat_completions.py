"""The chat-completions wire against a real HTTP server, well-behaved and not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx2
import pytest

from hermes.core import errors
from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelRequest, ReasoningDelta, Reply, TextDelta, ToolSpec
from hermes.core.testing import (
    CallIds,
    Cut,
    ErrorEvent,
    Interleave,
    KeepAlive,
    Malformed,
    ModelServer,
    Refuse,
    SplitBytes,
    Stall,
    Step,
)
from hermes.providers.profile import Profile
from hermes.providers.resolver import Target
from hermes.providers.wire.chat_completions import ChatCompletions

ASK = ModelRequest((System("be brief"), User.say("hello")))
CALLS = (ToolCall("a", "read", '{"path":"x"}'), ToolCall("b", "read", '{"path":"y"}'))


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as client:
        yield client


def wire(server: ModelServer, client: httpx2.AsyncClient, **profile) -> ChatCompletions:
    target = Target("acme", "m", f"{server.url}/v1", "secret-key", "", Profile(**profile))
    return ChatCompletions(target, client, stale_seconds=0.5)


async def ask(model: ChatCompletions, request: ModelRequest = ASK) -> tuple[list, Reply]:
    *deltas, reply = [event async for event in model.stream(request)]
    assert isinstance(reply, Reply)
    return deltas, reply


async def test_text_streams_and_the_reply_is_whole(client):
    with ModelServer(["Grüße aus der Leitung"]) as server:
        deltas, reply = await ask(wire(server, client))
        assert all(isinstance(delta, TextDelta) for delta in deltas)
        assert len(deltas) > 1
        assert "".join(delta.text for delta in deltas) == "Grüße aus der Leitung"
        assert reply.message == Assistant((Text("Grüße aus der Leitung"),))
        assert reply.usage.output > 0
        assert server.requests[0].headers["authorization"] == "Bearer secret-key"


async def test_reasoning_is_kept_apart_from_the_text(client):
    with ModelServer([[Thinking("hm"), Text("yes")]]) as server:
        deltas, reply = await ask(wire(server, client))
        assert deltas[0] == ReasoningDelta("hm")
        assert (reply.message.thinking, reply.message.text) == ("hm", "yes")


@pytest.mark.parametrize("faults", [(), (Interleave(),), (KeepAlive(),), (SplitBytes(3),)])
async def test_parallel_tool_calls_arrive_whole(client, faults):
    with ModelServer([Step(CALLS, faults=faults)]) as server:
        _, reply = await ask(wire(server, client))
        assert reply.message.calls == CALLS
        assert reply.message.finish_reason == "tool_calls"


@pytest.mark.parametrize("mode", ["duplicate", "missing"])
async def test_every_call_gets_an_id_of_its_own(client, mode):
    with ModelServer([Step(CALLS, faults=(CallIds(mode),))] * 2) as server:
        model = wire(server, client)
        _, first = await ask(model)
        _, again = await ask(model)
        ids = [call.id for call in first.message.calls]
        assert len(set(ids)) == 2
        assert all(ids)
        assert [call.id for call in again.message.calls] == ids
        assert [call.arguments for call in first.message.calls] == [c.arguments for c in CALLS]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Cut(1), errors.StreamCut),
        (Stall(1), errors.StreamStalled),
        (Stall(0), errors.StreamStalled),
        (Malformed(1), errors.ReplyInvalid),
        (ErrorEvent(1), errors.ServerFault),
    ],
)
async def test_a_broken_stream_is_worth_another_try(client, fault, kind):
    with ModelServer([Step((Text("a long enough text"),), faults=(fault,))]) as server:
        with pytest.raises(kind) as caught:
            await ask(wire(server, client))
        assert isinstance(caught.value, errors.Transient)


REFUSALS = {
    "bad_request": errors.RequestRefused,
    "unauthorized": errors.CredentialRefused,
    "payment_required": errors.QuotaSpent,
    "forbidden": errors.CredentialRefused,
    "model_not_found": errors.ModelNotFound,
    "too_large": errors.ContextOverflow,
    "rate_limited": errors.RateLimited,
    "quota": errors.QuotaSpent,
    "server_error": errors.ServerFault,
    "unavailable": errors.ServerFault,
    "overloaded": errors.ServerFault,
    "context_length": errors.ContextOverflow,
    "content_filter": errors.ContentRefused,
    "html": errors.ServerFault,
    "empty": errors.ReplyInvalid,
}


@pytest.mark.parametrize(("refusal", "kind"), REFUSALS.items())
async def test_a_refusal_says_what_it_is(client, refusal, kind):
    with ModelServer([Refuse(refusal)]) as server, pytest.raises(errors.ProviderError) as caught:
        await ask(wire(server, client))
    assert type(caught.value) is kind


async def test_an_endpoint_nobody_listens_on_is_named(client):
    target = Target("acme", "m", "http://127.0.0.1:9/v1", "", "", Profile())
    with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:9"):
        await ask(ChatCompletions(target, client))


async def test_closing_the_stream_ends_the_request(client):
    with ModelServer([Step((Text("never finished"),), faults=(Stall(1),))]) as server:
        async with aclosing(wire(server, client).stream(ASK)) as events:
            assert await anext(events) == TextDelta("never fi")
        while not server.hangups:
            await asyncio.sleep(0.01)


async def test_connections_are_reused(client):
    with ModelServer(["a", "b"]) as server:
        model = wire(server, client)
        await ask(model)
        await ask(model)
        assert server.connections == 1


async def test_the_request_carries_history_tools_and_options(client):
    history = (
        System("s"),
        User((Text("look"), Image("data:image/png;base64,AA"))),
        Assistant((Thinking("t"), ToolCall("a", "read", '{"z": 1, "a": 2}')), "tool_calls"),
        ToolResult("a", "read", "content"),
    )
    tool = ToolSpec("read", "Read.", {"type": "object", "properties": {}})
    request = ModelRequest(
        history,
        (tool,),
        max_tokens=9,
        temperature=0.5,
        reasoning_effort="low",
        reply_schema={"type": "object"},
    )
    with ModelServer(["ok"]) as server:
        await ask(wire(server, client, thinking_field="reasoning_content"), request)
        body = server.requests[0].body
    assert body["messages"] == [
        {"role": "system", "content": "s"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"a":2,"z":1}'},
                }
            ],
            "reasoning_content": "t",
        },
        {"role": "tool", "tool_call_id": "a", "content": "content"},
    ]
    assert body["tools"][0]["function"]["name"] == "read"
    assert (body["max_tokens"], body["temperature"], body["reasoning_effort"]) == (9, 0.5, "low")
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}


async def test_models_that_want_the_developer_role_get_it(client):
    with ModelServer(["ok"]) as server:
        await ask(wire(server, client, developer_role=True))
        assert server.requests[0].body["messages"][0]["role"] == "developer"


async def test_the_prefix_of_a_request_is_byte_stable(client):
    with ModelServer(["one", "two"]) as server:
        model = wire(server, client)
        _, reply = await ask(model)
        longer = ModelRequest((*ASK.messages, reply.message, User.say("more")))
        await ask(model, longer)
        first, second = (request.raw for request in server.requests)
    shared = first[: first.index(b'],"stream"')]
    assert second.startswith(shared)
