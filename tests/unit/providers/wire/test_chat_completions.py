"""The chat-completions dialect: what is sent, and what is made of what comes."""

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
from hermes.core.model import ModelRequest, Price, ReasoningDelta, TextDelta, ToolSpec, Usage
from tests.cases import cases, table_test
from tests.unit.providers.wire.calling import ASK, body_of, load, read, read_whole

CHAT = "chat_completions"
DONE = "[DONE]"
HI = User.say("hi")
TOOL = ToolSpec("read", "Read.", {"type": "object", "properties": {}})


def chunk(finish=None, usage=None, **delta):
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return {**body, "usage": usage} if usage else body


def piece(index=None, call_id=None, name=None, arguments=None, **more):
    function = {"name": name, "arguments": arguments}
    function = {key: value for key, value in function.items() if value is not None}
    call = {"index": index, "id": call_id, **more}
    return {**{k: v for k, v in call.items() if v is not None}, "function": function}


def calls_of(*pieces):
    """The calls put together from chunks with one piece each, or several."""
    chunks = [chunk(tool_calls=p if isinstance(p, list) else [p]) for p in pieces]
    _, reply = read(CHAT, *chunks, chunk("tool_calls"), DONE)
    return [(call.id, call.name, call.arguments) for call in reply.message.calls]


def test_a_request_is_lean():
    assert body_of(CHAT, ASK) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hello"},
        ],
    }


def test_a_streamed_request_asks_for_the_usage():
    body = body_of(CHAT, ASK, stream=True)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert "stream_options" not in body_of(CHAT, ASK, stream=True, stream_usage=False)


def test_a_request_carries_history_tools_and_options():
    history = (
        System("s "),
        User((Text("look"), Image("data:image/png;base64,AA"))),
        Assistant((Thinking("t"), ToolCall("a", "read", '{"z": 1, "a": 2}')), "tool_calls"),
        ToolResult("a", "read", "content"),
        Assistant((Text(" done "), Thinking("u", ({"type": "thinking", "thinking": "u"},)))),
    )
    request = ModelRequest(
        history,
        (TOOL,),
        max_tokens=9,
        temperature=0.5,
        reasoning_effort="low",
        reply_schema={"type": "object"},
    )
    body = body_of(
        CHAT,
        request,
        thinking_field="reasoning_content",
        reasoning="effort",
        extra_body={"provider": {"sort": "price"}},
    )
    assert body == load("chat_request.json")


def test_unsupported_fields_are_left_out():
    request = ModelRequest((User.say("hi"),), (TOOL,), max_tokens=9, temperature=0.5)
    body = body_of(CHAT, request, temperature=False, tools=False, max_tokens_field="")
    assert set(body) == {"model", "messages"}
    body = body_of(CHAT, request, max_tokens_field="max_completion_tokens")
    assert body["max_completion_tokens"] == 9


def test_models_that_want_the_developer_role_get_it():
    assert body_of(CHAT, ASK, developer_role=True)["messages"][0]["role"] == "developer"


def test_a_thought_signature_comes_later_and_goes_back():
    signature = {"google": {"thought_signature": "sig"}}
    _, reply = read(
        CHAT,
        chunk(tool_calls=[piece(0, "a", "read", "{}")]),
        chunk(tool_calls=[piece(0, extra_content=signature)]),
        chunk("stop"),
        DONE,
    )
    assert reply.message.calls == (ToolCall("a", "read", "{}", signature),)
    sent = body_of(CHAT, ModelRequest((reply.message,)))["messages"][0]["tool_calls"][0]
    assert sent["extra_content"] == signature


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_field_of_thinking_wins_over_tags(field):
    deltas, reply = read(
        CHAT,
        chunk(**{field: "really"}),
        chunk(content="<think>said"),
        chunk(content=" aloud</think>yes"),
        chunk("stop"),
        DONE,
    )
    assert deltas == [ReasoningDelta("really"), TextDelta("yes")]
    assert reply.message == Assistant((Thinking("really"), Text("yes")))


