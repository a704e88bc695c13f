"""The Anthropic dialect: what is sent, and what is made of what comes."""

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
from tests.unit.providers.wire.calling import ASK, body_of, load, read, read_whole

ANTHROPIC = "anthropic_messages"
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "EmwK"}
HI = User.say("hi")


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text(index, words):
    return [start(index, type="text", text=""), delta(index, "text_delta", text=words)]


def end(reason="end_turn", usage=None, **more):
    change = {"stop_reason": reason, "stop_sequence": None, **more}
    usage = usage or {"output_tokens": 7}
    return [{"type": "message_delta", "delta": change, "usage": usage}, {"type": "message_stop"}]


def begin(**usage):
    return {"type": "message_start", "message": {"content": [], "usage": usage}}


def sent(*messages, **fields):
    return body_of(ANTHROPIC, ModelRequest(messages), **fields)["messages"]


def test_a_request_is_lean():
    assert body_of(ANTHROPIC, ASK) == {
        "model": "m",
        "max_tokens": 8192,
        "system": [{"type": "text", "text": "be brief"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }
    assert body_of(ANTHROPIC, ASK, stream=True)["stream"] is True


def test_a_request_carries_tools_and_options():
    tool = ToolSpec("read", "Read.", {"type": "object"})
    request = ModelRequest((HI,), (tool,), 9, 0.5, reply_schema={"type": "object"})
    body = body_of(ANTHROPIC, request, extra_body={"metadata": {"user_id": "u"}})
    assert body["tools"] == [
        {"name": "read", "description": "Read.", "input_schema": {"type": "object"}}
    ]
    assert (body["max_tokens"], body["temperature"]) == (9, 0.5)
    assert body["output_config"] == {
        "format": {"type": "json_schema", "schema": {"type": "object"}}
    }
    assert body["metadata"] == {"user_id": "u"}


def test_the_results_of_one_reply_go_into_one_message():
    history = (
        HI,
        Assistant((Text("so"), ToolCall("a", "f", '{"z":1,"a":2}'), ToolCall("b", "f", "{}"))),
        ToolResult("a", "f", "one"),
        ToolResult("b", "f", "", failed=True),
        User.say("and now?"),
    )
    assert sent(*history) == load("anthropic_messages.json")


def test_empty_texts_are_never_sent():
    silent = (User.say(" "), Assistant(()), Assistant((Text("\n"), Thinking("hm", (SIGNED,)))))
    assert sent(HI, *silent, User((Text(""), Text("more")))) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "more"}],
        }
    ]
    assert "system" not in body_of(ANTHROPIC, ModelRequest((System(" "), HI)))


def test_a_system_message_on_the_way_is_part_of_the_conversation():
    body = body_of(ANTHROPIC, ModelRequest((System("a"), System("b"), HI, System("late"))))
    assert [block["text"] for block in body["system"]] == ["a", "b"]
    assert [block["text"] for block in body["messages"][0]["content"]] == ["hi", "late"]


