"""Every wire through every hazard, against a real HTTP server."""

import asyncio

import httpx2
import msgspec
import pytest

from hermes.core import errors
from hermes.core.cancel import CancelToken
from hermes.core.messages import Assistant, Text, Thinking, ToolCall, ToolResult, User
from hermes.core.model import ModelRequest, Price, ReasoningDelta, TextDelta, Usage
from hermes.core.testing import (
    CallIds,
    Cut,
    ErrorEvent,
    Gzip,
    Headers,
    Interleave,
    KeepAlive,
    Malformed,
    ModelServer,
    Refuse,
    Slow,
    SplitBytes,
    Stall,
    Step,
)
from hermes.providers.endpoints import Timeouts
from hermes.providers.wire.model import WireModel
from tests.unit.providers.wire.calling import ASK, MODES, THOUGHTS, ask, target, until, wire

pytestmark = pytest.mark.parametrize("mode", MODES)

WHOLE = msgspec.structs.replace(ASK, stream=False)
CALLS = (ToolCall("a", "read", '{"path":"x"}'), ToolCall("b", "read", '{"path":"grüße 你好 🎉"}'))
GREETING = "Grüße aus der Leitung, 你好 🎉!"
IMPATIENT = Timeouts(read=0.2, stale=0.2, silence=0.2)
UNTROUBLED = [
    (),
    (KeepAlive(),),
    (SplitBytes(1),),
    (Gzip(),),
    (Gzip(), SplitBytes(1)),
    (Slow(0.01),),
]


def said(deltas: list) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


@pytest.mark.parametrize("faults", UNTROUBLED, ids=str)
async def test_text_streams_and_the_reply_is_whole(client, mode, faults):
    with ModelServer([Step((Text(GREETING),), faults=faults)]) as server:
        deltas, reply = await ask(wire(server, client, mode))
        assert len(deltas) > 1
        assert said(deltas) == GREETING
        assert reply.message == Assistant((Text(GREETING),))
        assert (reply.model, reply.provider) == ("m", "acme")


@pytest.mark.parametrize("faults", [*UNTROUBLED, (Interleave(),)], ids=str)
async def test_parallel_tool_calls_arrive_whole(client, mode, faults):
    with ModelServer([Step((Text("so"), *CALLS), faults=faults)]) as server:
        _, reply = await ask(wire(server, client, mode))
        assert reply.message == Assistant((Text("so"), *CALLS), "tool_calls")


@pytest.mark.parametrize("faults", [(), (Gzip(),), (SplitBytes(1),), (Slow(0.01),)], ids=str)
async def test_a_reply_in_one_piece_is_one_event(client, mode, faults):
    parts = (Thinking("hm"), Text(GREETING), *CALLS)
    with ModelServer([Step(parts, faults=faults)]) as server:
        deltas, reply = await ask(wire(server, client, mode), WHOLE)
        assert deltas == []
        assert "stream" not in server.requests[0].body
        assert reply.message.thinking == "hm"
        assert reply.message.text == GREETING
        assert reply.message.calls == CALLS
        assert reply.message.finish_reason == "tool_calls"


async def test_thinking_is_kept_apart_from_the_text(client, mode):
    with ModelServer([[Thinking("first hm, then aha"), Text("yes")]]) as server:
        deltas, reply = await ask(wire(server, client, mode))
        assert deltas[0] == ReasoningDelta("first hm")
        assert said(deltas) == "yes"
        assert (reply.message.thinking, reply.message.text) == ("first hm, then aha", "yes")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("ids", ["duplicate", "missing"])
async def test_every_call_gets_an_id_of_its_own(client, mode, ids, stream):
    request = msgspec.structs.replace(ASK, stream=stream)
    with ModelServer([Step(CALLS, faults=(CallIds(ids),))] * 2) as server:
        model = wire(server, client, mode)
        first, again = (await ask(model, request))[1], (await ask(model, request))[1]
        made = [call.id for call in first.message.calls]
        assert len(set(made)) == 2
        assert all(made)
        assert [call.id for call in again.message.calls] == made
        assert [call.arguments for call in first.message.calls] == [c.arguments for c in CALLS]


async def test_a_call_cut_off_by_the_length_says_so(client, mode):
    torn = ToolCall("a", "write", '{"path":"x","content":"once upon')
    with ModelServer([Step((torn,), finish_reason="length")]) as server:
        _, reply = await ask(wire(server, client, mode))
        assert reply.message == Assistant((torn,), "length")