def test_tags_become_thinking_when_there_is_nothing_else():
    pieces = ["<th", "ink>h", "m</think>", "\n\n", "y", "es <"]
    deltas, reply = read(CHAT, *[chunk(content=p) for p in pieces], chunk("stop"), DONE)
    assert deltas == [ReasoningDelta("h"), ReasoningDelta("m"), *map(TextDelta, ("y", "es ", "<"))]
    assert reply.message == Assistant((Thinking("hm"), Text("yes <")))


def test_tags_are_taken_out_of_a_whole_reply():
    message = {"content": "<think>hm</think>yes"}
    reply = read_whole(CHAT, {"choices": [{"message": message, "finish_reason": "stop"}]})
    assert reply.message == Assistant((Thinking("hm"), Text("yes")))


def test_signed_thinking_is_put_together_from_its_pieces():
    def detail(**fields):
        return {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, **fields}

    secret = {"type": "reasoning.encrypted", "data": "AB", "id": "r1", "index": 1}
    deltas, reply = read(
        CHAT,
        chunk(reasoning="let ", reasoning_details=[detail(text="let ", signature=None)]),
        chunk(reasoning="me", reasoning_details=[detail(text="me")]),
        chunk(reasoning_details=[detail(signature="sig"), secret]),
        chunk(reasoning_details=[{**secret, "data": "CD"}, {**secret, "id": "r2"}]),
        chunk(content="yes"),
        chunk("stop"),
        DONE,
    )
    assert deltas[:2] == [ReasoningDelta("let "), ReasoningDelta("me")]
    (thought, _) = reply.message.parts
    assert thought.text == "let me"
    assert thought.details == (
        detail(text="let me", signature="sig"),
        {**secret, "data": "ABCD"},
        {**secret, "id": "r2"},
    )
    sent = body_of(CHAT, ModelRequest((reply.message,)))["messages"][0]
    assert tuple(sent["reasoning_details"]) == thought.details


def test_details_without_a_number_are_separated():
    text = {"type": "reasoning.text"}
    _, reply = read(
        CHAT,
        chunk(reasoning_details=[{**text, "text": "a"}]),
        chunk(reasoning_details=[{**text, "text": "b"}]),
        chunk(reasoning_details=[{**text, "signature": "1"}]),
        chunk(reasoning_details=[{**text, "text": "c", "signature": "2"}]),
        chunk("stop", content="yes"),
    )
    assert reply.message.parts[0] == Thinking(
        "abc",
        ({**text, "text": "ab", "signature": "1"}, {**text, "text": "c", "signature": "2"}),
    )


def test_content_in_blocks_is_understood():
    blocks = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    deltas, reply = read(CHAT, chunk(content=blocks), chunk("stop"))
    assert deltas == [ReasoningDelta("hm"), TextDelta("yes")]
    assert reply.message == Assistant((Thinking("hm"), Text("yes")))


TWO = [("a", "read", '{"p":1}'), ("b", "list", '{"p":2}')]
FORMS = cases(__file__)["pieces of two calls"]


@pytest.mark.parametrize("pieces", FORMS.values(), ids=FORMS)
def test_calls_are_put_together_however_they_come(pieces):
    assert calls_of(*pieces) == TWO


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [piece(None, None, "read", "{}"), piece(None, None, "list", "{}")], id="apart"
        ),
        pytest.param(
            [[piece(None, None, "read", "{}"), piece(None, None, "list", "{}")]], id="together"
        ),
        pytest.param([piece(0, None, "read", "{}"), piece(0, None, "list", "{}")], id="one index"),
        pytest.param([piece(0, "x", "read", "{}"), piece(0, "x", "list", "{}")], id="one id"),
    ],
)
def test_calls_without_a_place_of_their_own_stay_apart(pieces):
    calls = calls_of(*pieces)
    assert [(name, arguments) for _, name, arguments in calls] == [("read", "{}"), ("list", "{}")]
    assert len({call_id for call_id, _, _ in calls}) == 2


def test_a_call_without_arguments_has_none():
    assert calls_of(piece(0, "a", "now"), {"index": 1}) == [("a", "now", "{}")]


def test_the_older_form_of_a_call_is_understood():
    call = {"name": "read", "arguments": "{}"}
    _, reply = read(CHAT, chunk(function_call=call), chunk("function_call"))
    assert [c.name for c in reply.message.calls] == ["read"]
    assert reply.message.finish_reason == "tool_calls"


