"""What a message does while the agent is at work."""

import asyncio

import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, Stall, Step, echo
from tests.integration.gateway.chats.conftest import Town

STALLED = Step((Text("never"),), faults=(Stall(0),))
SLOW = Step((ToolCall("c1", "terminal", '{"command": "sleep 600"}'),))


async def test_a_newer_message_stops_the_turn_and_is_answered(town: Town) -> None:
    with ModelServer([STALLED, "the second"]) as server:
        await town.open(server)
        town.say("first")
        await town.until(lambda: server.calls, "the call")
        await town.asks("second", "the second")
        await town.settled()
        said = str(server.calls[-1].body["messages"])
    assert town.texts() == ["the second"]
    assert "first" in said and "second" in said


async def test_messages_that_stopped_a_turn_are_answered_together(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer([STALLED, "both"]) as server:
        await town.open(server)
        town.hold_turns(monkeypatch)
        town.say("first")
        await town.until(lambda: server.calls, "the call")
        town.say("second")
        town.say("third")
        await town.sees("both")
        await town.settled()
        assert "second" in str(server.calls[-1].body["messages"][-1])
        assert "third" in str(server.calls[-1].body["messages"][-1])
    assert town.texts() == ["both"]


async def test_queued_messages_are_answered_one_after_the_other(town: Town) -> None:
    with ModelServer(echo) as server:
        await town.open(server, display__busy_input_mode="queue")
        for number in range(5):
            town.say(f"message {number}")
        await town.sees("message 4")
        await town.settled()
    assert town.texts() == [f"message {number}" for number in range(5)]


async def test_a_steering_message_is_heard_by_the_running_turn(town: Town) -> None:
    step = Step((ToolCall("c1", "clarify", '{"question": "go on?"}'),))
    with ModelServer([step, "turned left"]) as server:
        await town.open(server, display__busy_input_mode="steer", clarify__timeout=1)
        town.say("drive", chat="road")
        await town.sees("go on?", chat="road")
        town.say("turn left", user="anna", chat="road")
        await town.sees("turned left", chat="road")
        await town.settled()
        assert "turn left" in str(server.calls[-1].body["messages"])


@pytest.mark.parametrize("words", ["listen to me", "/steer listen to me"])
@pytest.mark.parametrize("shown", ["all", "off"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_what_was_answered_before_the_chat_was_heard_is_shown(
    town: Town, words: str, shown: str, streaming: bool
) -> None:
    slow = Step((Text("the first answer"),), faults=(Stall(0, seconds=0.5),))
    with ModelServer([slow, "the second answer"]) as server:
        await town.open(
            server,
            display__busy_input_mode="steer",
            display__tool_progress=shown,
            display__interim_assistant_messages=shown == "all",
            streaming__enabled=streaming,
        )
        town.say("begin")
        await town.until(lambda: server.calls, "the call")
        town.say(words)
        await town.sees("the second answer")
        await town.settled()
        assert "listen to me" in str(server.calls[-1].body["messages"])
    seen = [text for text in town.texts() if not text.startswith("The agent hears it")]
    assert seen == ["the first answer", "the second answer"]


@pytest.mark.parametrize("command", ["/stop", "/STOP", "/stop@our_bot"])
async def test_stop_ends_the_turn_at_once(town: Town, command: str) -> None:
    with ModelServer([STALLED, "again"]) as server:
        await town.open(server)
        town.say("begin")
        await town.until(lambda: server.calls, "the call")
        await town.asks(command, "Stopped.")
        await town.asks("and now", "again")
        await town.settled()
    assert town.texts() == ["Stopped.", "again"]


async def test_stop_ends_a_command_that_runs(town: Town) -> None:
    with ModelServer([SLOW, "never"][:1]) as server:
        runner = await town.open(server, gateway__terminal="local")
        town.say("sleep")
        await town.until(lambda: runner.floor.turns and len(server.calls) == 1, "the turn")
        await asyncio.sleep(0.3)
        await town.asks("/stop", "Stopped.")
        await town.until(lambda: not runner.floor.turns, "the end of the turn")
        await town.settled()
    assert town.texts() == ["Stopped."]


async def test_status_is_answered_while_the_agent_works(town: Town) -> None:
    with ModelServer([STALLED]) as server:
        await town.open(server)
        town.say("begin")
        await town.until(lambda: server.calls, "the call")
        await town.asks("/status", "Session:")
        await town.asks("/stop", "Stopped.")


async def test_the_model_cannot_be_changed_under_a_running_turn(town: Town) -> None:
    with ModelServer([STALLED]) as server:
        await town.open(server)
        town.say("begin")
        await town.until(lambda: server.calls, "the call")
        await town.asks("/model other", "I am at work")
        await town.asks("/stop", "Stopped.")


async def test_new_ends_the_turn_and_begins_anew(town: Town) -> None:
    with ModelServer([STALLED, "fresh"]) as server:
        await town.open(server)
        town.say("old business")
        await town.until(lambda: server.calls, "the call")
        await town.asks("/new", "A new conversation")
        await town.asks("hello", "fresh")
        assert "old business" not in str(server.calls[-1].body["messages"])


async def test_queue_keeps_a_message_for_after_the_turn(town: Town) -> None:
    slow = Step((Text("first done"),), faults=(Stall(0, seconds=0.5),))
    with ModelServer([slow, "then this"]) as server:
        await town.open(server)
        town.say("begin")
        await town.until(lambda: server.calls, "the call")
        await town.asks("/queue and then", "Kept for after this turn")
        await town.sees("then this")
        await town.settled()
        assert "and then" in str(server.calls[-1].body["messages"][-1])
    assert town.texts() == ["Kept for after this turn.", "first done", "then this"]


async def test_a_busy_chat_does_not_hold_up_another(town: Town) -> None:
    def answer(request):
        return STALLED if "slow" in str(request.body["messages"][-1]) else echo(request)

    with ModelServer(answer) as server:
        await town.open(server)
        town.say("slow")
        await town.until(lambda: server.calls, "the call")
        await town.asks("quick", "quick", user="ben")
        await town.asks("/stop", "Stopped.")
