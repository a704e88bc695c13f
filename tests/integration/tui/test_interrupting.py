"""Ctrl-C at every stage of a turn."""

from pathlib import Path

import pytest

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Stall, Step
from tests.integration.tui.conftest import BUSY, call, run

STOPPED = "hermes: stopped by Ctrl-C"
STAGES = {
    "before the first token": (Step((Text("never"),), faults=(Stall(0),)), "ctrl-c stops", STOPPED),
    "while text streams": (
        Step((Text("one two three four five"),), faults=(Stall(2),)),
        "one two three fo",
        f"one two three fo\n{STOPPED}",
    ),
    "while a tool runs": (
        run(BUSY),
        "terminal touch begun",
        f"▪ terminal {BUSY} · stopped ■\n{STOPPED}",
    ),
    "at a question for consent": (
        run("rm -rf junk"),
        "[o] once",
        f"▪ terminal rm -rf junk · stopped ■\n{STOPPED}",
    ),
    "at a question of the agent": (
        call("clarify", question="Which colour?", choices=["red", "blue"]),
        "or your own words",
        f"? Which colour?\n  no answer\n▪ clarify Which colour? · stopped ■\n{STOPPED}",
    ),
}
"""What the model does, what is seen when Ctrl-C is pressed, and what is left of it."""


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_stops_the_turn(chat, work: Path, stage: str) -> None:
    step, seen, left = STAGES[stage]
    (work / "junk").mkdir()
    with ModelServer([step, "Here again."]) as server:
        it = chat(server, columns=120)
        it.say("begin").sees_last(seen)
        it.wait(lambda _it: len(server.calls) == 1, "the call")
        it.press("ctrl-c").sees(STOPPED).ready().ask("again", "Here again.")
        it.reads(f"""
❯ begin

{left}

❯ again

Here again.
""")
    assert (work / "junk").is_dir()


def test_ctrl_c_stops_a_compaction(chat, settings) -> None:
    settings(
        "compression:\n  protect_last_n: 1\n  target_ratio: 0.1\nmodel:\n  context_length: 30000\n"
    )
    long = " ".join(f"word{number}" for number in range(3_500))
    summary = Step((Text("a summary"),), faults=(Stall(1),))
    with ModelServer(["One.", f"Two. {long}", "Three.", "Four.", summary, "Five."]) as server:
        it = chat(server)
        for question, answer in zip("1234", ("One.", "Two.", "Three.", "Four."), strict=True):
            it.ask(question, answer)
        it.say("/compress").sees_last("working… ctrl-c stops")
        it.wait(lambda _it: len(server.calls) == 5, "the call")
        it.press("ctrl-c").sees("stopped by Ctrl-C").ready().ask("5", "Five.")
        it.reads("❯ /compress\n\nstopped by Ctrl-C\n\n❯ 5\n\nFive.")
        assert long in server.calls[-1].raw.decode(), "the conversation is as it was"


def test_escape_stops_the_turn(chat) -> None:
    with ModelServer([run(BUSY), "Here again."]) as server:
        it = chat(server)
        it.say("begin").sees_last("working…").press("escape").sees("hermes: stopped by Esc").ready()
        it.ask("again", "Here again.")


def test_ctrl_c_puts_the_draft_into_the_history(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        before = it.settled().lines
        it.type("something typed").sees_last("❯ something typed").press("ctrl-c")
        it.gone("something typed")
        assert it.settled().lines == before
        it.press("up").sees_last("❯ something typed").press("ctrl-c").gone("something typed")
        it.press("ctrl-c").sees_last("Ctrl-C again leaves").press("ctrl-c")
        assert it.ended() == 0
        assert "See you soon!" in it.text


def test_a_key_between_two_presses_keeps_the_conversation(chat) -> None:
    with ModelServer(["Hello."]) as server:
        it = chat(server)
        it.press("ctrl-c").sees_last("Ctrl-C again leaves, and so does Ctrl-D.")
        it.type("x").press("backspace", "ctrl-c").settled(0.5)
        it.type("/resume x").sees_last("❯ /resume x").press("ctrl-c").gone("/resume x")
        it.type("/model").sees_last("❯ /model").press("ctrl-c").gone("❯ /model")
        it.ask("hello", "Hello.")


def test_hammering_ctrl_c_stops_the_turn_and_keeps_the_draft(chat, work: Path) -> None:
    with ModelServer([run(f"trap '' TERM INT HUP; touch deaf; {BUSY}"), "Hello."]) as server:
        it = chat(server)
        it.say("begin")
        it.wait(lambda _it: (work / "deaf").exists(), "the command")
        it.press("ctrl-c", "ctrl-c", "ctrl-c").sees("hermes: stopped by Ctrl-C").ready()
        it.ask("hello", "Hello.")


def test_twice_escape_goes_back_to_an_earlier_question(chat) -> None:
    with ModelServer(["One.", "Two.", "Three.", "Two again."]) as server:
        it = chat(server)
        for question, answer in (("first", "One."), ("second", "Two."), ("third", "Three.")):
            it.ask(question, answer)
        it.press("escape", "escape").sees_last("Go back to before which question?")
        it.sees_last("▸ third").press("down").sees_last("▸ second").press("enter")
        it.sees_last("❯ second").sees_last("goes back to before this question")
        it.type(" try").sees_last("❯ second try").press("enter").sees("Two again.").ready()
        assert it.text.count("goes back to before this question") == 0
        asked = server.calls[-1].body["messages"]
    assert [each["content"] for each in asked if each["role"] == "user"] == ["first", "second try"]


def test_clearing_the_input_keeps_the_conversation(chat) -> None:
    with ModelServer(["One.", "Two."]) as server:
        it = chat(server)
        it.ask("first", "One.").press("escape", "escape").sees_last("▸ first").press("enter")
        it.sees_last("goes back to before").press("ctrl-c").gone("goes back to before")
        it.ask("second", "Two.")
        asked = server.calls[-1].body["messages"]
    assert [each["content"] for each in asked if each["role"] == "user"] == ["first", "second"]


def test_keys_after_the_choice_belong_to_the_message(chat) -> None:
    with ModelServer(["One.", "Two."]) as server:
        it = chat(server)
        it.ask("first", "One.").press("escape", "escape").sees_last("▸ first")
        it.type("\rmore\r").sees("Two.").ready()
        asked = server.calls[-1].body["messages"]
    assert [each["content"] for each in asked if each["role"] == "user"] == ["firstmore"]
