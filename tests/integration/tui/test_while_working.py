"""What is typed while the agent works."""

from pathlib import Path

import pytest

from hermes.core.messages import Text
from hermes.core.testing import ModelServer, Stall, Step
from tests.integration.tui.conftest import BUSY, call, run, said

QUEUE = "display:\n  busy_input_mode: queue\n"
NAMES = ("notes", "other")
INTERRUPT = "display:\n  busy_input_mode: interrupt\n"


def users(server: ModelServer, number: int = -1) -> list[str]:
    """What the user said, in a request."""
    messages = server.calls[number].body["messages"]
    return [each["content"] for each in messages if each["role"] == "user"]


def test_a_new_message_interrupts_and_is_answered(chat, settings) -> None:
    settings(INTERRUPT)
    stalled = Step((Text("one two three four five"),), faults=(Stall(2),))
    with ModelServer([stalled, "Something else then."]) as server:
        it = chat(server)
        it.say("count").sees("one two three fo").sees_last("Enter: interrupt")
        it.ask("no, stop", "Something else then.")
        it.reads("""
❯ count

one two three fo
hermes: stopped by the next message

❯ no, stop

Something else then.
""")
        assert users(server) == ["count", "no, stop"]


def test_a_message_waits_in_queue_mode(chat, settings, work: Path) -> None:
    settings(QUEUE)
    with ModelServer([run(BUSY), "It is built.", "Shipped."]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("then ship it").sees_last("⧗ then ship it")
        assert "Enter: queue" in it.shown[-3]
        (work / "go").touch()
        it.reads(f"""
❯ build it

▪ terminal {BUSY} ✓
   built

It is built.

❯ then ship it

Shipped.
""")
        assert users(server, 1) == ["build it"]


def test_a_message_steers_by_default(chat, work: Path) -> None:
    with ModelServer([run(BUSY), "Fine, in blue."]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").sees_last("Enter: steer")
        it.say("in blue").sees_last("↪ in blue")
        assert "Enter: steer" in it.shown[-3]
        (work / "go").touch()
        it.reads(f"""
❯ build it

↪ in blue
▪ terminal {BUSY} ✓
   built

Fine, in blue.
""")
        assert said(server).endswith("in blue")


def test_two_messages_typed_while_a_tool_runs(chat, settings, work: Path) -> None:
    settings(QUEUE)
    with ModelServer([run(BUSY), "It is built.", "First.", "Second."]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("the first").say("the second")
        it.type("the third, not sent").sees_last("❯ the third, not sent")
        assert "ctrl-c stops" in it.shown[-6]
        assert it.shown[-5:-3] == ["⧗ the first", "⧗ the second"]
        (work / "go").touch()
        it.reads("❯ the first\n\nFirst.\n\n❯ the second\n\nSecond.")
        assert it.input == ["❯ the third, not sent"]
        assert users(server) == ["build it", "the first", "the second"]


def test_two_messages_at_once_interrupt_and_are_both_answered(chat, settings, work) -> None:
    settings(INTERRUPT)
    with ModelServer([run(BUSY), "First.", "Second."]) as server:
        it = chat(server)
        it.say("build it").wait(lambda _it: (work / "begun").exists(), "the tool")
        it.type("the first\rthe second\r")
        it.reads("❯ the first\n\nFirst.\n\n❯ the second\n\nSecond.")
        assert users(server) == ["build it", "the first", "the second"]


def test_commands_run_during_a_turn_or_are_queued(chat, work: Path) -> None:
    with ModelServer([run(BUSY), "It is built."]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("/agents")
        it.sees("Nothing runs in the background.").say("/undo").sees_last("⧗ /undo")
        (work / "go").touch()
        it.reads(f"""
❯ build it

❯ /agents

Nothing runs in the background.

❯ /undo

/undo comes after this turn; /stop ends it.

▪ terminal {BUSY} ✓
   built

It is built.

Taken back from: build it
0 questions left.
""")


def test_a_background_answer_does_not_disturb_what_is_typed(chat) -> None:
    answer = Step((Text("The answer is 42."),), faults=(Stall(1, 0.5),))
    with ModelServer([answer]) as server:
        it = chat(server, columns=50)
        it.say("/background what is the answer?").sees_last("1 in background").type("half a sen")
        it.sees("The answer is 42.").type("tence").gone("in background")
        it.sees_last("❯ half a sentence")
        assert it.input == ["❯ half a sentence"]
        assert sum("half a sen" in line for line in it.everything) == 1
        assert said(server) == "what is the answer?"


@pytest.mark.parametrize("key", ["ctrl-c", "escape"])
@pytest.mark.parametrize("mode", ["queue", "steer"])
def test_undelivered_messages_return_to_the_input_after_a_stop(chat, settings, key, mode) -> None:
    settings(f"display:\n  busy_input_mode: {mode}\n")
    with ModelServer([run(BUSY), "Shipped."]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("then ship it").sees_last(" then ship it")
        it.type("and").sees_last("❯ and").press(key).sees("hermes: stopped by").gone("ctrl-c stops")
        it.sees_last("❯ then ship it")
        assert it.input == ["❯ then ship it", "  and"]
        assert len(server.calls) == 1, "no turn starts by itself"
        it.press("enter").sees("Shipped.")
        assert users(server)[-1].endswith("then ship it\nand")


def test_a_steered_message_that_was_read_does_not_return(chat, work: Path) -> None:
    stalled = Step((Text("one two three four five"),), faults=(Stall(2),))
    with ModelServer([run(BUSY), stalled]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("in blue").sees_last("↪ in blue")
        (work / "go").touch()
        it.sees("one two three fo").press("ctrl-c").sees("hermes: stopped by").ready()
        assert it.input == ["❯"]


def test_own_command_runs_at_once_during_a_turn(chat, work: Path) -> None:
    with ModelServer([run(BUSY), "It is built.", "I see it."]) as server:
        it = chat(server)
        it.say("build it").wait(lambda _it: (work / "begun").exists(), "the tool")
        it.say("!cd /; echo mine").sees("❯ !cd").wait(lambda it: "mine" in it.lines, "the output")
        it.say("!touch go").sees("It is built.").ready()
        assert users(server) == ["build it"]
        it.ask("what did I run?", "I see it.")
        assert "$ cd /; echo mine\nmine" in said(server)


def test_stop_ends_an_own_command_and_the_turn(chat) -> None:
    with ModelServer([run(BUSY)]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("!echo mine; sleep 100").sees_last("mine")
        it.press("escape").sees("hermes: stopped by Esc").ready()


def test_steered_message_brings_the_file_it_refers_to(chat, work: Path) -> None:
    (work / "notes.txt").write_text("buy milk\n")
    with ModelServer([run(BUSY), "Milk, then."]) as server:
        it = chat(server)
        it.say("build it").sees_last("working…").say("see @notes.txt").sees_last("↪ see @notes.txt")
        (work / "go").touch()
        it.sees("Milk, then.").ready()
        assert "buy milk" in said(server)


def test_attached_file_counts_as_read(chat, work: Path) -> None:
    (work / "notes.txt").write_text("buy milk\n")
    (work / "other.txt").write_text("keep\n")
    writes = [call("write_file", name, path=f"{name}.txt", content="x\n") for name in NAMES]
    with ModelServer([*writes, "Done."]) as server:
        it = chat(server)
        it.ask("replace @notes.txt", "Done.")
    assert (work / "notes.txt").read_text() == "x\n"
    assert (work / "other.txt").read_text() == "keep\n", "it was not attached"
