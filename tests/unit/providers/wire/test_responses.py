"""The responses dialect: what is sent, and what is made of what comes."""

import pytest

from hermes.core import errors
from hermes.core.messages import (
    Assistant,
    Image,
    System,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from hermes.core.model import ModelRequest, ReasoningDelta, TextDelta, ToolSpec, Usage
from tests.cases import table_test
from tests.unit.providers.wire.calling import ASK, body_of, read, read_whole

RESPONSES = "codex_responses"
HI = User.say("hi")
SECRET = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
SAID = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}


def added(index, **item):
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index, **item):
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind, words, index=0, **more):
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": words, **more}


def end(status="completed", **fields):
    return {"type": f"response.{status}", "response": {"status": status, "output": [], **fields}}


def test_a_request_is_lean_and_stores_nothing():
    assert body_of(RESPONSES, ASK) == {
        "model": "m",
        "store": False,
        "instructions": "be brief",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "hello"}],
            }
        ],
    }
    assert body_of(RESPONSES, ASK, stream=True)["stream"] is True


def test_a_request_carries_tools_and_options():
    tool = ToolSpec("read", "Read.", {"type": "object"})
    request = ModelRequest((HI,), (tool,), 9, 0.5, "low", {"type": "object"})
    body = body_of(RESPONSES, request, reasoning="object")
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["tools"] == [
        {
            "type": "function",
            "name": "read",
            "description": "Read.",
            "parameters": {"type": "object"},
            "strict": False,
        }
    ]
    assert (body["max_output_tokens"], body["temperature"]) == (9, 0.5)
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["text"]["format"] == {
        "type": "json_schema",
        "name": "reply",
        "strict": True,
        "schema": {"type": "object"},
    }
    assert "instructions" not in body


def test_a_conversation_becomes_items():
    history = (
        System("a"),
        System("b"),
        User((Text("look"), Image("https://x.example/a.png"))),
        Assistant(
            (Thinking("hm", items=(SECRET,)), Text("so"), ToolCall("a", "f", '{"z":1,"a":2}'))
        ),
        ToolResult("a", "f", "one"),
        System("late"),
    )
    body = body_of(RESPONSES, ModelRequest(history), developer_role=True)
    assert body["instructions"] == "a\n\nb"
    assert body["input"] == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "https://x.example/a.png"},
            ],
        },
        SECRET,
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "so"}],
        },
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"a":2,"z":1}'},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "late"}],
        },
    ]


def test_thinking_that_cannot_be_understood_again_stays_behind():
    reference = {"type": "reasoning", "id": "rs_1", "summary": []}
    messages = (HI, Assistant((Thinking("", items=(reference,)), Text("so"))), User.say(""))
    alone = Assistant((Thinking("", items=(SECRET,)),))
    sent = body_of(RESPONSES, ModelRequest((*messages, alone)))["input"]
    assert [item["role"] for item in sent] == ["user", "assistant"]


def test_codex_gets_what_it_insists_on_and_nothing_it_refuses():
    request = ModelRequest((HI,), max_tokens=9, temperature=0.5)
    body = body_of(
        RESPONSES, request, stream=True, streaming="always", max_tokens_field="", temperature=False
    )
    assert body["instructions"]
    assert set(body) == {"model", "store", "instructions", "input", "stream"}


def test_deltas_stream_and_items_are_kept():
    deltas, reply = read(
        RESPONSES,
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        added(0, type="reasoning", id="rs_1", summary=[]),
        delta("reasoning_summary_text", "h", summary_index=0),
        delta("reasoning_summary_text", "m", summary_index=0),
        delta("reasoning_summary_text", "aha", summary_index=1),
        done(0, **SECRET),
        added(1, type="message", content=[]),
        delta("output_text", "y", 1),
        {"type": "keepalive"},
        delta("output_text", "es", 1),
        done(1, type="message", content=[{"type": "output_text", "text": "yes"}]),
        end(),
    )
    thoughts = [ReasoningDelta("h"), ReasoningDelta("m"), ReasoningDelta("\n\naha")]
    assert deltas == [*thoughts, TextDelta("y"), TextDelta("es")]
    assert reply.message == Assistant((Thinking("hm\n\naha", items=(SECRET,)), Text("yes")))


def test_open_models_think_aloud():
    deltas, reply = read(RESPONSES, delta("reasoning_text", "hm"), done(1, **SAID), end())
    assert deltas == [ReasoningDelta("hm")]
    assert reply.message.thinking == "hm"


def test_calls_are_put_together_from_interleaved_pieces():
    _, reply = read(
        RESPONSES,
        added(0, type="function_call", call_id="a", name="f", arguments=""),
        added(1, type="function_call", call_id="b", name="g", arguments=""),
        delta("function_call_arguments", '{"p"', 0),
        delta("function_call_arguments", '{"p"', 1),
        delta("function_call_arguments", ":1}", 0),
        delta("function_call_arguments", ":2}", 1),
        done(1, type="function_call", call_id="b", name="g", arguments='{"p":2}'),
        end(),
    )
    assert reply.message == Assistant(
        (ToolCall("a", "f", '{"p":1}'), ToolCall("b", "g", '{"p":2}')), "tool_calls"
    )


def test_items_that_come_only_at_the_end_are_not_lost():
    assert read(RESPONSES, end(output=[SAID]))[1].message.text == "hi"
    assert read(RESPONSES, delta("output_text", "hi"), end())[1].message.text == "hi"


def test_items_without_a_number_are_separated():
    events = [done(0, **SAID), done(0, type="function_call", call_id="a", name="f", arguments="{}")]
    for event in events:
        del event["output_index"]
    _, reply = read(RESPONSES, *events, end())
    assert reply.message.parts == (Text("hi"), ToolCall("a", "f", "{}"))


def test_usage_is_understood():
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "cost": 0.5,
    }
    _, reply = read(RESPONSES, done(0, **SAID), end(usage=usage))
    assert reply.usage == Usage(10, 50, 60, 30, 20)
    assert reply.cost_usd == 0.5


@table_test
def test_finish_reason_is_normalised(status, details, meant):
    body = {"status": status, "incomplete_details": details, "output": [SAID]}
    assert read_whole(RESPONSES, body).message.finish_reason == meant
    if status:
        _, reply = read(RESPONSES, done(0, **SAID), end(status, incomplete_details=details))
        assert reply.message.finish_reason == meant


NO = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}


@pytest.mark.parametrize("body", [{}, {"output": []}, {"status": "completed"}, {"detail": "x"}])
def test_a_body_without_output_is_invalid(body):
    with pytest.raises(errors.ReplyInvalid):
        read_whole(RESPONSES, body)
