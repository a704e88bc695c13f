"""Scripted models and their faults."""

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import Interrupted, RateLimited
from hermes.core.messages import Assistant, Text, Thinking, ToolCall, User
from hermes.core.model import Model, ModelRequest, ReasoningDelta, Reply, TextDelta, Usage
from hermes.core.testing import Cut, ScriptedModel, ScriptError, Slow, Stall, Step, scripts

HELLO = ModelRequest((User.say("hello"),))
CALL = ToolCall("c1", "read_file", "{}")


async def play(model: Model, request: ModelRequest = HELLO):
    events: list[object] = []
    events.append(await model.call(request, events.append))
    return events


async def test_text_and_thinking_come_in_small_deltas_and_the_reply_is_last():
    parts = (Thinking("thinking it over"), Text("a longer sentence"), CALL)
    with ScriptedModel([parts]) as model:
        *deltas, reply = await play(model)
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == "a longer sentence"
    assert "".join(d.text for d in deltas if isinstance(d, ReasoningDelta)) == "thinking it over"
    assert len(deltas) == 5
    assert isinstance(reply, Reply)
    assert reply.message == Assistant(parts, "tool_calls")
    assert reply.usage.output > reply.usage.reasoning > 0


async def test_a_step_sets_finish_reason_and_usage():
    step = Step((Text("cut off"),), finish_reason="length", usage=Usage(7, 8))
    with ScriptedModel([step], name="big", provider="acme") as model:
        reply = (await play(model))[-1]
    assert (reply.message.finish_reason, reply.usage, reply.model) == ("length", Usage(7, 8), "big")
    assert model.provider == "acme"


async def test_an_exception_in_the_script_is_raised_by_the_call():
    with ScriptedModel([RateLimited("slow down"), "better"]) as model:
        with pytest.raises(RateLimited, match="slow down"):
            await play(model)
        assert (await play(model))[-1].message.text == "better"


async def test_a_function_sees_the_request():
    with ScriptedModel([lambda request: f"you said {request.messages[-1].text}"]) as model:
        assert (await play(model))[-1].message.text == "you said hello"
    assert model.requests == [HELLO]


async def test_a_used_up_script_says_so():
    with ScriptedModel(["once"]) as model:
        await play(model)
        with pytest.raises(ScriptError, match="the script is used up: call 2 has no step"):
            await play(model)


async def test_an_error_in_the_block_is_not_hidden_by_an_unused_step():
    with pytest.raises(ValueError, match="real"), ScriptedModel(["one"]):
        raise ValueError("real")


async def test_a_fixture_checks_every_model_it_made():
    with pytest.raises(ScriptError, match="never used; next: 'left'"), scripts() as make:
        await play(make(["used"]))
        make(["left"], name="second")


async def test_a_stall_is_ended_by_the_cancel_token():
    token, seen = CancelToken(), []
    step = Step((Text("first and then never"),), faults=(Stall(after=1),))

    def stop(delta: object) -> None:
        seen.append(delta)
        token.cancel()

    with ScriptedModel([step]) as model, pytest.raises(Interrupted):
        await token.guard(model.call(HELLO, stop))
    assert seen == [TextDelta("first an")]


async def test_a_short_stall_and_slow_deltas_arrive_in_the_end():
    step = Step((Text("first and then more"),), faults=(Stall(2, 0.001), Slow(0.001)))
    with ScriptedModel([step]) as model:
        assert (await play(model))[-1].message.text == "first and then more"


async def test_a_stall_behind_the_last_delta_is_a_mistake():
    too_few = pytest.raises(ScriptError, match="1 deltas, too few for Stall")
    with ScriptedModel([Step((Text("short"),), faults=(Stall(after=2),))]) as model, too_few:
        await play(model)


async def test_faults_of_http_are_left_to_the_model_server():
    with ScriptedModel([Cut(0)]) as model, pytest.raises(ScriptError, match="use ModelServer"):
        await play(model)
