"""The official anthropic client takes the model server for the real thing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types import Message, ModelInfo, RawMessageStreamEvent

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.model import Usage
from hermes.core.testing import (
    Cut,
    ErrorEvent,
    Gzip,
    Headers,
    Interleave,
    KeepAlive,
    Malformed,
    ModelServer,
    Redirect,
    Refuse,
    SplitBytes,
    Step,
    StepLike,
)
from hermes.core.testing.script import REFUSALS
from tests.integration.sdk.strict import body_of, checked, events_of

PATH = "/v1/messages"
SAID = "Grüße, 日本語 🙂 and more"
CALLS = (
    ToolCall("toolu_1", "read_file", '{"path": "ä.txt", "limit": 3}'),
    ToolCall("toolu_2", "terminal", '{"command": "ls -l"}'),
)
SIGNED = {"type": "thinking", "thinking": "deep thought", "signature": "EqQBs1gn"}
HIDDEN = {"type": "redacted_thinking", "data": "EmwKxyz"}
THOUGHTS = (Thinking("deep thought", details=(SIGNED,)), Thinking(details=(HIDDEN,)))
REQUEST: dict[str, Any] = {
    "model": "m",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello"}],
}


@contextmanager
def client_of(server: ModelServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="sk-test", max_retries=0) as client:
        yield client


def send(client: anthropic.Anthropic, *, stream: bool) -> Message:
    """A message; a streamed one is put together by the SDK's own helper."""
    if not stream:
        return client.messages.create(**REQUEST)  # type: ignore[no-any-return]
    with client.messages.stream(**REQUEST) as events:
        return events.get_final_message()


def ask(step: StepLike, *, stream: bool) -> Message:
    with ModelServer([step]) as server, client_of(server) as client:
        return send(client, stream=stream)


