"""What a message does while the agent is at work."""

import asyncio

import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import Stall, Step, echo

STALLED = Step((Text("never"),), faults=(Stall(0),))
SLOW = Step((ToolCall("c1", "terminal", '{"command": "sleep 600"}'),))


async def test_a_newer_message_stops_the_turn_and_is_answered(harness):
    await harness.open([STALLED, "the second"], display__busy_input_mode="interrupt")
    await harness.begin("first")
    await harness.ask("second", "the second")
    await harness.wait_idle()
    said = str(harness.server.calls[-1].body["messages"])
    assert harness.texts() == ["the second"]
    assert "first" in said and "second" in said


@pytest.mark.parametrize("stop", ["second", "/stop"])
async def test_stopped_answer_stays_in_the_conversation(harness, stop):
    half = Step((Text("half an answer that stops"),), faults=(Stall(1),))
    await harness.open(
        [half, "the second"],
        streaming__enabled=True,
        streaming__edit_interval=0.01,
        streaming__buffer_threshold=3,
    )
    harness.say("first")
    await harness.wait_for("half")
    if stop == "/stop":
        await harness.ask("/stop", "Stopped.")
    await harness.ask("second", "the second")
    await harness.wait_idle()
    *_, asked, answered, newer = harness.server.calls[-1].body["messages"]
    assert ("first" in str(asked), "second" in str(newer)) == (True, True)
    assert [each["role"] for each in (asked, answered, newer)] == ["user", "assistant", "user"]
    assert answered["content"].startswith("half")
    assert answered["content"].endswith("[interrupted by the user]")


async def test_messages_that_stopped_a_turn_are_answered_together(harness, monkeypatch):
    await harness.open([STALLED, "both"], display__busy_input_mode="interrupt")
    harness.hold_turns(monkeypatch)
    await harness.begin("first")
    harness.say("second")
    harness.say("third")
    await harness.wait_for("both")
    await harness.wait_idle()
    assert "second" in str(harness.server.calls[-1].body["messages"][-1])
    assert "third" in str(harness.server.calls[-1].body["messages"][-1])
    assert harness.texts() == ["both"]


async def test_queued_messages_are_answered_one_after_the_other(harness):
    await harness.open(echo, display__busy_input_mode="queue")
    for number in range(5):
        harness.say(f"message {number}")
    await harness.wait_for("message 4")
    await harness.wait_idle()
    assert harness.texts() == [f"message {number}" for number in range(5)]


async def test_steering_message_reaches_the_running_turn(harness):
    step = Step((ToolCall("c1", "clarify", '{"question": "go on?"}'),))
    await harness.open([step, "turned left"], display__busy_input_mode="steer")
    harness.say("drive", chat="road")
    await harness.wait_for("go on?", chat="road")
    harness.say("turn left", user="anna", chat="road")
    await harness.wait_for("turned left", chat="road")
    await harness.wait_idle()
    assert "turn left" in str(harness.server.calls[-1].body["messages"])


@pytest.mark.parametrize("words", ["listen to me", "/steer listen to me"])
@pytest.mark.parametrize("shown", ["all", "off"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_text_before_a_steering_message_is_shown(harness, words, shown, streaming):
    slow = Step((Text("the first answer"),), faults=(Stall(0, seconds=0.5),))
    await harness.open(
        [slow, "the second answer"],
        display__busy_input_mode="steer",
        display__tool_progress=shown,
        display__interim_assistant_messages=shown == "all",
        streaming__enabled=streaming,
    )
    await harness.begin("begin")
    harness.say(words)
    await harness.wait_for("the second answer")
    await harness.wait_idle()
    assert "listen to me" in str(harness.server.calls[-1].body["messages"])
    seen = [text for text in harness.texts() if not text.startswith("The agent reads it")]
    assert seen == ["the first answer", "the second answer"]


@pytest.mark.parametrize("command", ["/stop", "/STOP", "/stop@our_bot"])
async def test_stop_ends_the_turn_at_once(harness, command):
    await harness.open([STALLED, "again"])
    await harness.begin("begin")
    await harness.ask(command, "Stopped.")
    await harness.ask("and now", "again")
    await harness.wait_idle()
    assert harness.texts() == ["Stopped.", "again"]


async def test_stop_ends_a_command_that_runs(harness):
    runner = await harness.open([SLOW, "never"][:1], gateway__terminal="local")
    harness.say("sleep")
    await harness.until(
        lambda: runner.gateway.running_turns and len(harness.server.calls) == 1, "the turn"
    )
    await asyncio.sleep(0.3)
    await harness.ask("/stop", "Stopped.")
    await harness.until(lambda: not runner.gateway.running_turns, "the end of the turn")
    await harness.wait_idle()
    assert harness.texts() == ["Stopped."]


async def test_status_is_answered_while_the_agent_works(harness):
    await harness.open([STALLED])
    await harness.begin("begin")
    await harness.ask("/status", "Session:")
    await harness.ask("/stop", "Stopped.")


async def test_the_model_cannot_be_changed_under_a_running_turn(harness):
    await harness.open([STALLED])
    await harness.begin("begin")
    await harness.ask("/model other", "A turn is running")
    await harness.ask("/stop", "Stopped.")


async def test_new_ends_the_turn_and_begins_anew(harness):
    await harness.open([STALLED, "fresh"])
    await harness.begin("old business")
    await harness.ask("/new", "A new conversation")
    await harness.ask("hello", "fresh")
    assert "old business" not in str(harness.server.calls[-1].body["messages"])


async def test_queue_keeps_a_message_for_after_the_turn(harness):
    slow = Step((Text("first done"),), faults=(Stall(0, seconds=0.5),))
    await harness.open([slow, "then this"])
    await harness.begin("begin")
    await harness.ask("/queue and then", "Kept for after this turn")
    await harness.wait_for("then this")
    await harness.wait_idle()
    assert "and then" in str(harness.server.calls[-1].body["messages"][-1])
    assert harness.texts() == ["Kept for after this turn.", "first done", "then this"]


async def test_a_busy_chat_does_not_hold_up_another(harness):
    def answer(request):
        return STALLED if "slow" in str(request.body["messages"][-1]) else echo(request)

    await harness.open(answer)
    await harness.begin("slow")
    await harness.ask("quick", "quick", user="ben")
    await harness.ask("/stop", "Stopped.")
