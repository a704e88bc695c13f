"""A model without tool calls of its own works as an agent's model."""

from collections.abc import AsyncGenerator

import pytest

from hermes.core.errors import ReplyInvalid, ServerFault
from hermes.core.messages import Assistant, Message, Text, ToolCall, ToolResult, User
from hermes.core.model import ModelEvent, ModelRequest, Reply, TextDelta
from hermes.core.testing import ScriptedModel, Step
from hermes.core.usage import Usage
from hermes.providers.small_model import SMALL, SmallModel
from tests.unit.providers.small.test_schema import READ, SEARCH, TERMINAL, WRITE

TOOLS = (READ, SEARCH, TERMINAL, WRITE)
QUESTION = User.say("How many files?")
LS = '{"terminal":{"command":"ls"}}'


async def answer(
    steps: list[Step | str], *messages: Message, tools=TOOLS
) -> tuple[str, Reply, ModelRequest]:
    """The streamed text, the reply, and the request the inner model got."""
    with ScriptedModel(steps) as inner:
        request = ModelRequest(messages or (QUESTION,), tools)
        events: list[ModelEvent] = [event async for event in SmallModel(inner).stream(request)]
    assert isinstance(events[-1], Reply)
    streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
    return streamed, events[-1], inner.requests[-1]


def round_trip(times: int, command: str = "ls", result: str = "a\nb") -> list[Message]:
    messages: list[Message] = []
    for number in range(times):
        call = ToolCall(f"c{number}", "terminal", f'{{"command": "{command}"}}')
        messages += [Assistant((call,)), ToolResult(f"c{number}", "terminal", result)]
    return messages


def only_reply_is_allowed(request: ModelRequest) -> bool:
    assert request.reply_schema is not None
    return [list(option["properties"]) for option in request.reply_schema["oneOf"]] == [["reply"]]


async def test_a_call_becomes_a_tool_call_and_nothing_is_shown():
    streamed, reply, request = await answer([LS])
    (call,) = reply.message.calls
    assert (call.name, call.arguments) == ("terminal", '{"command":"ls"}')
    assert reply.message.finish_reason == "tool_calls"
    assert reply.message.text == ""
    assert streamed == ""
    assert request.tools == ()
    assert request.temperature == 0


async def test_the_same_conversation_gives_the_same_call_id_and_another_call_another():
    _, first, _ = await answer([LS])
    _, again, _ = await answer([LS])
    _, later, _ = await answer([LS], QUESTION, *round_trip(1))
    assert first.message.calls[0].id == again.message.calls[0].id
    assert first.message.calls[0].id != later.message.calls[0].id


async def test_a_reply_is_streamed_and_becomes_text():
    streamed, reply, _ = await answer(['{"reply":"There are “2” files.\\nBye"}'])
    assert streamed == reply.message.text == "There are “2” files.\nBye"
    assert reply.message.finish_reason == "stop"


async def test_usage_passes_through():
    usage = Usage(input=5, output=7, cache_read=600)
    _, reply, _ = await answer([Step((Text('{"reply":"ok"}'),), usage=usage)])
    assert reply.usage == usage


async def test_without_tools_only_a_reply_is_asked_for():
    _, reply, request = await answer(['{"reply":"hello"}'], tools=())
    assert reply.message.text == "hello"
    assert only_reply_is_allowed(request)


async def test_the_front_of_the_request_does_not_change_between_turns():
    _, _, first = await answer([LS])
    _, _, later = await answer([LS], QUESTION, *round_trip(1), User.say("And now?"))
    assert first.messages[:-1] == later.messages[: len(first.messages) - 1]


async def test_a_model_that_repeats_itself_has_to_reply():
    _, _, once = await answer([LS], QUESTION, *round_trip(1))
    assert not only_reply_is_allowed(once)
    _, _, twice = await answer(['{"reply":"two"}'], QUESTION, *round_trip(2))
    assert only_reply_is_allowed(twice)


async def test_the_same_call_after_a_new_question_is_fine():
    _, _, request = await answer([LS], QUESTION, *round_trip(2), User.say("And now?"))
    assert not only_reply_is_allowed(request)


async def test_many_different_calls_end_in_a_reply():
    steps = [m for number in range(SMALL.max_calls) for m in round_trip(1, f"echo {number}")]
    _, _, request = await answer(['{"reply":"enough"}'], QUESTION, *steps)
    assert only_reply_is_allowed(request)


async def test_an_announced_list_is_completed_with_the_result():
    streamed, reply, _ = await answer(['{"reply":"The files are:"}'], QUESTION, *round_trip(1))
    assert streamed == reply.message.text == "The files are:\na\nb"


async def test_without_a_result_a_colon_stays_a_colon():
    streamed, reply, _ = await answer(['{"reply":"Tell me more:"}'])
    assert streamed == reply.message.text == "Tell me more:"


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        '{"reply":',
        "[]",
        "{}",
        '{"reply":"a","terminal":{}}',
        '{"reply":{}}',
        '{"terminal":"ls"}',
        '{"reply":""}',
        '{"reply":"  "}',
    ],
)
async def test_an_answer_against_the_grammar_is_refused_in_one_line(text: str):
    with pytest.raises(ReplyInvalid) as caught:
        await answer([text])
    assert str(caught.value).startswith("the answer of scripted")
    assert "\n" not in str(caught.value)
    assert caught.value.hint


async def test_a_reply_cut_by_the_length_limit_is_still_shown():
    step = Step((Text('{"reply":"One two thr'),), finish_reason="length")
    streamed, reply, _ = await answer([step])
    assert streamed == reply.message.text == "One two thr"
    assert reply.message.finish_reason == "length"


async def test_a_call_cut_by_the_length_limit_is_refused():
    step = Step((Text('{"write_file":{"path":"a","content":"x'),), finish_reason="length")
    with pytest.raises(ReplyInvalid, match="cut off"):
        await answer([step])


async def test_errors_of_the_model_come_through():
    with pytest.raises(ServerFault):
        await answer([ServerFault("down")])


class Endless:
    """A model that talks until its stream is closed."""

    name = provider = "endless"
    closed = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            yield TextDelta('{"reply":"')
            while True:
                yield TextDelta("on ")
        finally:
            self.closed = True


async def test_closing_the_stream_ends_the_call_at_once():
    inner = Endless()
    events = SmallModel(inner).stream(ModelRequest((QUESTION,)))
    assert await anext(events) == TextDelta("on ")
    await events.aclose()
    assert inner.closed


async def test_a_smaller_limit_of_the_agent_is_kept():
    with ScriptedModel(['{"reply":"ok"}']) as inner:
        request = ModelRequest((QUESTION,), max_tokens=50, temperature=0.7)
        [_ async for _ in SmallModel(inner).stream(request)]
    assert inner.requests[0].max_tokens == 50
    assert inner.requests[0].temperature == 0.7
