"""A conversation that grows is encoded piece by piece, and one that changed is encoded anew."""

from typing import Any

from hermes.core.messages import User
from hermes.providers.wire.codec import IncrementalEncoder


class Form:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, message: Any) -> Any:
        self.asked.append(message.text)
        return message.text


def said(growing: IncrementalEncoder, messages: tuple[User, ...]) -> list[str]:
    return [bytes(raw).decode().strip('"') for raw in growing.encode(messages)]


def test_only_what_is_new_is_encoded():
    form = Form()
    growing, a, b, c = IncrementalEncoder(form), User.say("a"), User.say("b"), User.say("c")
    assert said(growing, (a, b)) == ["a", "b"]
    assert said(growing, (a, b, c)) == ["a", "b", "c"]
    assert form.asked == ["a", "b", "c"]


def test_a_message_in_the_middle_that_changed_is_seen():
    growing, a, b, c = IncrementalEncoder(Form()), User.say("a"), User.say("b"), User.say("c")
    said(growing, (a, b, c))
    assert said(growing, (a, User.say("B"), c)) == ["a", "B", "c"]


def test_a_shorter_conversation_is_another_one():
    growing, a, b = IncrementalEncoder(Form()), User.say("a"), User.say("b")
    said(growing, (a, b))
    assert said(growing, (a,)) == ["a"]
    assert said(growing, (a, b)) == ["a", "b"]


def test_what_the_caller_does_to_its_list_changes_nothing():
    growing, a = IncrementalEncoder(Form()), User.say("a")
    growing.encode((a,)).clear()
    assert said(growing, (a,)) == ["a"]
