"""Messages of clients become a conversation, or the error names the wrong part."""

import tomllib
from pathlib import Path

import msgspec
import pytest

from hermes.core.messages import Assistant, Image, Text, ToolCall, ToolResult, User
from hermes.gateway.platforms.api_server.chat import (
    ONLY_JSON,
    ChatRequest,
    ClientConversation,
    format_instructions,
    split_conversation,
    to_message,
)
from hermes.gateway.platforms.api_server.http import ApiError, ApiOptions, ApiRequest
from hermes.gateway.platforms.api_server.responses import InputItem, input_messages

CASES = tomllib.loads(Path(__file__).with_name("chat.toml").read_text("utf-8"))
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def read(*messages: object, **more: object) -> ClientConversation:
    body = msgspec.json.encode({"messages": messages, **more})
    return split(body)


def split(body: bytes) -> ClientConversation:
    wanted = ApiRequest({"type": "http"}, ApiOptions(), content=body).decode(ChatRequest)
    return split_conversation(
        to_message(each, f"messages[{number}]") for number, each in enumerate(wanted.messages)
    )


def refused(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        split(body)
    assert caught.value.status == 400
    return caught.value


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def test_system_messages_become_instructions():
    talk = read(
        {"role": "system", "content": "Be brief."},
        user("hi"),
        {"role": "assistant", "content": "Hello."},
        {"role": "developer", "content": [{"type": "text", "text": "In French."}]},
        user("again"),
    )
    assert talk.instructions == "Be brief.\n\nIn French."
    assert talk.history == (User.say("hi"), Assistant((Text("Hello."),)))
    assert talk.message == User.say("again")


def test_images_are_accepted_inline():
    picture = {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}
    talk = read(user([{"type": "text", "text": "what is it?"}, picture]))
    assert talk.message == User((Text("what is it?"), Image(PIXEL)))


def test_tool_calls_of_the_client_are_kept_as_history():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk = read(
        user("go"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        user("and?"),
    )
    assert talk.history[1:] == (
        Assistant((ToolCall("c1", "f", "{}"),)),
        ToolResult("c1", "", "done"),
    )


@pytest.mark.parametrize("part", CASES["unsupported_parts"])
def test_other_content_types_are_unsupported(part):
    caught = refused(msgspec.json.encode({"messages": [user([msgspec.Raw(part)])]}))
    assert caught.code == "unsupported_content_type"
    assert caught.param == "messages[0].content[0]"


@pytest.mark.parametrize(("body", "param"), [*CASES["bad_requests"], ["[" * 100_000, ""]])
def test_bad_requests_name_the_invalid_field(body, param):
    assert refused(body.encode("latin-1")).param == param


def test_system_message_at_the_end_is_the_question():
    """So NextChat asks for a summary, and others for a title."""
    brief = {"role": "system", "content": "Be brief."}
    talk = read(brief, user("hi"), answer("Hello."), {"role": "system", "content": "Sum up."})
    assert talk.instructions == "Be brief."
    assert talk.history == (User.say("hi"), Assistant((Text("Hello."),)))
    assert talk.message == User.say("Sum up.")
    alone = read({"role": "developer", "content": "Make a title."})
    assert (alone.instructions, alone.message) == ("", User.say("Make a title."))


def test_conversation_that_ends_with_an_answer_is_continued():
    """So Open WebUI asks for more of an answer."""
    talk = read(user("Count."), answer("One, two,"))
    assert talk.history == (User.say("Count."), Assistant((Text("One, two,"),)))
    assert talk.message == User.say("Go on.")
    assert read(user("Go on.")).message == User.say("Go on.")


def test_invalid_history_is_repaired():
    call = {"id": "c1", "type": "function", "function": {"name": "f"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    stray = {"role": "tool", "tool_call_id": "c9", "content": "x"}
    talk = read(user("one"), answer(""), user(""), called, user("two"), stray, user("three"))
    assert [message.role for message in talk.history] == ["user", "assistant", "tool", "user"]
    result = talk.history[2]
    assert isinstance(result, ToolResult)
    assert result.call_id == "c1"


def answer(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


def test_image_with_invalid_base64_is_refused():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,???"}}
    assert "base64" in str(refused(msgspec.json.encode({"messages": [user([picture])]})))


def test_unknown_fields_are_ignored():
    talk = read(user("hi"), tools=[{"type": "function"}], temperature=9, whatever={"a": [1]})
    assert talk.message == User.say("hi")


def test_input_items_become_messages():
    assert input_messages("hi") == [User.say("hi")]
    items = [
        InputItem(role="user", content="go"),
        InputItem("reasoning"),
        InputItem("function_call", call_id="c1", name="f", arguments="{}"),
        InputItem("function_call_output", call_id="c1", output="done"),
        InputItem("message", "assistant", "Well."),
    ]
    assert input_messages(items) == [
        User.say("go"),
        Assistant((ToolCall("c1", "f", "{}"),), "tool_calls"),
        ToolResult("c1", "", "done"),
        Assistant((Text("Well."),)),
    ]


def test_call_of_a_server_tool_becomes_a_call_and_its_result():
    error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]}
    items = [
        InputItem("message", "assistant", "Let me see."),
        InputItem("mcp_call", id="mcp_1", name="f", arguments="{}", output="done"),
        InputItem("mcp_call", id="mcp_2", name="g", arguments="{}", error=error),
        InputItem("mcp_call", id="mcp_3", name="h", arguments="{}", error="broken"),
    ]
    assert input_messages(items) == [
        Assistant((Text("Let me see."), ToolCall("mcp_1", "f", "{}")), "tool_calls"),
        ToolResult("mcp_1", "f", "done"),
        Assistant((ToolCall("mcp_2", "g", "{}"),), "tool_calls"),
        ToolResult("mcp_2", "g", "no"),
        Assistant((ToolCall("mcp_3", "h", "{}"),), "tool_calls"),
        ToolResult("mcp_3", "h", "broken"),
    ]


def test_parallel_calls_stay_in_one_reply():
    items = [
        InputItem(role="user", content="go"),
        InputItem("message", "assistant", "Let me see."),
        InputItem("function_call", call_id="c1", name="f"),
        InputItem("function_call", call_id="c2", name="g"),
        InputItem("function_call_output", call_id="c1", output="one"),
        InputItem("function_call_output", call_id="c2", output="two"),
        InputItem(role="user", content="and?"),
    ]
    talk = split_conversation(input_messages(items), "input")
    calls = (Text("Let me see."), ToolCall("c1", "f", "{}"), ToolCall("c2", "g", "{}"))
    assert talk.history[1:] == (
        Assistant(calls, "tool_calls"),
        ToolResult("c1", "", "one"),
        ToolResult("c2", "", "two"),
    )


@pytest.mark.parametrize("item", [InputItem("item_reference"), InputItem("message")])
def test_unsupported_input_item_is_refused(item):
    with pytest.raises(ApiError) as caught:
        input_messages([item])
    assert caught.value.param == "input[0]"


SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


@pytest.mark.parametrize("given", [None, "json", {}, {"type": "text"}, {"type": 7}, []])
def test_plain_text_format_adds_no_instruction(given):
    assert format_instructions(given) == ""


@pytest.mark.parametrize(
    "given",
    [
        {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA}},
        {"type": "json_schema", "name": "t", "schema": SCHEMA},
    ],
)
def test_schema_is_found_in_both_places(given):
    assert format_instructions(given).endswith(
        '{"type":"object","properties":{"title":{"type":"string"}}}'
    )


@pytest.mark.parametrize(
    "given",
    [{"type": "json_object"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": 7}],
)
def test_json_object_without_schema_adds_the_json_instruction(given):
    assert format_instructions(given) == ONLY_JSON
