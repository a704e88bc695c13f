"""Turns one after the other, stopped early, and beside one another."""

import asyncio

import msgspec
import pytest

from hermes.core.errors import StoreError
from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, StepLike, echo
from hermes.gateway.turn_view import TurnView
from hermes.store.records import InboxItem
from tests.integration.gateway.chats.conftest import Town

STALLED = Step((Text("never"),), faults=(Stall(0),))
ASKS = Step((ToolCall("c1", "clarify", '{"question": "Which?", "choices": ["red", "blue"]}'),))


async def test_a_question_can_be_asked_in_a_later_turn_too(town: Town) -> None:
    with ModelServer(["hello", ASKS, "blue it is"]) as server:
        runner = await town.open(server)
        await town.asks("hi", "hello")
        await town.until(lambda: not any(one.working for one in runner.floor.workers()), "idle")
        town.say("paint")
        await town.sees("1. red")
        town.say("blue")
        await town.sees("blue it is")


async def test_a_chat_that_only_gave_commands_leaves_nothing_behind(
    town: Town, echoing: ModelServer
) -> None:
    runner = await town.open(echoing, gateway__live_agents=1)
    await town.asks("/usage", "No model was called yet.")
    await town.asks("/usage", "No model was called yet.", user="ben")
    await town.until(lambda: len(runner.floor._workers) == 1, "only the open conversation")


async def test_two_answers_to_one_question_the_second_is_a_message(town: Town) -> None:
    with ModelServer([ASKS, "blue it is", "noted"]) as server:
        runner = await town.open(server, display__busy_input_mode="queue")
        town.say("paint")
        await town.sees("1. red")
        receive = runner.reception.receive
        said = [town.platform.room.said[key] for key in town.platform.room.said]
        event = runner._supervisors[0].adapter._event(said[-1])
        for number, text in enumerate(("blue", "and thick")):
            changed = type(event)(event.source, f"x{number}", text, addressed=True)
            asyncio.ensure_future(receive(changed))  # noqa: RUF006 - the town waits for the answers
        await town.sees("blue it is")
        await town.sees("noted")
        assert "and thick" in str(server.calls[-1].body["messages"][-1])


