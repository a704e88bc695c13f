"""Every wire says the same thing, streamed or not, in its own words."""

import http.client
import json

import pytest

from hermes.core.messages import Text, Thinking, ToolCall
from hermes.core.model import Usage
from hermes.core.testing import ErrorEvent, ModelServer, RecordedRequest, Step, echo
from tests.cases import cases

CASES = cases(__file__)

CALLS = (
    ToolCall("call_1", "read_file", '{"path": "a.txt"}'),
    ToolCall("call_2", "terminal", '{"command": "echo grüße"}'),
)
FINISHES = CASES["finish reasons"]


def test_a_reply_with_every_kind_of_part_arrives_whole(ask, path, stream):
    parts = [Thinking("I should look"), Text("Schauen wir: 日本語 🙂"), *CALLS]
    with ModelServer([parts]) as server:
        reply = ask(server, path, stream=stream)
    assert reply.thinking == "I should look"
    assert reply.text == "Schauen wir: 日本語 🙂"
    assert reply.calls == (
        ("call_1", "read_file", '{"path":"a.txt"}'),
        ("call_2", "terminal", json.dumps({"command": "echo grüße"}, separators=(",", ":"))),
    )
    assert reply.finish == FINISHES[path]["tool_calls"]


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_finish_reasons_have_the_words_of_the_wire(ask, path, stream, finish):
    with ModelServer([Step((Text("some"),), finish_reason=finish)]) as server:
        assert ask(server, path, stream=stream).finish == FINISHES[path][finish]


def test_a_reply_without_parts_is_an_empty_reply(ask, path, stream):
    with ModelServer([Step()]) as server:
        reply = ask(server, path, stream=stream)
    assert (reply.text, reply.calls) == ("", ())


def test_usage_given_in_the_step_fills_the_fields_of_each_wire(ask, path, stream):
    usage = Usage(input=100, output=20, cache_read=3000, cache_write=400, reasoning=5)
    with ModelServer([Step((Text("x"),), usage=usage)]) as server:
        reported = ask(server, path, stream=stream).usage
    assert reported == CASES["usage"][path]


def test_chat_usage_comes_in_the_stream_only_when_asked_for(post):
    with ModelServer(["hi"]) as server:
        events = post(server, "/v1/chat/completions", stream=True, stream_options=None).events
    assert events[-1] == "[DONE]"
    assert all("usage" not in chunk and chunk["choices"] for chunk in events[:-1])


def test_signed_thoughts_come_back_as_they_were_scripted(post):
    signed = {"type": "thinking", "thinking": "deep", "signature": "s1gn"}
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    step = [Thinking("deep", details=(signed,)), Thinking(details=(hidden,)), Text("ok")]
    with ModelServer([step, step, step]) as server:
        whole = post(server, "/v1/messages").json
        events = post(server, "/v1/messages", stream=True).events
        chat = post(server, "/v1/chat/completions").json
    assert whole["content"][:2] == [signed, hidden]
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert starts[:2] == [{"type": "thinking", "thinking": "", "signature": ""}, hidden]
    signatures = [e["delta"] for e in events if e.get("delta", {}).get("type") == "signature_delta"]
    assert signatures == [{"type": "signature_delta", "signature": "s1gn"}]
    assert chat["choices"][0]["message"]["reasoning_details"] == [signed, hidden]


def test_encrypted_reasoning_items_come_back_as_they_were_scripted(post):
    item = {"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    asked = {"include": ["reasoning.encrypted_content"]}
    with ModelServer([[Thinking(items=(item,)), Text("ok")]] * 3) as server:
        unasked = post(server, "/v1/responses").json
        whole = post(server, "/v1/responses", **asked).json
        events = post(server, "/v1/responses", stream=True, **asked).events
    assert "encrypted_content" not in unasked["output"][0], "as the real one, only when asked"
    assert whole["output"][0] == item
    assert item in [e.get("item") for e in events if e["type"] == "response.output_item.done"]


def test_details_of_a_thought_are_streamed_in_pieces_as_openrouter_does(post):
    signed = {"type": "reasoning.text", "text": "deep thought", "signature": "s1gn", "index": 0}
    hidden = {"type": "reasoning.encrypted", "data": "xyz", "index": 1}
    step = [Thinking("deep thought", details=(signed, hidden)), Text("ok")]
    with ModelServer([step, step]) as server:
        whole = post(server, "/v1/chat/completions").json["choices"][0]["message"]
        chunks = post(server, "/v1/chat/completions", stream=True).events
    assert (whole["reasoning"], whole["reasoning_details"]) == ("deep thought", [signed, hidden])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-2]]
    assert [delta["reasoning"] for delta in deltas if "reasoning" in delta] == ["deep tho", "ught"]
    assert [delta["reasoning_details"] for delta in deltas if "reasoning_details" in delta] == [
        [{"type": "reasoning.text", "text": "deep tho", "index": 0}],
        [{"type": "reasoning.text", "text": "ught", "index": 0}],
        [{"type": "reasoning.text", "signature": "s1gn", "index": 0}],
        [hidden],
    ]


