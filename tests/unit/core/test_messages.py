"""Messages and their OpenAI form."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import UsageError
from hermes.core.messages import (
    Assistant,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    User,
    call_from_dict,
    canonical_arguments,
    from_dict,
    made_call_id,
    to_dict,
)
from tests.cases import cases
from tests.unit.core import strategies


def test_a_message_cannot_be_changed():
    with pytest.raises(AttributeError):
        User.say("hello").parts = ()


def test_the_wire_form_is_made_once_for_each_form():
    made = []

    def form(message):
        made.append(message)
        return {"said": message.text}

    def other(message):
        return [message.text]

    message = User.say("hello")
    first, second = message.wire(form), message.wire(form)
    assert bytes(first) == b'{"said":"hello"}'
    assert first is second
    assert made == [message]
    assert bytes(message.wire(other)) == b'["hello"]'
    assert bytes(message.wire(form)) == b'{"said":"hello"}'


def test_equal_messages_stay_equal_whatever_was_made_of_them():
    sent, fresh = User.say("hello"), User.say("hello")
    sent.wire(to_dict)
    assert sent == fresh
    assert msgspec.json.encode(sent) == msgspec.json.encode(fresh)


@given(strategies.messages)
def test_every_message_survives_json_and_its_openai_form(message):
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message
    data = to_dict(message)
    assert bytes(message.wire(to_dict)) == msgspec.json.encode(data)
    assert to_dict(from_dict(data)) == data
    assert json.loads(json.dumps(data)) == data


def test_the_parts_of_a_reply_are_found_by_kind():
    call = ToolCall("c1", "read_file", "{}")
    reply = Assistant((Thinking("a"), Text("one "), call, Thinking(), Thinking("b"), Text("two")))
    assert (reply.text, reply.thinking, reply.calls) == ("one two", "a\nb", (call,))


def test_the_text_of_a_user_leaves_out_pictures():
    assert User((Text("see"), Image("data:x"), Text("this"))).text == "see\nthis"


@given(
    st.builds(
        lambda thought, text, calls, finish: Assistant(
            (
                *([thought] if thought != Thinking() else []),
                *([Text(text)] if text else []),
                *calls,
            ),
            finish,
        ),
        strategies.thoughts,
        strategies.texts,
        st.lists(strategies.calls, max_size=3),
        strategies.names,
    )
)
def test_a_reply_in_the_usual_order_comes_back_the_same(reply):
    assert from_dict(to_dict(reply)) == reply


@given(strategies.results)
def test_a_tool_result_comes_back_the_same(result):
    assert from_dict(to_dict(result)) == result


@given(strategies.texts, strategies.texts)
def test_a_picture_among_texts_comes_back_in_its_place(before, after):
    user = User((Text(before), Image("https://x/y.png"), Text(after)))
    assert from_dict(to_dict(user)) == user


@pytest.mark.parametrize(("data", "message"), cases(__file__)["dialects"])
def test_the_dialects_are_understood(data, message):
    assert from_dict(data) == msgspec.convert(message, Message)


def test_an_unknown_role_is_a_usage_error():
    for role in ("robot", None, 3):
        with pytest.raises(UsageError, match="unknown role"):
            from_dict({"role": role, "content": "x"})


def test_a_reply_with_calls_and_no_finish_reason_ended_in_calls():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    reply = from_dict({"role": "assistant", "content": "", "tool_calls": [call]})
    assert reply == Assistant((ToolCall("c1", "f", "{}"),), "tool_calls")


def test_a_written_call_carries_both_names_of_its_id():
    data = to_dict(Assistant((ToolCall("c1", "f", "{}", extra={"k": 1}),), "tool_calls"))
    assert data["tool_calls"] == [
        {
            "id": "c1",
            "call_id": "c1",
            "type": "function",
            "function": {"name": "f", "arguments": "{}"},
            "extra_content": {"k": 1},
        }
    ]


def test_arguments_that_came_as_an_object_become_text():
    assert call_from_dict({"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}) == (
        ToolCall("c", "f", '{"a":1}')
    )


def test_a_call_without_an_id_gets_the_same_one_each_time():
    data = {"function": {"name": "f", "arguments": "{}"}}
    first, again, second = call_from_dict(data), call_from_dict(data), call_from_dict(data, 1)
    assert first.id == again.id == made_call_id("f", "{}", 0)
    assert first.id != second.id
    assert first.id.startswith("call_")


@given(strategies.objects)
def test_canonical_arguments_do_not_depend_on_order_or_spaces(value):
    shuffled = dict(reversed(list(value.items())))
    loose = canonical_arguments(json.dumps(shuffled, indent=2))
    assert loose == canonical_arguments(json.dumps(value))
    assert json.loads(loose) == value


def test_arguments_that_are_not_json_stay_as_they_are():
    assert canonical_arguments('{"a": ') == '{"a": '