BROKEN = [
    (Cut(1), errors.StreamCut),
    (Cut(0), errors.StreamCut),
    (Stall(1), errors.StreamStalled),
    (Stall(0), errors.StreamStalled),
    (Malformed(1), errors.ReplyInvalid),
    (ErrorEvent(1), errors.Overloaded),
    (ErrorEvent(0, "server_error"), errors.ServerFault),
    (ErrorEvent(1, "rate_limited"), errors.RateLimited),
]


@pytest.mark.parametrize("parts", [(Text("a long enough text"),), CALLS], ids=["text", "calls"])
@pytest.mark.parametrize(("fault", "kind"), BROKEN, ids=str)
async def test_broken_streams_are_classified(client, mode, fault, kind, parts):
    limits = IMPATIENT if isinstance(fault, Stall) else Timeouts()
    with ModelServer([Step(parts, faults=(fault,))]) as server:
        with pytest.raises(errors.ProviderError) as caught:
            await ask(wire(server, client, mode, timeouts=limits))
        assert type(caught.value) is kind
        assert caught.value.provider == "acme"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Cut(), errors.StreamCut),
        (Stall(), errors.StreamStalled),
        (Malformed(), errors.ReplyInvalid),
    ],
    ids=str,
)
async def test_broken_bodies_are_classified(client, mode, fault, kind):
    limits = IMPATIENT if isinstance(fault, Stall) else Timeouts()
    with ModelServer([Step((Text("hello"),), faults=(fault,))]) as server, pytest.raises(kind):
        await ask(wire(server, client, mode, timeouts=limits), WHOLE)


@pytest.mark.parametrize("request_", [ASK, WHOLE], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        ("empty", errors.ReplyInvalid),
        ("html", errors.ServerFault),
        ("unauthorized", errors.CredentialRefused),
        ("context_length", errors.ContextOverflow),
        ("overloaded", errors.Overloaded),
    ],
)
async def test_empty_answers_are_classified(client, mode, refusal, kind, request_):
    with ModelServer([Refuse(refusal)]) as server, pytest.raises(kind):
        await ask(wire(server, client, mode), request_)


async def test_a_reply_with_nothing_in_it_is_invalid(client, mode):
    with ModelServer([Step(())] * 2) as server:
        for request in (ASK, WHOLE):
            with pytest.raises(errors.ReplyInvalid, match="empty"):
                await ask(wire(server, client, mode), request)


@pytest.mark.parametrize("request_", [ASK, WHOLE], ids=["streamed", "whole"])
async def test_a_model_that_declines_is_quoted(client, mode, request_):
    step = Step((Text("I would rather not."),), finish_reason="refusal")
    refused = pytest.raises(errors.ContentRefused, match="I would rather not")
    with ModelServer([step]) as server, refused:
        await ask(wire(server, client, mode), request_)


async def test_comments_are_nothing_new(client, mode):
    """Bytes keep coming, so only the limit on new things can end this."""
    limits = Timeouts(read=30, stale=0.3)
    chatter = httpx2.MockTransport(lambda _: httpx2.Response(200, content=_comments()))
    async with httpx2.AsyncClient(transport=chatter) as chatty:
        model = WireModel(target(mode, timeouts=limits), chatty)
        with pytest.raises(errors.StreamStalled, match="nothing new"):
            await ask(model)


async def _comments():
    while True:
        yield b": still there\n\n"
        await asyncio.sleep(0.01)


async def test_the_whole_call_has_a_limit(client, mode):
    step = Step((Text("a text that takes its time " * 20),), faults=(Slow(0.05),))
    too_long = pytest.raises(errors.StreamStalled, match=r"within 0\.4 s")
    with ModelServer([step]) as server, too_long:
        await ask(wire(server, client, mode, timeouts=Timeouts(request=0.4)))


@pytest.mark.parametrize("after", [0, 1])
async def test_a_stop_ends_the_request_while_nothing_comes(client, mode, after):
    with ModelServer([Step((Text("never finished"),), faults=(Stall(after),))]) as server:
        token, deltas = CancelToken(), []
        call = wire(server, client, mode).call(ASK, deltas.append)
        reading = asyncio.create_task(token.guard(call))
        await until(lambda: server.requests and len(deltas) == after)
        await asyncio.sleep(0.05)
        token.cancel()
        with pytest.raises(errors.Interrupted):
            await reading
        await until(lambda: server.hangups == 1)


async def test_one_connection_serves_twenty_calls(client, mode):
    with ModelServer(["a few words"] * 20) as server:
        model = wire(server, client, mode)
        for number in range(20):
            await ask(model, ASK if number % 2 else WHOLE)
        assert server.connections == 1


