"""Turns in sequence, stopped turns, and turns at the same time."""

import asyncio

import msgspec
import pytest

from hermes.core.errors import StoreError
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import RecordedRequest, Stall, Step, StepLike, echo
from hermes.gateway import worker
from hermes.gateway.turn_view import TurnView
from hermes.store.records import InboxItem
from tests.integration.gateway.chats.conftest import LONG

STALLED = Step((Text("never"),), faults=(Stall(0),))
ASKS = Step((ToolCall("c1", "clarify", '{"question": "Which?", "choices": ["red", "blue"]}'),))


async def test_a_question_can_be_asked_in_a_later_turn_too(harness):
    runner = await harness.open(["hello", ASKS, "blue it is"])
    await harness.ask("hi", "hello")
    await harness.until(
        lambda: not any(one.working for one in runner.gateway.workers_in_use()), "idle"
    )
    harness.say("paint")
    await harness.wait_for("1. red")
    harness.say("blue")
    await harness.wait_for("blue it is")


async def test_a_chat_that_only_gave_commands_leaves_nothing_behind(harness):
    runner = await harness.open(gateway__live_agents=1)
    await harness.ask("/usage", "No model was called yet.")
    await harness.ask("/usage", "No model was called yet.", user="ben")
    await harness.until(lambda: len(runner.gateway._workers) == 1, "only the open conversation")


async def test_two_answers_to_one_question_the_second_is_a_message(harness):
    runner = await harness.open([ASKS, "blue it is", "noted"], display__busy_input_mode="queue")
    harness.say("paint")
    await harness.wait_for("1. red")
    receive = runner.gateway.receive
    event = harness.event(list(harness.platform.log.said)[-1])
    for number, text in enumerate(("blue", "and thick")):
        changed = type(event)(event.source, f"x{number}", text, addressed=True)
        asyncio.ensure_future(receive(changed))  # noqa: RUF006 - the harness waits for the answers
    await harness.wait_for("blue it is")
    await harness.wait_for("noted")
    assert "and thick" in str(harness.server.calls[-1].body["messages"][-1])


async def test_stop_counts_also_before_the_model_is_asked(harness, monkeypatch):
    await harness.open()
    going, gate = asyncio.Event(), asyncio.Event()

    async def slow(_gateway: object, _events: object) -> None:
        going.set()
        await gate.wait()

    monkeypatch.setattr(worker, "build_user_message", slow)
    harness.say("begin")
    await going.wait()
    await harness.ask("/stop", "Stopped.")
    gate.set()
    await harness.wait_idle()
    assert harness.server.calls == []
    assert harness.texts() == ["Stopped."]


async def test_short_store_failure_only_delays_the_answer(harness, monkeypatch):
    runner = await harness.open()
    claim, failures = runner.gateway.leases.claim, [StoreError("busy")]

    async def once(key: str) -> object:
        if failures:
            raise failures.pop()
        return await claim(key)

    monkeypatch.setattr(runner.gateway.leases, "claim", once)
    await harness.ask("hello", "hello")


@pytest.mark.parametrize("words", ["hello", "/stop"])
async def test_message_is_answered_if_the_store_failed_after_the_commit(
    harness, monkeypatch, words
):
    """The connection to the store broke between the commit and its answer."""

    def answer(request: RecordedRequest) -> StepLike:
        return STALLED if "begin" in str(request.body["messages"][-1]) else "hello to you"

    runner = await harness.open(answer, display__busy_input_mode="queue")
    if words == "/stop":
        await harness.begin("begin")
    receive, failures = runner.gateway.store.inbox.receive, [StoreError("the connection broke")]

    async def cut_off(message: InboxItem, now: float) -> int | None:
        row = await receive(message, now)
        if failures:
            raise failures.pop()
        return row

    monkeypatch.setattr(runner.gateway.store.inbox, "receive", cut_off)
    await harness.ask(words, "Stopped." if words == "/stop" else "hello to you")


@pytest.mark.parametrize("mode", ["interrupt", "steer"])
async def test_message_in_work_does_not_stop_its_own_turn(harness, monkeypatch, mode):
    slow = Step((Text("a thought"),), faults=(Stall(0, seconds=0.3),))
    runner = await harness.open(["hello", slow], display__busy_input_mode=mode)
    await harness.ask("hi", "hello")
    receive = runner.gateway.store.inbox.receive

    async def late(message: InboxItem, now: float) -> int | None:
        row = await receive(message, now)
        runner.gateway.wake_chat(message.session_key)
        await harness.until(lambda: len(harness.server.calls) == 2, "its turn")
        return row

    monkeypatch.setattr(runner.gateway.store.inbox, "receive", late)
    await harness.ask("think", "a thought")
    await harness.wait_idle()


async def test_a_command_with_a_fault_is_answered(harness, monkeypatch):
    runner = await harness.open()

    def broken() -> str:
        raise KeyError("x")

    monkeypatch.setattr(runner.gateway.status, "summary", broken)
    await harness.ask("/platforms", "An unexpected error occurred")
    await harness.wait_idle()


async def test_a_message_that_comes_while_the_right_to_a_chat_is_given_back_is_answered(
    harness, monkeypatch
):
    slow = Step((Text("the second"),), faults=(Stall(0, seconds=0.4),))
    runner = await harness.open(["the first", slow])
    release, said = runner.gateway.leases.release, asyncio.Event()

    async def later(lease: object) -> None:
        if not said.is_set():
            said.set()
            harness.say("second")
            await asyncio.sleep(0.2)
        await release(lease)

    monkeypatch.setattr(runner.gateway.leases, "release", later)
    await harness.ask("first", "the first")
    await harness.wait_for("the second")


