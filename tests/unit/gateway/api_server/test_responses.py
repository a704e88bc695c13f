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
    MessageItem,
    OutputText,
    ResponseBuilder,
    ResponseObject,
    SessionPosition,
    ToolCallItem,
    parse_item_id,
)

ITEM = "response.output_item"
PART = "response.content_part"
TEXT = "response.output_text"
CALL = "response.mcp_call"
STARTED = [
    f"{ITEM}.added", f"{CALL}.in_progress", f"{CALL}_arguments.delta", f"{CALL}_arguments.done",
]  # fmt: skip
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
        "response.created", "response.in_progress", *SAID, *FINISHED, *STARTED,
        f"{CALL}.completed", f"{ITEM}.done", *SAID, *FINISHED, "response.completed",
    ]  # fmt: skip
    first, called, second = response.output
    assert isinstance(first, MessageItem)
    assert first.content == [OutputText("a")]
    assert isinstance(called, ToolCallItem)
    assert (called.name, called.arguments, called.output) == ("todo", '{"a":1}', "done")
    assert (called.status, called.error) == ("completed", None)
    assert isinstance(second, MessageItem)
    assert (response.status, response.hermes) == ("completed", SessionPosition("s1", 4))
    places = [each["output_index"] for each in sent if "output_index" in each]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2}


def test_parallel_calls_keep_their_index():
    first, second = ToolCall("c1", "a", "{}"), ToolCall("c2", "b", "{}")
    sent, response = build(
        ToolStarted(first),
        ToolStarted(second),
        ToolFinished("c2", "b", "it broke", True, 0.1),
        ToolFinished("c1", "a", "fine", False, 0.2),
        finished(),
    )
    done = [each for each in sent if each["type"] == f"{ITEM}.done"]
    assert [(each["output_index"], each["item"].name) for each in done] == [(1, "b"), (0, "a")]
    assert [each["item"] for each in done] == response.output[::-1]
    failed = response.output[1]
    assert isinstance(failed, ToolCallItem)
    assert (failed.status, failed.output) == ("failed", None)
    assert failed.error is not None
    assert failed.error.content == [{"type": "text", "text": "it broke"}]


def test_stopped_turn_leaves_an_incomplete_call():
    call = ToolCall("c1", "terminal", "{}")
    sent, response = build(ToolStarted(call), finished("failed", "stopped"))
    assert [each["type"] for each in sent[2:]] == [*STARTED, f"{ITEM}.done", "response.failed"]
    assert response.output[0].status == "incomplete"


def test_item_id_names_its_response():
    response = ResponseObject(f"resp_{'a1' * 16}", 1, "m", SessionPosition("s1"))
    builder = ResponseBuilder(response)
    (added, *_rest) = builder.feed(TextDelta("a"))
    assert parse_item_id(added["item"].id) == (response.id, 0)
    assert parse_item_id("msg_of_another_server") == ("", 0)


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