async def test_stop_counts_also_before_the_model_is_asked(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await town.open(echoing)
    going, gate = asyncio.Event(), asyncio.Event()

    async def slow(agent: object) -> None:
        going.set()
        await gate.wait()

    monkeypatch.setattr(runner.house, "tidy", slow)
    town.say("begin")
    await going.wait()
    await town.asks("/stop", "Stopped.")
    gate.set()
    await town.settled()
    assert echoing.calls == []
    assert town.texts() == ["Stopped."]


async def test_a_store_that_fails_for_a_moment_delays_an_answer_and_no_more(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await town.open(echoing)
    claim, failures = runner.house.claim, [StoreError("busy")]

    async def once(key: str) -> object:
        if failures:
            raise failures.pop()
        return await claim(key)

    monkeypatch.setattr(runner.house, "claim", once)
    await town.asks("hello", "hello")


@pytest.mark.parametrize("words", ["hello", "/stop"])
async def test_a_message_that_was_kept_though_nobody_heard_so_is_answered(
    town: Town, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """The connection to the store broke between the commit and its answer."""

    def answer(request: RecordedRequest) -> StepLike:
        return STALLED if "begin" in str(request.body["messages"][-1]) else "hello to you"

    with ModelServer(answer) as server:
        runner = await town.open(server, display__busy_input_mode="queue")
        if words == "/stop":
            town.say("begin")
            await town.until(lambda: server.calls, "the call")
        receive, failures = runner.house.store.inbox.receive, [StoreError("the connection broke")]

        async def cut_off(message: InboxItem, now: float) -> int | None:
            row = await receive(message, now)
            if failures:
                raise failures.pop()
            return row

        monkeypatch.setattr(runner.house.store.inbox, "receive", cut_off)
        await town.asks(words, "Stopped." if words == "/stop" else "hello to you")


@pytest.mark.parametrize("mode", ["interrupt", "steer"])
async def test_a_message_that_is_worked_on_before_its_keeper_knows_does_not_stop_its_own_turn(
    town: Town, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    slow = Step((Text("a thought"),), faults=(Stall(0, seconds=0.3),))
    with ModelServer(["hello", slow]) as server:
        runner = await town.open(server, display__busy_input_mode=mode)
        await town.asks("hi", "hello")
        receive = runner.house.store.inbox.receive

        async def late(message: InboxItem, now: float) -> int | None:
            row = await receive(message, now)
            runner.house.take_up(message.session_key)
            await town.until(lambda: len(server.calls) == 2, "its turn")
            return row

        monkeypatch.setattr(runner.house.store.inbox, "receive", late)
        await town.asks("think", "a thought")
        await town.settled()


async def test_a_command_with_a_fault_is_answered(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await town.open(echoing)

    def broken() -> str:
        raise KeyError("x")

    monkeypatch.setattr(runner.house, "health_lines", broken)
    await town.asks("/platforms", "Something went wrong inside me")
    await town.settled()


async def test_a_message_that_comes_while_the_right_to_a_chat_is_given_back_is_answered(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Step((Text("the second"),), faults=(Stall(0, seconds=0.4),))
    with ModelServer(["the first", slow]) as server:
        runner = await town.open(server)
        release, said = runner.house.release, asyncio.Event()

        async def later(right: object) -> None:
            if not said.is_set():
                said.set()
                town.say("second")
                await asyncio.sleep(0.2)
            await release(right)

        monkeypatch.setattr(runner.house, "release", later)
        await town.asks("first", "the first")
        await town.sees("the second")


async def test_the_gateway_stops_also_while_a_turn_is_being_prepared(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await town.open(echoing)
    going = asyncio.Event()

    async def forever(agent: object) -> None:
        going.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runner.house, "tidy", forever)
    town.say("begin")
    await going.wait()
    async with asyncio.timeout(10):
        await town.close()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("chat ")]
    await town.open(echoing)
    await town.sees("begin")


async def test_while_the_gateway_waits_for_turns_commands_are_answered(town: Town) -> None:
    with ModelServer([STALLED]) as server:
        await town.open(server, gateway__drain_seconds=15)
        town.say("begin")
        await town.until(lambda: server.calls, "the call")
        assert town.runner is not None
        town.runner.stop()
        await asyncio.sleep(0.1)
        await town.asks("/stop", "Stopped.")
        async with asyncio.timeout(10):
            await town.close()


@pytest.mark.parametrize("words", ["turn left", "/steer turn left"])
async def test_what_steers_a_turn_is_answered_once_when_the_gateway_goes(
    town: Town, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = TurnView.end

    async def slow(view: TurnView) -> int:
        await asyncio.sleep(0.2)  # so that whoever listens to the agent sees that it is idle
        return await end(view)

    monkeypatch.setattr(TurnView, "end", slow)
    with ModelServer([STALLED, "went on", "left it is"]) as server:
        runner = await town.open(server, display__busy_input_mode="steer")
        town.say("drive")
        await town.until(lambda: server.calls, "the call")
        town.say(words)
        agent = runner.house.conversations.get("agent:main:local:dm:anna")
        assert agent is not None
        await town.until(lambda: agent.pending.steered, "said into the turn")
        await town.close()
        await town.open(server)
        await town.sees("left it is")
        await town.settled()
        assert "turn left" in str(server.calls[-1].body["messages"][-1])


async def test_what_steers_a_turn_that_is_stopped_is_answered_after_it(town: Town) -> None:
    with ModelServer([STALLED, "left it is"]) as server:
        runner = await town.open(server, display__busy_input_mode="steer")
        town.say("drive")
        await town.until(lambda: server.calls, "the call")
        town.say("turn left")
        agent = runner.house.conversations.get("agent:main:local:dm:anna")
        assert agent is not None
        await town.until(lambda: agent.pending.steered, "said into the turn")
        await town.asks("/stop", "Stopped.")
        await town.sees("left it is")
        await town.settled()


async def test_a_message_with_half_a_character_is_answered(town: Town) -> None:
    with ModelServer(echo) as server:
        runner = await town.open(server)
        said = town.say("hello")
        await town.sees("hello")
        event = runner._supervisors[0].adapter._event(town.platform.room.said[said])
        assert await runner.reception.receive(
            type(event)(event.source, "half", "broken \ud83d text", addressed=True)
        )
        await town.sees("broken")


async def test_a_message_that_was_damaged_is_set_aside_once_and_holds_up_no_other(
    town: Town, echoing: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    runner = await town.open(echoing)
    store, key = runner.house.store, "agent:main:local:dm:anna"
    await store.inbox.receive(
        InboxItem("local", "", "broken", key, b'{"source": 5'), runner.house.now()
    )
    await town.asks("hello", "hello")
    await town.asks("again", "again")
    await town.settled()
    told = [each for each in caplog.records if "cannot be read" in each.getMessage()]
    assert len(told) == 1 and key in told[0].getMessage()
    (count,) = await store.queue_counts()
    assert count.unreadable_in == 1


async def test_who_lost_the_right_to_a_chat_leaves_no_trace_in_its_conversation(
    town: Town,
) -> None:
    """Another machine took the chat over while the model was thinking."""
    slow = Step((Text("too late"),), faults=(Stall(0, seconds=0.5),))
    with ModelServer(["hello", slow, "in time"]) as server:
        runner = await town.open(server)
        await town.asks("hi", "hello")
        await town.settled()
        town.say("think")
        await town.until(lambda: len(server.calls) == 2, "the call")
        store, key = runner.house.store, "agent:main:local:dm:anna"
        (mine,) = await store.chats.owners()
        now = runner.house.now()
        theirs = await store.chats.claim(key, "them", now, now + 60, dead=(mine,))
        assert theirs is not None
        chat = await store.chats.get(key)
        await town.until(lambda: not runner.floor.turns, "the turn is over")
        assert [each.text for each in await store.messages(chat.session_id)] == [
            "hi", "hello", "think",
        ]  # fmt: skip
        await store.chats.release(theirs)
        await town.sees("in time")
        assert "too late" not in str(town.texts()) + str(await store.messages(chat.session_id))


@pytest.mark.parametrize("kept", [True, False], ids=["kept before", "said meanwhile"])
async def test_a_stop_of_before_the_restart_counts_for_the_turn_that_was_cut_off(
    town: Town, kept: bool
) -> None:
    def answer(request: RecordedRequest) -> StepLike:
        return "went on" if "hello" in str(request.body["messages"][-1]) else STALLED

    with ModelServer(answer) as server:
        runner = await town.open(server)
        said = town.say("begin")
        await town.until(lambda: server.calls, "the call")
        if kept:  # and the gateway was killed before it could look at it
            event = runner._supervisors[0].adapter._event(town.platform.room.said[said])
            stop = msgspec.json.encode(msgspec.structs.replace(event, text="/stop"))
            key = "agent:main:local:dm:anna"
            await runner.house.store.inbox.receive(InboxItem("local", "", "s", key, stop), 1.0)
        await town.close()
        if not kept:
            town.say("/stop")
        await town.open(server)
        await town.sees("Stopped.")
        await town.settled()
        town.say("hello")
        await town.sees("went on")
