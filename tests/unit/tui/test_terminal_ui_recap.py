"""What a resumed conversation begins with."""

from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.tui.terminal_ui import recap
from hermes.tui.text import Paint


def test_the_last_exchanges_are_shown_in_short() -> None:
    history = []
    for number in range(12):
        history += [User.say(f"question {number}"), Assistant((Text(f"answer {number}"),))]
    lines = recap(history, Paint(), 80, "❯")
    assert lines[0] == "… 2 earlier questions"
    assert lines[1:3] == ["❯ question 2", "  answer 2"]
    assert lines[-1] == "  answer 11"


def test_long_texts_are_cut_and_calls_are_counted() -> None:
    call = ToolCall("c1", "terminal", "{}")
    history = [
        User.say("x" * 400 + "\nmore").with_aside("an aside"),
        Assistant((Text("I look"), call)),
        ToolResult("c1", "terminal", "seen"),
        Assistant((Text("one\ntwo\nthree\nfour\x1b[2J"),)),
    ]
    asked, calls, *answer = recap(history, Paint(), 80, ">")
    assert len(asked) == 302
    assert calls == "  ● 1 tool call"
    assert answer == ["  one", "  two", "  three …"]


def test_nothing_said_is_nothing_shown() -> None:
    assert recap([], Paint(), 80, ">") == []
