"""What a reader sees who cannot unsee: nothing twice, nothing missing."""

from hermes.core.events import Event, TextFinished, UsageReported
from hermes.core.model import FellBack, Retrying, TextDelta, Usage
from hermes.gateway.platforms.api_server.turns import Speech

AGAIN = Retrying("cut", 1, 0.1)


def spoken(*events: Event | str) -> str:
    """`str` stands for a delta."""
    speech = Speech()
    sent = [speech.hear(TextDelta(event) if isinstance(event, str) else event) for event in events]
    assert "".join(sent) == speech.text
    return speech.text


def test_text_comes_as_it_is_said() -> None:
    assert spoken("Hello ", "there", TextFinished("Hello there")) == "Hello there"


def test_a_reply_that_came_in_one_piece_is_sent_too() -> None:
    assert spoken(TextFinished("whole")) == "whole"


def test_replies_of_one_turn_are_apart() -> None:
    assert spoken("a", TextFinished("a"), "b", TextFinished("b")) == "a\n\nb"


def test_a_reply_that_was_cut_goes_on_in_the_same_word() -> None:
    cut = UsageReported(Usage(), finish_reason="length")
    assert spoken("Hel", TextFinished("Hel"), cut, "lo", TextFinished("lo")) == "Hello"


def test_a_call_made_again_repeats_nothing() -> None:
    assert spoken("Hello", AGAIN, "Hel", "lo the", "re", TextFinished("Hello there")) == (
        "Hello there"
    )


def test_another_model_that_says_something_else_is_heard_after_it() -> None:
    other = FellBack("p", "m", "gone")
    assert spoken("Hello", other, "Go", "od day", TextFinished("Good day")) == ("Hello\n\nGood day")


def test_a_second_try_that_says_less_takes_nothing_back() -> None:
    assert spoken("Hello there", AGAIN, "Hello", TextFinished("Hello")) == "Hello there"