def test_pictures_are_sent_by_value_or_by_address():
    seen = User((Image("data:image/jpeg;base64,AAAA"), Image("https://x.example/a.png")))
    assert [block["source"] for block in sent(seen)[0]["content"]] == [
        {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"},
        {"type": "url", "url": "https://x.example/a.png"},
    ]


@table_test
def test_arguments_that_are_not_an_object_make_a_valid_request(arguments, value):
    (message,) = sent(Assistant((ToolCall("a", "f", arguments),)))
    assert message["content"][0]["input"] == value


@pytest.mark.parametrize("call_id", ["call:1", "x" * 65, "functions.read:0", "ä", ""])
def test_ids_are_made_fit_alike_for_call_and_result(call_id):
    called, answered = sent(
        Assistant((ToolCall(call_id, "a.b c", "{}"),)), ToolResult(call_id, "a.b c", "x")
    )
    use = called["content"][0]
    assert use["id"] == answered["content"][0]["tool_use_id"]
    assert use["id"].replace("_", "").isalnum()
    assert 0 < len(use["id"]) <= 64
    assert use["name"] == "a_b_c"


def test_ids_that_differ_stay_different():
    calls = [ToolCall("a.1", "f", "{}"), ToolCall("a:1", "f", "{}")]
    content = sent(Assistant(tuple(calls)))[0]["content"]
    assert content[0]["id"] != content[1]["id"]


class TestThinking:
    def test_a_budget_leaves_room_for_the_answer(self):
        request = ModelRequest((HI,), max_tokens=5000, temperature=0.5, reasoning_effort="medium")
        body = body_of(ANTHROPIC, request, reasoning="budget")
        assert body["thinking"]["budget_tokens"] == 2500
        assert body["max_tokens"] == 5000
        assert "temperature" not in body

    def test_a_limit_that_leaves_no_room_to_think_is_kept(self):
        request = ModelRequest((HI,), max_tokens=500, temperature=0.5, reasoning_effort="medium")
        body = body_of(ANTHROPIC, request, reasoning="budget")
        assert (body["max_tokens"], body["temperature"]) == (500, 0.5)
        assert "thinking" not in body

    @pytest.mark.parametrize(("max_output", "budget"), [(64_000, 16384), (20_000, 10_000)])
    def test_a_budget_fits_into_what_the_model_can_write(self, max_output, budget):
        request = ModelRequest((HI,), reasoning_effort="high")
        body = body_of(ANTHROPIC, request, reasoning="budget", max_output=max_output)
        assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
        assert body["max_tokens"] == max_output

    def test_effort_none_leaves_it_off(self):
        request = ModelRequest((HI,), temperature=0.5, reasoning_effort="none")
        body = body_of(ANTHROPIC, request, reasoning="budget")
        assert "thinking" not in body
        assert body["temperature"] == 0.5

    def test_effort_and_schema_share_their_field(self):
        request = ModelRequest((HI,), reasoning_effort="high", reply_schema={"type": "object"})
        body = body_of(ANTHROPIC, request, reasoning="adaptive")
        assert set(body["output_config"]) == {"effort", "format"}
        assert body["thinking"]["type"] == "adaptive"

    @pytest.mark.parametrize(("details", "asked"), [((), False), ((SIGNED,), True)])
    def test_a_call_of_another_model_is_answered_without_thinking(self, details, asked):
        """The API refuses a call that is not led by signed thinking."""
        call = Assistant((Thinking("hm", details), ToolCall("a", "f", "{}")))
        messages = (HI, call, ToolResult("a", "f", "x"))
        request = ModelRequest(messages, reasoning_effort="low")
        assert ("thinking" in body_of(ANTHROPIC, request, reasoning="budget")) is asked

    def test_blocks_come_and_go_untouched_and_in_order(self):
        _, reply = read(
            ANTHROPIC,
            start(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="h"),
            delta(0, "thinking_delta", thinking="m"),
            delta(0, "signature_delta", signature="sig"),
            start(1, **HIDDEN),
            *text(2, "so"),
            start(3, **SIGNED),
            start(4, type="tool_use", id="a", name="f", input={}),
            *end("tool_use"),
        )
        assert reply.message.parts == (
            Thinking("hm", (SIGNED,)),
            Thinking("", (HIDDEN,)),
            Text("so"),
            Thinking("hm", (SIGNED,)),
            ToolCall("a", "f", "{}"),
        )
        (message,) = sent(reply.message)
        kinds = [block["type"] for block in message["content"]]
        assert kinds == ["thinking", "redacted_thinking", "text", "thinking", "tool_use"]
        assert message["content"][:2] == [SIGNED, HIDDEN]

    def test_blocks_of_another_wire_stay_behind(self):
        foreign = Thinking("hm", ({"type": "reasoning.text", "text": "hm"},))
        (message,) = sent(Assistant((foreign, Text("yes"))))
        assert message["content"] == [{"type": "text", "text": "yes"}]


def test_deltas_stream_as_they_come():
    deltas, reply = read(
        ANTHROPIC,
        begin(input_tokens=3, output_tokens=1),
        start(0, type="thinking", thinking="h"),
        delta(0, "thinking_delta", thinking="m"),
        {"type": "ping"},
        start(1, type="text", text="a"),
        delta(1, "text_delta", text="b"),
        {"type": "content_block_stop", "index": 1},
        *end(),
    )
    assert deltas == [ReasoningDelta("h"), ReasoningDelta("m"), TextDelta("a"), TextDelta("b")]
    assert reply.message.text == "ab"


def test_calls_are_put_together_even_with_careless_numbers():
    def use(call_id, index=0):
        return start(index, type="tool_use", id=call_id, name="f", input={})

    _, reply = read(
        ANTHROPIC,
        use("a"),
        delta(0, "input_json_delta", partial_json='{"p":'),
        delta(0, "input_json_delta", partial_json="1}"),
        use("b"),
        delta(0, "input_json_delta", partial_json='{"p":2}'),
        start(None, type="tool_use", id="c", name="f", input={"p": 3}),
        *end(),
    )
    assert [(call.id, call.arguments) for call in reply.message.calls] == [
        ("a", '{"p":1}'),
        ("b", '{"p":2}'),
        ("c", '{"p":3}'),
    ]
    assert reply.message.finish_reason == "tool_calls"


def test_usage_is_the_last_word_on_each_count():
    first = begin(input_tokens=5, cache_read_input_tokens=80, cache_creation_input_tokens=15)
    last = {
        "input_tokens": 0,
        "output_tokens": 42,
        "cache_read_input_tokens": 90,
        "output_tokens_details": {"thinking_tokens": 12},
    }
    _, reply = read(ANTHROPIC, first, *text(0, "hi"), *end(usage=last))
    assert reply.usage == Usage(5, 42, 90, 15, 12)


@table_test
def test_finish_reason_is_normalised(said, meant):
    assert read(ANTHROPIC, *text(0, "hi"), *end(said))[1].message.finish_reason == meant
    whole = {"content": [{"type": "text", "text": "hi"}], "stop_reason": said}
    assert read_whole(ANTHROPIC, whole).message.finish_reason == meant


def test_a_refusal_says_why():
    why = {"type": "refusal", "category": "bio", "explanation": "Too dangerous."}
    with pytest.raises(errors.ContentRefused, match="Too dangerous"):
        read(ANTHROPIC, *text(0, "No"), *end("refusal", stop_details=why))


@pytest.mark.parametrize("body", [{}, {"content": []}, {"type": "message"}])
def test_a_body_without_content_is_invalid(body):
    with pytest.raises(errors.ReplyInvalid):
        read_whole(ANTHROPIC, body)


def test_a_body_that_is_an_error_is_one():
    with pytest.raises(errors.Overloaded):
        read_whole(ANTHROPIC, {"type": "error", "error": {"type": "overloaded_error"}})