def inputs(message: Message) -> list[tuple[str, str, Any]]:
    return [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"]


EXPECTED = [(call.id, call.name, json.loads(call.arguments)) for call in CALLS]


@pytest.mark.parametrize(
    "faults",
    [(), (Gzip(),), (SplitBytes(1),), (KeepAlive(),), (Gzip(), SplitBytes(3), KeepAlive())],
    ids=["plain", "gzip", "torn", "comments", "all"],
)
def test_a_text_arrives_however_it_is_sent(stream, faults):
    sendable = tuple(fault for fault in faults if stream or not isinstance(fault, KeepAlive))
    (block,) = ask(Step((Text(SAID),), faults=sendable), stream=stream).content
    assert block.text == SAID


def test_parallel_calls_arrive_with_their_input(stream):
    message = ask([Text("both:"), *CALLS], stream=stream)
    assert inputs(message) == EXPECTED
    assert message.stop_reason == "tool_use"


def test_interleaved_calls_arrive_with_their_input():
    assert inputs(ask(Step(CALLS, faults=(Interleave(),)), stream=True)) == EXPECTED


def test_input_grows_as_it_is_streamed():
    with (
        ModelServer([CALLS[:1]]) as server,
        client_of(server) as client,
        client.messages.stream(**REQUEST) as events,
    ):
        pieces = [event for event in events if event.type == "input_json"]
    assert len(pieces) > 2
    assert pieces[-1].snapshot == EXPECTED[0][2]


def test_thinking_comes_signed_or_hidden(stream):
    message = ask([*THOUGHTS, Text("ok")], stream=stream)
    kinds = [block.type for block in message.content]
    assert kinds == ["thinking", "redacted_thinking", "text"]
    assert message.content[0].to_dict() == SIGNED
    assert message.content[1].to_dict() == HIDDEN


def test_a_thought_without_a_signature_gets_one(stream):
    thought, _ = ask([Thinking("hm"), Text("ok")], stream=stream).content
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
def test_why_a_message_ended_is_known(stream, finish, reason):
    message = ask(Step((Text("some"),), finish_reason=finish), stream=stream)
    assert message.stop_reason == reason
    assert (message.stop_details is not None) is (reason == "refusal")


def test_usage_has_its_cache_and_thinking_numbers(stream):
    usage = Usage(input=100, output=20, cache_read=3000, cache_write=400, reasoning=5)
    told = ask(Step((Text("x"),), usage=usage), stream=stream).usage
    assert (told.input_tokens, told.output_tokens) == (100, 20)
    assert (told.cache_read_input_tokens, told.cache_creation_input_tokens) == (3000, 400)
    assert told.output_tokens_details is not None
    assert told.output_tokens_details.thinking_tokens == 5


SCRIPTS: dict[str, StepLike] = {
    "every kind of part": [*THOUGHTS, Text(SAID), *CALLS],
    "nothing": Step(),
    "interleaved": Step(CALLS, faults=(Interleave(),)),
    "cut off": Step((Text("some"),), finish_reason="length"),
    "declined": Step((Text("no"),), finish_reason="refusal"),
    "accounted": Step((Text("x"),), usage=Usage(1, 2, 3, 4, 1)),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_body_and_every_event_has_the_exact_shape(script):
    with ModelServer(lambda _request: SCRIPTS[script]) as server:
        if script != "interleaved":
            checked(Message, body_of(server, PATH, REQUEST))
        events = events_of(server, PATH, REQUEST)
    pings = [data for data in events if data == {"type": "ping"}]
    assert len(pings) == 1, "the SDK has no type for these"
    for data in events:
        if data not in pings:
            checked(RawMessageStreamEvent, data)


CLASSES: dict[int, type[anthropic.APIStatusError]] = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    402: anthropic.APIStatusError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    413: anthropic.RequestTooLargeError,
    429: anthropic.RateLimitError,
    500: anthropic.InternalServerError,
    502: anthropic.InternalServerError,
    503: anthropic.ServiceUnavailableError,
    529: anthropic.OverloadedError,
}


@pytest.mark.parametrize("kind", [kind for kind in REFUSALS if kind != "empty"])
def test_every_refusal_is_the_exception_of_its_status(stream, kind):
    refusal = REFUSALS[kind]
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(Refuse(kind, retry_after=7), stream=stream)
    error = caught.value
    assert type(error) is CLASSES[refusal.status]
    assert error.status_code == refusal.status
    assert error.request_id
    assert error.response.headers["retry-after"] == "7"
    if kind != "html":
        assert isinstance(error.body, dict)
        assert error.body["error"] == {
            "type": refusal.anthropic_type,
            "message": refusal.anthropic_message,
        }


@pytest.mark.parametrize("kind", ["overloaded", "rate_limited"])
def test_an_error_in_a_stream_is_raised(kind):
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(Step((Text(SAID),), faults=(ErrorEvent(1, kind),)), stream=True)
    assert caught.value.body["error"]["type"] == REFUSALS[kind].anthropic_type


def test_a_stream_that_breaks_off_is_noticed():
    with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
        ask(Step((Text(SAID),), faults=(Cut(1),)), stream=True)


def test_an_event_that_is_no_json_is_noticed():
    with pytest.raises(json.JSONDecodeError):
        ask(Step((Text(SAID),), faults=(Malformed(1),)), stream=True)


def test_a_redirect_is_followed_to_the_next_step(stream):
    with ModelServer([Redirect(PATH), "there"]) as server, client_of(server) as client:
        assert send(client, stream=stream).content[0].text == "there"
        assert [call.method for call in server.calls] == ["POST", "POST"]


def test_headers_of_a_reply_are_seen():
    step = Step((Text("hi"),), faults=(Headers({"anthropic-ratelimit-requests-remaining": "12"}),))
    with ModelServer([step]) as server, client_of(server) as client:
        raw = client.messages.with_raw_response.create(**REQUEST)
    assert raw.headers["anthropic-ratelimit-requests-remaining"] == "12"
    assert raw.headers["request-id"]


def test_the_models_are_listed():
    with ModelServer([], models=("one", "two")) as server, client_of(server) as client:
        listed = list(client.models.list())
        assert [model.id for model in listed] == ["one", "two"]
        for model in listed:
            checked(ModelInfo, model.to_dict())
        assert server.calls == []