@pytest.mark.parametrize(("streaming", "sent"), [("always", True), ("never", False)])
async def test_an_endpoint_that_knows_one_way_is_asked_that_way(client, mode, streaming, sent):
    with ModelServer(["a few words"] * 2) as server:
        model = wire(server, client, mode, streaming=streaming)
        whole, _ = await ask(model, WHOLE)
        streamed, _ = await ask(model, ASK)
        assert [request.body.get("stream", False) for request in server.requests] == [sent] * 2
    assert whole == []
    assert said(streamed) == ("a few words" if sent else "")


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
async def test_a_body_is_understood_whatever_it_was_asked_for(mode, kind):
    """A whole body for a streamed request, and events for one that wanted a whole body."""
    with ModelServer(["a few words"] * 2) as server:
        async with httpx2.AsyncClient(transport=Swapped(kind)) as swapped:
            model = wire(server, swapped, mode)
            for request in (ASK, WHOLE):
                _, reply = await ask(model, request)
                assert reply.message.text == "a few words"


class Swapped(httpx2.AsyncHTTPTransport):
    """A proxy that asks for the other kind of reply, and calls it `kind`."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = msgspec.json.decode(request.content)
        body["stream"] = not body.get("stream", False)
        headers = {"authorization": "Bearer k"}
        other = httpx2.Request("POST", request.url, json=body, headers=headers)
        other.extensions = request.extensions
        response = await super().handle_async_request(other)
        response.headers["content-type"] = self._kind
        return response


async def test_a_server_that_does_not_say_what_it_sends_is_understood(client, mode):
    with ModelServer([Step((Text("hello"),), faults=(Headers({"Content-Type": ""}),))]) as server:
        _, reply = await ask(wire(server, client, mode))
        assert reply.message.text == "hello"


async def test_usage_and_cost_are_reported(client, mode):
    used = Usage(input=100, output=50, cache_read=30, reasoning=20)
    price = Price(1.0, 2.0, 0.1, 1.25)
    with ModelServer([Step((Text("hi"),), usage=used)] * 2) as server:
        model = wire(server, client, mode, price=price)
        for request in (ASK, WHOLE):
            _, reply = await ask(model, request)
            assert reply.usage == used
            assert reply.cost_usd == pytest.approx(203e-6)


async def test_a_price_that_is_not_known_is_none(client, mode):
    with ModelServer(["hi"]) as server:
        _, reply = await ask(wire(server, client, mode))
        assert reply.cost_usd is None


async def test_characters_that_cannot_be_sent_are_named(client, mode):
    with ModelServer([]) as server, pytest.raises(errors.UnicodeRefused):
        await ask(wire(server, client, mode), ModelRequest((User.say("a\ud800b"),)))


async def test_thinking_goes_back_as_it_came(client, mode):
    """Signed or encrypted, in whatever form the wire has for it."""
    thought = THOUGHTS[mode]
    call = ToolCall("a", "read", '{"path":"x"}')
    with ModelServer([Step((thought, call)), "done"]) as server:
        model = wire(server, client, mode, reasoning="object")
        _, reply = await ask(model)
        assert reply.message.parts == (thought, call)
        await ask(model, ModelRequest((*ASK.messages, reply.message, ToolResult("a", "read", "y"))))
        sent = server.requests[1].body
    kept = [*thought.details, *thought.items]
    assert kept == _thoughts_in(mode, sent)


def _thoughts_in(mode: str, body: dict) -> list:
    match mode:
        case "chat_completions":
            return body["messages"][2]["reasoning_details"]
        case "anthropic_messages":
            return body["messages"][1]["content"][:1]
        case _:
            return [item for item in body["input"] if item["type"] == "reasoning"]


async def test_the_prefix_of_a_request_is_byte_stable(client, mode):
    with ModelServer(["one", "two"]) as server:
        model = wire(server, client, mode)
        _, reply = await ask(model)
        await ask(model, ModelRequest((*ASK.messages, reply.message, User.say("more"))))
        first, second = (request.raw for request in server.requests)
    shared = first[: first.index(b"hello") + 5]
    assert second.startswith(shared)


async def test_a_long_history_is_encoded_once(client, mode):
    message = User.say("hello")
    with ModelServer(["a", "b"]) as server:
        model = wire(server, client, mode)
        await ask(model, ModelRequest((message,)))
        (form, encoded), *_ = message.__dict__["wire_forms"].items()
        await ask(model, ModelRequest((message, User.say("again"))))
        assert message.__dict__["wire_forms"] == {form: encoded}
        assert message.wire(form) is encoded
