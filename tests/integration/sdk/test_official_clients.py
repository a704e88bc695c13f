"""The official clients take the model server for the real thing, on every wire."""

import json
from typing import Any

import httpx2
import pytest

from hermes.core.messages import Text
from hermes.core.testing import (
    Cut,
    Gzip,
    Interleave,
    KeepAlive,
    Malformed,
    ModelServer,
    Redirect,
    Refuse,
    SplitBytes,
    Step,
)
from hermes.core.testing.script import REFUSALS
from tests.integration.sdk.strict import body_of, checked, events_of
from tests.integration.sdk.wires import (
    CALLS,
    CHAT,
    EXPECTED,
    MESSAGES,
    RESPONSES,
    SAID,
    SCRIPTS,
    WIRES,
    Wire,
)


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> Wire:
    return WIRES[request.param]


@pytest.mark.parametrize(
    "faults",
    [(), (Gzip(),), (SplitBytes(1),), (KeepAlive(),), (Gzip(), SplitBytes(3), KeepAlive())],
    ids=["plain", "gzip", "torn", "comments", "all"],
)
def test_a_text_arrives_however_it_is_sent(wire: Wire, stream: bool, faults: Any) -> None:
    sendable = tuple(fault for fault in faults if stream or not isinstance(fault, KeepAlive))
    assert wire.text(wire.ask(Step((Text(SAID),), faults=sendable), stream=stream)) == SAID


def test_parallel_calls_arrive_with_their_arguments(wire: Wire, stream: bool) -> None:
    reply = wire.ask([Text("both:"), *CALLS], stream=stream)
    assert wire.calls(reply) == EXPECTED
    assert wire.text(reply) == "both:"


def test_interleaved_calls_arrive_with_their_arguments(wire: Wire) -> None:
    reply = wire.ask(Step((Text("both:"), *CALLS), faults=(Interleave(),)), stream=True)
    assert wire.calls(reply) == EXPECTED
    assert wire.text(reply) == "both:"


TOOL: Any = {
    "type": "function",
    "name": "read_file",
    "description": "",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    "strict": False,
}
REQUEST_OPTIONS: dict[str, dict[str, Any]] = {
    CHAT.path: {"stream_options": {"include_usage": True}},
    RESPONSES.path: {"tools": [TOOL]},
    MESSAGES.path: {},
}


@pytest.mark.parametrize(
    ("name", "script"),
    # The details of OpenRouter are not content blocks of Anthropic.
    [(n, s) for n in WIRES for s in SCRIPTS if (n, s) != ("messages", "details")],
)
def test_every_body_and_every_event_has_the_exact_shape(name: str, script: str) -> None:
    wire = WIRES[name]
    more = REQUEST_OPTIONS[wire.path]
    with ModelServer(lambda _request: SCRIPTS[script]) as server:
        if script != "interleaved":
            tools = {name: value for name, value in more.items() if name == "tools"}
            body = body_of(server, wire.path, {**wire.request, **tools})
            checked(wire.whole, body, extensions=wire.extensions)
        events = events_of(server, wire.path, {**wire.request, **more})
    assert len(events) > 2
    pings = [data for data in events if data == {"type": "ping"}]
    assert len(pings) == (wire is MESSAGES), "the SDK has no type for these"
    for data in events:
        if data not in pings:
            checked(wire.event, data, extensions=wire.extensions)


CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    402: "APIStatusError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    413: "APIStatusError",
    429: "RateLimitError",
    500: "InternalServerError",
    502: "InternalServerError",
    503: "InternalServerError",
    529: "InternalServerError",
}
OF_ANTHROPIC = {413: "RequestTooLargeError", 503: "ServiceUnavailableError", 529: "OverloadedError"}


@pytest.mark.parametrize("kind", [kind for kind in REFUSALS if kind != "empty"])
def test_every_refusal_is_the_exception_of_its_status(wire: Wire, stream: bool, kind: Any) -> None:
    refusal = REFUSALS[kind]
    with pytest.raises(wire.errors.APIStatusError) as caught:
        wire.ask(Refuse(kind, retry_after=7), stream=stream)
    error = caught.value
    classes = CLASSES | (OF_ANTHROPIC if wire is MESSAGES else {})
    assert type(error) is getattr(wire.errors, classes[refusal.status])
    assert error.status_code == refusal.status
    assert error.request_id
    assert error.response.headers["retry-after"] == "7"
    if kind == "html":
        return
    if wire is MESSAGES:
        reported = {"type": refusal.anthropic_type, "message": refusal.anthropic_message}
        assert error.body["error"] == reported
    else:
        assert (error.code, error.type, error.param) == (refusal.code, refusal.type, refusal.param)
        assert refusal.message in error.message


def test_a_stream_that_breaks_off_is_noticed(wire: Wire) -> None:
    with pytest.raises((wire.errors.APIConnectionError, httpx2.RemoteProtocolError)):
        wire.ask(Step((Text(SAID),), faults=(Cut(1),)), stream=True)


def test_an_event_that_is_not_json_is_noticed(wire: Wire) -> None:
    with pytest.raises(json.JSONDecodeError):
        wire.ask(Step((Text(SAID),), faults=(Malformed(1),)), stream=True)


def test_a_redirect_is_followed_to_the_next_step(wire: Wire, stream: bool) -> None:
    with ModelServer([Redirect(wire.path), "there"]) as server, wire.client(server) as client:
        assert wire.text(wire.send(client, wire.request, stream=stream)) == "there"
        assert [call.method for call in server.calls] == ["POST", "POST"]


def test_the_models_are_listed(wire: Wire) -> None:
    with ModelServer([], models=("one", "two")) as server, wire.client(server) as client:
        listed = list(client.models.list())
        assert [model.id for model in listed] == ["one", "two"]
        for model in listed:
            checked(wire.model, model.to_dict())
        assert server.calls == []