@table_test
@pytest.mark.parametrize("place", ["last", "empty", "choice", "groq", "whole"])
def test_usage_is_understood_in_every_spelling_and_place(usage, expected, place):
    expected = Usage(**expected)
    if place == "whole":
        choice = {"message": {"content": "hi"}, "finish_reason": "stop"}
        assert read_whole(CHAT, {"choices": [choice], "usage": usage}).usage == expected
        return
    end = chunk("stop", content="hi")
    last = {
        "last": chunk("stop", usage),
        "empty": {"choices": [], "usage": usage},
        "choice": {"choices": [{"delta": {}, "finish_reason": "stop", "usage": usage}]},
        "groq": {"choices": [{"delta": {}}], "x_groq": {"usage": usage}},
    }[place]
    assert read(CHAT, end, last, DONE)[1].usage == expected


def test_the_cost_an_endpoint_names_is_the_cost():
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.0125}
    price = Price(1, 1, 1, 1)
    assert read(CHAT, chunk("stop", usage, content="hi"), price=price)[1].cost_usd == 0.0125
    usage["cost"] = {"total_cost": 0.5}
    assert read(CHAT, chunk("stop", usage, content="hi"))[1].cost_usd == 0.5


def test_without_usage_the_cost_is_not_known():
    assert read(CHAT, chunk("stop", content="hi"), price=Price(1, 1, 1, 1))[1].cost_usd is None


@table_test
def test_finish_reason_is_normalised(said, meant):
    assert read(CHAT, chunk(said, content="hi"))[1].message.finish_reason == meant


def test_a_reply_with_calls_asks_for_them_whatever_it_says():
    _, reply = read(CHAT, chunk("stop", tool_calls=[piece(0, "a", "read", "{}")]))
    assert reply.message.finish_reason == "tool_calls"


def test_a_reply_may_lack_a_reason_or_have_no_text():
    assert read(CHAT, chunk(content="hi"), DONE)[1].message == Assistant((Text("hi"),))
    assert read(CHAT, chunk("stop", reasoning="hm"))[1].message == Assistant((Thinking("hm"),))
    assert read(CHAT, chunk("length", content=""))[1].message == Assistant((), "length")


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}, {"detail": "x"}])
def test_a_body_without_a_choice_is_invalid(body):
    with pytest.raises(errors.ReplyInvalid):
        read_whole(CHAT, body)


def test_a_body_that_is_an_error_is_one():
    with pytest.raises(errors.RateLimited):
        read_whole(CHAT, {"error": {"message": "slow down", "code": 429}})


def test_a_strict_endpoint_gets_no_field_of_another_provider():
    thought = Thinking("hm", ({"type": "reasoning.text", "text": "hm"},))
    said = Assistant((thought, ToolCall("a", "f", "{}", {"google": {"thought_signature": "s"}})))
    request = ModelRequest((HI, said, ToolResult("a", "f", "ok")))
    lenient = body_of(CHAT, request)["messages"][1]
    assert "reasoning_details" in lenient
    assert "extra_content" in lenient["tool_calls"][0]
    strict = body_of(CHAT, request, strict=True)["messages"][1]
    assert "reasoning_details" not in strict
    assert "extra_content" not in strict["tool_calls"][0]


def test_ids_of_nine_letters_are_made_where_an_endpoint_insists_on_them():
    said = Assistant((ToolCall("call_1234567890", "f", "{}"), ToolCall("abcDEF123", "f", "{}")))
    results = (ToolResult("call_1234567890", "f", "x"), ToolResult("abcDEF123", "f", "y"))
    _, asked, first, second = body_of(
        CHAT, ModelRequest((HI, said, *results)), nine_letter_ids=True
    )["messages"]
    ids = [call["id"] for call in asked["tool_calls"]]
    assert ids == [first["tool_call_id"], second["tool_call_id"]]
    assert len(ids[0]) == 9
    assert ids[1] == "abcDEF123"


def test_an_error_of_minimax_inside_a_reply_is_an_error():
    reported = {
        "choices": None,
        "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"},
    }
    with pytest.raises(errors.QuotaSpent):
        read_whole(CHAT, reported, provider="minimax")
