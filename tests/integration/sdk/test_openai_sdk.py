"""The official openai client, on both of its wires, takes the model server for the real thing."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_reasoning_item import ResponseReasoningItem

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

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
SAID = "Grüße, 日本語 🙂 and more"
CALLS = (
    ToolCall("call_1", "read_file", '{"path": "ä.txt", "limit": 3}'),
    ToolCall("call_2", "terminal", '{"command": "ls -l"}'),
)
EXTENSIONS = frozenset({"reasoning_content", "reasoning", "reasoning_details", "extra_content"})
ITEM = {
    "id": "rs_9",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "I looked"}],
    "encrypted_content": "gAAAA",
}
USER: list[Any] = [{"role": "user", "content": "hello"}]
REQUESTS: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": USER},
    RESPONSES: {"model": "m", "input": USER, "include": ["reasoning.encrypted_content"]},
}
TOOL: Any = {
    "type": "function",
    "name": "read_file",
    "description": "",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    "strict": False,
}


@contextmanager
def client_of(server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-test", max_retries=0) as client:
        yield client


def chat(client: openai.OpenAI, *, stream: bool) -> Any:
    """A completion; a streamed one is put together by the SDK's own helper."""
    request = REQUESTS[CHAT]
    if not stream:
        return client.chat.completions.create(**request)
    with client.chat.completions.stream(
        **request, stream_options={"include_usage": True}
    ) as replies:
        return replies.until_done().current_completion_snapshot


def respond(client: openai.OpenAI, *, stream: bool) -> Any:
    """A response; a streamed one must be the same by its deltas and by its last event."""
    request = REQUESTS[RESPONSES]
    if not stream:
        return client.responses.create(**request)
    with client.responses.stream(**request) as events:
        *_, last = events
    return last.response


ASKS: dict[str, Callable[..., Any]] = {CHAT: chat, RESPONSES: respond}


def ask(path: str, step: StepLike, *, stream: bool) -> Any:
    with ModelServer([step]) as server, client_of(server) as client:
        return ASKS[path](client, stream=stream)


@pytest.fixture(params=[CHAT, RESPONSES])
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def calls_of(reply: Any) -> list[tuple[str, str, str]]:
    if hasattr(reply, "choices"):
        calls = reply.choices[0].message.tool_calls
        return [(call.id, call.function.name, call.function.arguments) for call in calls]
    calls = [item for item in reply.output if item.type == "function_call"]
    return [(call.call_id, call.name, call.arguments) for call in calls]


def said(reply: Any) -> str | None:
    if hasattr(reply, "choices"):
        return reply.choices[0].message.content  # type: ignore[no-any-return]
    return str(reply.output_text)


@pytest.mark.parametrize(
    "faults",
    [(), (Gzip(),), (SplitBytes(1),), (KeepAlive(),), (Gzip(), SplitBytes(3), KeepAlive())],
    ids=["plain", "gzip", "torn", "comments", "all"],
)
def test_a_text_arrives_however_it_is_sent(path, stream, faults):
    sendable = tuple(fault for fault in faults if stream or not isinstance(fault, KeepAlive))
    assert said(ask(path, Step((Text(SAID),), faults=sendable), stream=stream)) == SAID


@pytest.mark.parametrize("faults", [(), (Interleave(),)], ids=["one by one", "interleaved"])
def test_parallel_calls_arrive_with_their_arguments(path, faults):
    reply = ask(path, Step((Text("both:"), *CALLS), faults=faults), stream=True)
    assert calls_of(reply) == [(call.id, call.name, call.arguments) for call in CALLS]
    assert said(reply) == "both:"


def test_parallel_calls_of_a_whole_reply(path):
    reply = ask(path, CALLS, stream=False)
    assert calls_of(reply) == [(call.id, call.name, call.arguments) for call in CALLS]