def test_a_model_that_declines_says_so_as_its_api_does(post, path, stream):
    step = Step((Text("I will not do that."),), finish_reason="refusal")
    with ModelServer([step]) as server:
        answered = post(server, path, stream=stream)
    if path == "/v1/messages":
        last = answered.events[-2]["delta"] if stream else answered.json
        assert last["stop_reason"] == "refusal"
        assert last["stop_details"]["type"] == "refusal"
    elif path == "/v1/responses":
        final = answered.events[-1]["response"] if stream else answered.json
        assert final["status"] == "completed"
        (content,) = final["output"][0]["content"]
        assert content == {"type": "refusal", "refusal": "I will not do that."}
        kinds = [event["type"] for event in answered.events] if stream else []
        assert ("response.refusal.delta" in kinds) is stream
    else:
        choices = [
            chunk["choices"][0] for chunk in (answered.events[:-2] if stream else [answered.json])
        ]
        said = [choice.get("delta") or choice.get("message") or {} for choice in choices]
        assert "".join(piece.get("refusal") or "" for piece in said) == "I will not do that."
        assert not any(piece.get("content") for piece in said)
        assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("kind", ["rate_limited", "server_error"])
def test_failing_response_ends_with_response_failed(post, kind):
    with ModelServer([Step((Text("some"),), faults=(ErrorEvent(1, kind),))]) as server:
        last = post(server, "/v1/responses", stream=True).events[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["status"] == "failed"
    assert last["response"]["error"]["code"] in ("rate_limit_exceeded", "server_error")


def test_extra_content_of_a_call_is_kept(post):
    call = ToolCall("c", "f", "{}", extra={"google": {"thought_signature": "abc"}})
    with ModelServer([[call]] * 2) as server:
        whole = post(server, "/v1/chat/completions").json
        chunks = post(server, "/v1/chat/completions", stream=True).events
    assert whole["choices"][0]["message"]["tool_calls"][0]["extra_content"] == call.extra
    heads = [c["choices"][0]["delta"].get("tool_calls") for c in chunks[:-2]]
    assert [h[0]["extra_content"] for h in heads if h and "id" in h[0]] == [call.extra]


def test_invalid_arguments_reach_the_client_as_the_model_wrote_them(post):
    with ModelServer([[ToolCall("c", "f", '{"a": ')]] * 3) as server:
        chat = post(server, "/v1/chat/completions").json
        events = post(server, "/v1/messages", stream=True).events
        responses = post(server, "/v1/responses").json
    assert chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": '
    assert [e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta"] == [
        '{"a": '
    ]
    assert responses["output"][0]["arguments"] == '{"a": '


@pytest.mark.parametrize("body", CASES["last words"])
def test_echo_says_the_last_words_of_the_user(body):
    assert echo(RecordedRequest("POST", "/", {}, b"", body)).parts == (Text("last"),)


def get(server, path, headers=None):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    connection.request("GET", path, headers=headers or {})
    response = connection.getresponse()
    data = json.loads(response.read())
    connection.close()
    return response.status, data


def test_the_models_are_listed_in_the_style_of_the_client():
    with ModelServer([], models=("one", "two")) as server:
        status, openai = get(server, "/v1/models")
        _, anthropic = get(server, "/models", {"anthropic-version": "2023-06-01"})
    assert status == 200
    assert openai["object"] == "list"
    assert [model["id"] for model in openai["data"]] == ["one", "two"]
    assert [model["display_name"] for model in anthropic["data"]] == ["one", "two"]
    assert anthropic["has_more"] is False


def test_an_unknown_address_is_404():
    with ModelServer([]) as server:
        status, data = get(server, "/v1/v1/models")
    assert status == 404
    assert "Invalid URL (GET /v1/v1/models)" in data["error"]["message"]
