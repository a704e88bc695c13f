"""What only the two wires of OpenAI have, through the official client."""

from contextlib import contextmanager

import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_reasoning_item import ResponseReasoningItem

from hermes.core.messages import Text, Thinking
from hermes.core.model import Usage
from hermes.core.testing import ErrorEvent, Headers, Interleave, ModelServer, Step
from hermes.core.testing.script import REFUSALS
from tests.integration.sdk.strict import checked, events_of
from tests.integration.sdk.wires import CALLS, CHAT, ITEM, RESPONSES, SAID, WIRES, Wire


@pytest.fixture(params=["chat", "responses"])
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


@contextmanager
def streamed(step):
    """Yield the events of a streamed response."""
    with (
        ModelServer([step]) as server,
        CHAT.client(server) as client,
        client.responses.stream(**RESPONSES.request) as events,
    ):
        yield events


def test_arguments_grow_as_they_are_streamed():
    with streamed(Step(CALLS, faults=(Interleave(),))) as events:
        kind = "response.function_call_arguments.delta"
        last = {event.output_index: event.snapshot for event in events if event.type == kind}
    assert last == {0: CALLS[0].arguments, 1: CALLS[1].arguments}


@pytest.mark.parametrize(
    ("finish", "on_chat", "on_responses"),
    [
        ("stop", "stop", ("completed", None)),
        ("length", "length", ("incomplete", "max_output_tokens")),
        ("content_filter", "content_filter", ("incomplete", "content_filter")),
    ],
)
def test_finish_reason_is_reported(wire, stream, finish, on_chat, on_responses):
    reply = wire.ask(Step((Text("some"),), finish_reason=finish), stream=stream)
    if wire is CHAT:
        assert reply.choices[0].finish_reason == on_chat
    else:
        details = reply.incomplete_details
        assert (reply.status, details and details.reason) == on_responses
        assert reply.output[-1].status == reply.status


@pytest.mark.parametrize(
    ("finish", "error"),
    [
        ("length", openai.LengthFinishReasonError),
        ("content_filter", openai.ContentFilterFinishReasonError),
    ],
)
def test_incomplete_reply_is_not_a_final_completion(finish, error):
    step = Step((Text("some"),), finish_reason=finish)
    with (
        ModelServer([step]) as server,
        CHAT.client(server) as client,
        client.chat.completions.stream(**CHAT.request) as replies,
        pytest.raises(error),
    ):
        replies.get_final_completion()


def test_calls_are_the_reason_when_there_are_calls(stream):
    assert CHAT.ask(CALLS, stream=stream).choices[0].finish_reason == "tool_calls"


def test_refusal_of_the_model_is_not_text(wire, stream):
    reply = wire.ask(Step((Text("I will not."),), finish_reason="refusal"), stream=stream)
    if wire is CHAT:
        message = reply.choices[0].message
        assert message.refusal == "I will not."
        assert not message.content
    else:
        (content,) = reply.output[0].content
        assert (content.type, content.refusal) == ("refusal", "I will not.")
        assert reply.output_text == ""


def test_usage_has_its_cache_and_reasoning_numbers(wire, stream):
    usage = Usage(input=100, output=20, cache_read=3000, cache_write=400, reasoning=5)
    reported = wire.ask(Step((Text("x"),), usage=usage), stream=stream).usage
    if wire is CHAT:
        before, after = reported.prompt_tokens_details, reported.completion_tokens_details
        totals = (reported.prompt_tokens, reported.completion_tokens, reported.total_tokens)
    else:
        before, after = reported.input_tokens_details, reported.output_tokens_details
        totals = (reported.input_tokens, reported.output_tokens, reported.total_tokens)
    assert totals == (3500, 20, 3520)
    assert (before.cached_tokens, before.cache_write_tokens) == (3000, 400)
    assert after.reasoning_tokens == 5


def test_an_encrypted_reasoning_item_comes_whole(stream):
    reply = RESPONSES.ask([Thinking("I looked", items=(ITEM,)), Text("done")], stream=stream)
    thought = reply.output[0]
    assert isinstance(thought, ResponseReasoningItem)
    assert thought.to_dict() == ITEM
    assert reply.output_text == "done"


def test_a_summary_of_reasoning_is_streamed():
    with streamed([Thinking("I should look"), Text("ok")]) as events:
        kind = "response.reasoning_summary_text.delta"
        assert "".join(event.delta for event in events if event.type == kind) == "I should look"


@pytest.mark.parametrize("kind", ["overloaded", "rate_limited", "server_error"])
def test_every_way_a_response_fails_in_its_stream_has_the_exact_shape(kind):
    with ModelServer([Step((Text(SAID),), faults=(ErrorEvent(1, kind),))]) as server:
        for data in events_of(server, RESPONSES.path, RESPONSES.request):
            checked(ResponseStreamEvent, data)


@pytest.mark.parametrize("kind", ["overloaded", "context_length"])
def test_an_error_in_a_chat_stream_is_raised(kind):
    with pytest.raises(openai.APIError) as caught:
        CHAT.ask(Step((Text(SAID),), faults=(ErrorEvent(1, kind),)), stream=True)
    assert caught.value.message == REFUSALS[kind].message
    assert caught.value.code == REFUSALS[kind].code


@pytest.mark.parametrize(
    ("kind", "event"), [("overloaded", "error"), ("server_error", "response.failed")]
)
def test_an_error_in_a_stream_of_responses_is_its_last_event(kind, event):
    with streamed(Step((Text(SAID),), faults=(ErrorEvent(1, kind),))) as events:
        *_, last = events
    assert last.type == event
    error = last if event == "error" else last.response.error
    assert error.message == REFUSALS[kind].message


def test_headers_of_a_reply_are_seen():
    step = Step((Text("hi"),), faults=(Headers({"x-ratelimit-remaining-tokens": "12"}),))
    with ModelServer([step]) as server, CHAT.client(server) as client:
        raw = client.chat.completions.with_raw_response.create(**CHAT.request)
    assert raw.headers["x-ratelimit-remaining-tokens"] == "12"
