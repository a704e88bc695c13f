"""What only the wire of Anthropic has, through the official client."""

import anthropic
import pytest

from hermes.core.messages import Text, Thinking
from hermes.core.model import Usage
from hermes.core.testing import ErrorEvent, Headers, ModelServer, Step
from hermes.core.testing.script import REFUSALS
from tests.integration.sdk.wires import CALLS, EXPECTED, HIDDEN, MESSAGES, SAID, SIGNED, THOUGHTS


def test_input_grows_as_it_is_streamed():
    with (
        ModelServer([CALLS[:1]]) as server,
        MESSAGES.client(server) as client,
        client.messages.stream(**MESSAGES.request) as events,
    ):
        pieces = [event for event in events if event.type == "input_json"]
    assert len(pieces) > 2
    assert pieces[-1].snapshot == EXPECTED[0][2]


def test_thinking_comes_signed_or_hidden(stream):
    message = MESSAGES.ask([*THOUGHTS, Text("ok")], stream=stream)
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "redacted_thinking", "text"]
    assert message.content[0].to_dict() == SIGNED
    assert message.content[1].to_dict() == HIDDEN


def test_a_thought_without_a_signature_gets_one(stream):
    thought, _ = MESSAGES.ask([Thinking("hm"), Text("ok")], stream=stream).content
    assert thought.thinking == "hm"
    assert thought.signature


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("refusal", "refusal"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_stop_reason_is_reported(stream, finish, reason):
    message = MESSAGES.ask(Step((Text("some"),), finish_reason=finish), stream=stream)
    assert message.stop_reason == reason
    assert (message.stop_details is not None) is (reason == "refusal")


def test_usage_has_its_cache_and_thinking_numbers(stream):
    usage = Usage(input=100, output=20, cache_read=3000, cache_write=400, reasoning=5)
    reported = MESSAGES.ask(Step((Text("x"),), usage=usage), stream=stream).usage
    assert (reported.input_tokens, reported.output_tokens) == (100, 20)
    assert (reported.cache_read_input_tokens, reported.cache_creation_input_tokens) == (3000, 400)
    assert reported.output_tokens_details is not None
    assert reported.output_tokens_details.thinking_tokens == 5


@pytest.mark.parametrize("kind", ["overloaded", "rate_limited"])
def test_an_error_in_a_stream_is_raised(kind):
    with pytest.raises(anthropic.APIStatusError) as caught:
        MESSAGES.ask(Step((Text(SAID),), faults=(ErrorEvent(1, kind),)), stream=True)
    assert caught.value.body["error"]["type"] == REFUSALS[kind].anthropic_type


def test_headers_of_a_reply_are_seen():
    step = Step((Text("hi"),), faults=(Headers({"anthropic-ratelimit-requests-remaining": "12"}),))
    with ModelServer([step]) as server, MESSAGES.client(server) as client:
        raw = client.messages.with_raw_response.create(**MESSAGES.request)
    assert raw.headers["anthropic-ratelimit-requests-remaining"] == "12"
    assert raw.headers["request-id"]
