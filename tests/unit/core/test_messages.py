"""Messages are values, and their wire form is made once."""

import msgspec
import pytest
from hypothesis import given

from hermes.core.messages import Assistant, Image, Message, Text, Thinking, ToolCall, User, to_dict
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
def test_the_wire_form_is_the_encoded_form(message):
    assert bytes(message.wire(to_dict)) == msgspec.json.encode(to_dict(message))


@given(strategies.messages)
def test_every_message_survives_json(message):
    decoded = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    assert decoded == message


def test_the_parts_of_a_reply_are_found_by_kind():
    call = ToolCall("c1", "read_file", "{}")
    reply = Assistant((Thinking("a"), Text("one "), call, Thinking(), Thinking("b"), Text("two")))
    assert (reply.text, reply.thinking, reply.calls) == ("one two", "a\nb", (call,))


def test_the_text_of_a_user_leaves_out_pictures():
    assert User((Text("see"), Image("data:x"), Text("this"))).text == "see\nthis"