def test_arguments_grow_as_they_are_streamed():
    with (
        ModelServer([Step(CALLS, faults=(Interleave(),))]) as server,
        client_of(server) as client,
        client.responses.stream(**REQUESTS[RESPONSES]) as events,
    ):
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
def test_why_a_reply_ended_is_known(path, stream, finish, on_chat, on_responses):
    reply = ask(path, Step((Text("some"),), finish_reason=finish), stream=stream)
    if path == CHAT:
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
def test_a_reply_that_is_not_complete_is_no_final_completion(finish, error):
    step = Step((Text("some"),), finish_reason=finish)
    with (
        ModelServer([step]) as server,
        client_of(server) as client,
        client.chat.completions.stream(**REQUESTS[CHAT]) as replies,
        pytest.raises(error),
    ):
        replies.get_final_completion()


def test_calls_are_the_reason_when_there_are_calls(stream):
    assert ask(CHAT, CALLS, stream=stream).choices[0].finish_reason == "tool_calls"


def test_a_refusal_of_the_model_is_no_text(path, stream):
    reply = ask(path, Step((Text("I will not."),), finish_reason="refusal"), stream=stream)
    if path == CHAT:
        message = reply.choices[0].message
        assert message.refusal == "I will not."
        assert not message.content
    else:
        (content,) = reply.output[0].content
        assert (content.type, content.refusal) == ("refusal", "I will not.")
        assert reply.output_text == ""


def test_usage_has_its_cache_and_reasoning_numbers(path, stream):
    usage = Usage(input=100, output=20, cache_read=3000, cache_write=400, reasoning=5)
    told = ask(path, Step((Text("x"),), usage=usage), stream=stream).usage
    if path == CHAT:
        before, after = told.prompt_tokens_details, told.completion_tokens_details
        totals = (told.prompt_tokens, told.completion_tokens, told.total_tokens)
    else:
        before, after = told.input_tokens_details, told.output_tokens_details
        totals = (told.input_tokens, told.output_tokens, told.total_tokens)
    assert totals == (3500, 20, 3520)
    assert (before.cached_tokens, before.cache_write_tokens) == (3000, 400)
    assert after.reasoning_tokens == 5


def test_an_encrypted_reasoning_item_comes_whole(stream):
    reply = ask(RESPONSES, [Thinking("I looked", items=(ITEM,)), Text("done")], stream=stream)
    thought = reply.output[0]
    assert isinstance(thought, ResponseReasoningItem)
    assert thought.to_dict() == ITEM
    assert reply.output_text == "done"


def test_a_summary_of_reasoning_is_streamed():
    with (
        ModelServer([[Thinking("I should look"), Text("ok")]]) as server,
        client_of(server) as client,
        client.responses.stream(**REQUESTS[RESPONSES]) as events,
    ):
        kind = "response.reasoning_summary_text.delta"
        assert "".join(event.delta for event in events if event.type == kind) == "I should look"


