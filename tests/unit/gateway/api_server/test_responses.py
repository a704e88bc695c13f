"""The events of a response come in the order that clients rely on."""

from hermes.core.events import (
    Event,
    TextFinished,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from hermes.core.messages import ToolCall
from hermes.core.model import TextDelta, Usage
from hermes.gateway.platforms.api_server.responses import (
    Fields,
    FunctionCallItem,
    FunctionOutputItem,
    MessageItem,
    OutputText,
    ResponseBuilder,
    ResponseObject,
    SessionPosition,
)

ITEM = "response.output_item"
PART = "response.content_part"
TEXT = "response.output_text"
ARGUMENTS = "response.function_call_arguments"
SAID = [f"{ITEM}.added", f"{PART}.added", f"{TEXT}.delta"]
FINISHED = [f"{TEXT}.done", f"{PART}.done", f"{ITEM}.done"]


def finished(reason: str = "answered", error: str = "") -> TurnFinished:
    return TurnFinished("s1", reason, "b", Usage(1, 2), 1, error=error, exit_code=5 if error else 0)


def build(*events: Event) -> tuple[list[Fields], ResponseObject]:
    builder = ResponseBuilder(ResponseObject("resp_1", 1, "m", SessionPosition("s1")))
    sent = list(builder.start())
    for event in events:
        sent += builder.feed(event)
        if isinstance(event, TurnFinished):
            builder.finish(event, messages=4)
            sent.append(builder.final_event())
    assert [each["sequence_number"] for each in sent] == list(range(len(sent)))
    return sent, builder.response


def test_events_of_a_turn_with_a_tool():
    call = ToolCall("c1", "todo", '{"a":1}')
    sent, response = build(
        TurnStarted("s1", "m", "p"),
        TextDelta("a"),
        TextFinished("a"),
        ToolStarted(call),
        ToolFinished("c1", "todo", "done", False, 0.1),
        TextDelta("b"),
        TextFinished("b"),
        finished(),
    )
    assert [each["type"] for each in sent] == [
        "response.created", "response.in_progress", *SAID, *FINISHED, f"{ITEM}.added",
        f"{ARGUMENTS}.delta", f"{ARGUMENTS}.done", f"{ITEM}.done", f"{ITEM}.added", f"{ITEM}.done",
        *SAID, *FINISHED, "response.completed",
    ]  # fmt: skip
    first, called, result, second = response.output
    assert isinstance(first, MessageItem)
    assert first.content == [OutputText("a")]
    assert isinstance(called, FunctionCallItem)
    assert (called.call_id, called.name, called.arguments) == ("c1", "todo", '{"a":1}')
    assert isinstance(result, FunctionOutputItem)
    assert (result.call_id, result.output) == ("c1", "done")
    assert isinstance(second, MessageItem)
    assert (response.status, response.hermes) == ("completed", SessionPosition("s1", 4))
    places = [each["output_index"] for each in sent if "output_index" in each]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2, 3}


def test_truncated_answer_is_incomplete():
    sent, response = build(TextDelta("b"), TextFinished("b"), finished("truncated"))
    assert sent[-1]["type"] == "response.incomplete"
    assert response.incomplete_details is not None


def test_failure_closes_the_open_message():
    sent, response = build(TextDelta("half a sen"), finished("failed", "the model is gone"))
    assert [each["type"] for each in sent[2:]] == [*SAID, *FINISHED, "response.failed"]
    assert response.status == "failed"
    assert response.error is not None
    assert "the model is gone" in response.error.message
    assert len(response.output) == 1