async def test_the_gateway_stops_also_while_a_turn_is_being_prepared(harness, monkeypatch):
    await harness.open()
    going = asyncio.Event()

    async def forever(_gateway: object, _events: object) -> None:
        going.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(worker, "build_user_message", forever)
        harness.say("begin")
        await going.wait()
        async with asyncio.timeout(LONG):
            await harness.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("chat ")]
    await harness.open()
    await harness.wait_for("begin")


async def test_while_the_gateway_waits_for_turns_commands_are_answered(harness):
    await harness.open([STALLED], gateway__drain_seconds=3600)
    await harness.begin("begin")
    assert harness.runner is not None
    harness.runner.stop()
    await asyncio.sleep(0.1)
    await harness.ask("/stop", "Stopped.")
    async with asyncio.timeout(LONG):
        await harness.close()


@pytest.mark.parametrize("words", ["turn left", "/steer turn left"])
async def test_steering_message_is_answered_once_after_a_restart(harness, words, monkeypatch):
    end = TurnView.close

    async def slow(view: TurnView) -> int:
        await asyncio.sleep(0.2)  # so that the listener of the agent sees that it is idle
        return await end(view)

    monkeypatch.setattr(TurnView, "close", slow)
    runner = await harness.open(
        [STALLED, "went on", "left it is"], display__busy_input_mode="steer"
    )
    await harness.begin("drive")
    harness.say(words)
    agent = runner.gateway.open_agents().get("agent:main:local:dm:anna")
    assert agent is not None
    await harness.until(lambda: agent.pending.steered, "said into the turn")
    await harness.close()
    await harness.open()
    await harness.wait_for("left it is")
    await harness.wait_idle()
    assert "turn left" in str(harness.server.calls[-1].body["messages"][-1])


async def test_steering_message_of_a_stopped_turn_gets_its_own_turn(harness):
    runner = await harness.open([STALLED, "left it is"], display__busy_input_mode="steer")
    await harness.begin("drive")
    harness.say("turn left")
    agent = runner.gateway.open_agents().get("agent:main:local:dm:anna")
    assert agent is not None
    await harness.until(lambda: agent.pending.steered, "said into the turn")
    await harness.ask("/stop", "Stopped.")
    await harness.wait_for("left it is")
    await harness.wait_idle()


async def test_a_message_with_half_a_character_is_answered(harness):
    runner = await harness.open(echo)
    said = harness.say("hello")
    await harness.wait_for("hello")
    event = harness.event(said)
    assert await runner.gateway.receive(
        type(event)(event.source, "half", "broken \ud83d text", addressed=True)
    )
    await harness.wait_for("broken")


async def test_damaged_message_does_not_block_others(harness, caplog):
    runner = await harness.open()
    store, key = runner.gateway.store, "agent:main:local:dm:anna"
    await store.inbox.receive(
        InboxItem("local", "", "broken", key, b'{"source": 5'), runner.gateway.now()
    )
    await harness.ask("hello", "hello")
    await harness.ask("again", "again")
    await harness.wait_idle()
    logged = [each for each in caplog.records if "cannot be read" in each.getMessage()]
    assert len(logged) == 1 and key in logged[0].getMessage()
    (count,) = await store.queue_counts()
    assert count.unreadable_in == 1


async def test_process_without_the_lease_writes_nothing(harness):
    """Another machine took the chat over while the model was thinking."""
    slow = Step((Text("too late"),), faults=(Stall(0, seconds=0.5),))
    runner = await harness.open(["hello", slow, "in time"])
    await harness.ask("hi", "hello")
    await harness.wait_idle()
    harness.say("think")
    await harness.until(lambda: len(harness.server.calls) == 2, "the call")
    store, key = runner.gateway.store, "agent:main:local:dm:anna"
    (mine,) = await store.chats.owners()
    now = runner.gateway.now()
    theirs = await store.chats.claim(key, "them", now, now + 60, dead=(mine,))
    assert theirs is not None
    chat = await store.chats.get(key)
    await harness.until(lambda: not runner.gateway.running_turns, "the turn is over")
    assert [each.text for each in await store.messages(chat.session_id)] == [
        "hi", "hello", "think",
    ]  # fmt: skip
    await store.chats.release(theirs)
    await harness.wait_for("in time")
    assert "too late" not in str(harness.texts()) + str(await store.messages(chat.session_id))


@pytest.mark.parametrize("kept", [True, False], ids=["kept before", "said meanwhile"])
async def test_a_stop_of_before_the_restart_counts_for_the_turn_that_was_cut_off(harness, kept):
    def answer(request: RecordedRequest) -> StepLike:
        return "went on" if "hello" in str(request.body["messages"][-1]) else STALLED

    runner = await harness.open(answer)
    said = await harness.begin("begin")
    if kept:  # and the gateway was killed before it could look at it
        event = runner.gateway.supervisors[0].adapter.connection.event(
            harness.platform.log.said[said]
        )
        stop = msgspec.json.encode(msgspec.structs.replace(event, text="/stop"))
        key = "agent:main:local:dm:anna"
        await runner.gateway.store.inbox.receive(InboxItem("local", "", "s", key, stop), 1.0)
    await harness.close()
    if not kept:
        harness.say("/stop")
    await harness.open()
    await harness.wait_for("Stopped.")
    await harness.wait_idle()
    harness.say("hello")
    await harness.wait_for("went on")