SCRIPTS: dict[str, StepLike] = {
    "every kind of part": [Thinking("I should look"), Text(SAID), *CALLS],
    "nothing": Step(),
    "interleaved": Step(CALLS, faults=(Interleave(),)),
    "cut off": Step((Text("some"),), finish_reason="length"),
    "filtered": Step((Text("some"),), finish_reason="content_filter"),
    "declined": Step((Text("no"),), finish_reason="refusal"),
    "encrypted": [Thinking("I looked", items=(ITEM,)), Text("done")],
    "details": [
        Thinking("deep thought", details=({"type": "reasoning.text", "text": "deep thought"},))
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_body_and_every_event_has_the_exact_shape(path, script):
    tools = {"tools": [TOOL]} if path == RESPONSES else {}
    request = {**REQUESTS[path], **tools}
    whole, event = (
        (ChatCompletion, ChatCompletionChunk) if path == CHAT else (Response, ResponseStreamEvent)
    )
    with ModelServer(lambda _request: SCRIPTS[script]) as server:
        if script != "interleaved":
            checked(whole, body_of(server, path, request), extensions=EXTENSIONS)
        options = {"stream_options": {"include_usage": True}} if path == CHAT else {}
        events = events_of(server, path, {**request, **options})
        assert len(events) > 2
        for data in events:
            checked(event, data, extensions=EXTENSIONS)


@pytest.mark.parametrize("kind", ["overloaded", "rate_limited", "server_error"])
def test_every_way_a_response_fails_in_its_stream_has_the_exact_shape(kind):
    with ModelServer([Step((Text(SAID),), faults=(ErrorEvent(1, kind),))]) as server:
        for data in events_of(server, RESPONSES, REQUESTS[RESPONSES]):
            checked(ResponseStreamEvent, data)


CLASSES: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    402: openai.APIStatusError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    413: openai.APIStatusError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
    529: openai.InternalServerError,
}


@pytest.mark.parametrize("kind", [kind for kind in REFUSALS if kind != "empty"])
def test_every_refusal_is_the_exception_of_its_status(path, stream, kind):
    refusal = REFUSALS[kind]
    with pytest.raises(openai.APIStatusError) as caught:
        ask(path, Refuse(kind, retry_after=7), stream=stream)
    error = caught.value
    assert type(error) is CLASSES[refusal.status]
    assert error.status_code == refusal.status
    assert error.request_id
    assert error.response.headers["retry-after"] == "7"
    if kind != "html":
        assert (error.code, error.type, error.param) == (refusal.code, refusal.type, refusal.param)
        assert refusal.message in error.message


@pytest.mark.parametrize("kind", ["overloaded", "context_length"])
def test_an_error_in_a_chat_stream_is_raised(kind):
    with pytest.raises(openai.APIError) as caught:
        ask(CHAT, Step((Text(SAID),), faults=(ErrorEvent(1, kind),)), stream=True)
    assert caught.value.message == REFUSALS[kind].message
    assert caught.value.code == REFUSALS[kind].code


@pytest.mark.parametrize(
    ("kind", "event"), [("overloaded", "error"), ("server_error", "response.failed")]
)
def test_an_error_in_a_stream_of_responses_is_its_last_event(kind, event):
    with (
        ModelServer([Step((Text(SAID),), faults=(ErrorEvent(1, kind),))]) as server,
        client_of(server) as client,
        client.responses.stream(**REQUESTS[RESPONSES]) as events,
    ):
        *_, last = events
    assert last.type == event
    error = last if event == "error" else last.response.error
    assert error.message == REFUSALS[kind].message


def test_a_stream_that_breaks_off_is_noticed(path):
    with pytest.raises(openai.APIConnectionError):
        ask(path, Step((Text(SAID),), faults=(Cut(1),)), stream=True)


def test_an_event_that_is_no_json_is_noticed(path):
    with pytest.raises(json.JSONDecodeError):
        ask(path, Step((Text(SAID),), faults=(Malformed(1),)), stream=True)


def test_a_redirect_is_followed_to_the_next_step(path, stream):
    with ModelServer([Redirect(path), "there"]) as server, client_of(server) as client:
        assert said(ASKS[path](client, stream=stream)) == "there"
        assert [call.method for call in server.calls] == ["POST", "POST"]


def test_headers_of_a_reply_are_seen():
    step = Step((Text("hi"),), faults=(Headers({"x-ratelimit-remaining-tokens": "12"}),))
    with ModelServer([step]) as server, client_of(server) as client:
        raw = client.chat.completions.with_raw_response.create(**REQUESTS[CHAT])
    assert raw.headers["x-ratelimit-remaining-tokens"] == "12"


def test_the_models_are_listed():
    with ModelServer([], models=("one", "two")) as server, client_of(server) as client:
        listed = list(client.models.list())
        assert [model.id for model in listed] == ["one", "two"]
        for model in listed:
            checked(Model, model.to_dict())
        assert server.calls == []
