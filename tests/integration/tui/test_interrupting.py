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
    "while a tool runs": (run(BUSY), "working…", f"💻 terminal {BUSY} · stopped ■\n{STOPPED}"),
    "at a question for consent": (
        run("rm -rf junk"),
        "[o] once",
        f"💻 terminal rm -rf junk · stopped ■\n{STOPPED}",
    ),
    "at a question of the agent": (
        call("clarify", question="Which colour?", choices=["red", "blue"]),
        "or your own words",
        f"? Which colour?\n  no answer\n💬 clarify Which colour? · stopped ■\n{STOPPED}",
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
    long = " ".join(f"word{number}" for number in range(4_000))
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


def test_while_nothing_runs_it_clears_the_input_and_leaves_the_second_time(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        before = it.settled().lines
        it.type("something typed").sees_last("❯ something typed").press("ctrl-c")
        it.gone("something typed")
        assert it.settled().lines == before
        it.press("ctrl-c")
        assert it.ended() == 0
        assert it.shown[4:] == ["See you soon!"]


def test_once_while_nothing_runs_says_how_to_leave(chat) -> None:
    with ModelServer([]) as server:
        it = chat(server)
        it.press("ctrl-c").sees_last("Ctrl-C again leaves, and so does Ctrl-D.").press("ctrl-c")
        assert it.ended() == 0


def test_twice_while_a_tool_runs_leaves(chat, work: Path) -> None:
    with ModelServer([run(f"trap '' TERM INT HUP; touch deaf; {BUSY}")]) as server:
        it = chat(server)
        it.say("begin")
        it.wait(lambda _it: (work / "deaf").exists(), "the command")
        it.press("ctrl-c", "ctrl-c")
        assert it.ended() == 130
        assert it.is_restored
