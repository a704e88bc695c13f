"""Which conversation a chat is in, whoever else works on it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hermes.core.errors import StoreError
from hermes.core.messages import Assistant, Text, User
from hermes.core.testing import ModelServer, Stall, Step
from hermes.gateway import dispatcher, outbox, worker
from hermes.store.records import InboxItem
from tests.integration.gateway.chats.conftest import Town

KEY = "agent:main:local:dm:anna"


async def idle(town: Town) -> None:
    runner = town.runner
    assert runner is not None
    await town.until(lambda: not any(one.working for one in runner.floor.workers()), "idle")


@pytest.mark.parametrize("opened_by", ["a turn", "a command"])
async def test_what_another_process_did_in_a_chat_is_known(town: Town, opened_by: str) -> None:
    with ModelServer(["noted", "I know"]) as server:
        runner = await town.open(server)
        await town.asks("my fruit is plum", "noted")
        if opened_by == "a command":
            await town.close()
            runner = await town.open(server)
            town.say("/usage")
            await town.until(lambda: runner.house.conversations.get(KEY), "the agent")
        await idle(town)
        store, now = runner.house.store, runner.house.now()
        chat = await store.chats.get(KEY)
        right = await store.chats.claim(KEY, "another", now, now + 30)
        assert chat is not None and right is not None
        await store.append(chat.session_id, User.say("my car is red"))
        await store.append(chat.session_id, Assistant((Text("red it is"),)))
        await store.chats.release(right)
        await town.asks("what do you know", "I know")
        said = str(server.calls[-1].body["messages"])
        assert "plum" in said and "my car is red" in said


async def test_a_right_is_given_back_though_the_next_was_refused(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else dealt with the rest meanwhile."""
    runner = await town.open(echoing)
    claim, store, claims = runner.house.claim, runner.house.store, iter([True])

    async def once(key: str) -> object:
        rows = await store.inbox.pending(key)
        if next(claims, False):
            await store.inbox.receive(InboxItem("local", "", "more", key, rows[0].event), 1.0)
            return await claim(key)
        await store.inbox.answer(tuple(row.id for row in rows), (), None, runner.house.now())
        return None

    monkeypatch.setattr(runner.house, "claim", once)
    monkeypatch.setattr(worker, "ELSEWHERE", 0.01)
    await town.asks("hello", "hello")
    await idle(town)
    assert await store.chats.owners() == ()


async def test_a_conversation_taken_up_in_another_chat_is_not_lost_to_the_first(
    town: Town, echoing: ModelServer
) -> None:
    runner = await town.open(echoing)
    await town.asks("plum", "plum")
    agent = runner.house.conversations.get(KEY)
    assert agent is not None
    await town.asks(f"/resume {agent.session_id}", "Back in", chat="elsewhere")
    await town.asks("pear", "pear", chat="elsewhere")
    await town.asks("fig", "fig")
    assert "pear" in str(echoing.calls[-1].body["messages"])


async def test_a_conversation_is_not_ended_under_a_turn(town: Town) -> None:
    """The old one is over; while it is looked at, a message comes."""
    slow = Step((Text("here"),), faults=(Stall(0, seconds=0.5),))
    with ModelServer(["noted", slow, "still here"]) as server:
        runner = await town.open(server, session_reset__mode="idle", session_reset__idle_minutes=1)
        await town.asks("remember plum", "noted")
        await idle(town)
        store = runner.house.store
        (chat,) = await store.chats.select()
        old = runner.house.now() - timedelta(minutes=2).total_seconds()
        await store.chats.bind(chat.session_key, chat.session_id, b"", old)
        select = store.chats.select

        async def then_a_message(**given: Any) -> Any:
            found = await select(**given)
            town.say("hello")
            await town.until(lambda: runner.floor.turns, "the turn")
            return found

        store.chats.select = then_a_message  # type: ignore[method-assign]
        await runner.maintenance.expire()
        await town.sees("here")
        await idle(town)
        now = await store.chats.get(KEY)
        assert now is not None and now.session_id
        await town.asks("and now", "still here")
        assert "hello" in str(server.calls[-1].body["messages"])


async def test_a_platform_is_worked_on_though_the_store_failed_as_it_came(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await town.open(echoing)
    await town.asks("hello", "hello")
    waiting, faults = runner.house.store.inbox.pending_chats, [StoreError("busy")]

    async def broken(*given: Any) -> Any:
        if faults:
            raise faults.pop()
        return await waiting(*given)

    monkeypatch.setattr(runner.house.store.inbox, "pending_chats", broken)
    await town.platform.drop()
    runner._supervisors[0].check()
    await town.until(lambda: runner.lines.get("local") is None, "the platform is away")
    await town.asks("are you there", "are you there")


async def test_two_who_open_a_chat_at_once_get_one_agent(town: Town, echoing: ModelServer) -> None:
    runner = await town.open(echoing)
    town.say("hello")
    await town.sees("hello")
    conversations = runner.house.conversations
    worker = runner.floor._worker(KEY)
    source = worker.source
    assert source is not None
    roles = ("member", "guest", "member", "guest", "member")
    found = await asyncio.gather(
        *(conversations.open(KEY, source, role, worker.asker) for role in roles)
    )
    live = conversations.get(KEY)
    assert found[-1] is live
    sessions = [each for each in runner.house.app._open if each.session_id == live.session_id]
    assert sessions == [live]


async def test_two_chats_in_one_conversation_are_answered_one_after_the_other(town: Town) -> None:
    slow = Step((Text("slow answer"),), faults=(Stall(0, seconds=0.5),))
    steps = iter(["noted", slow, "quick answer"])
    with ModelServer(lambda _request: next(steps)) as server:
        runner = await town.open(server)
        await town.asks("plum", "noted")
        await idle(town)
        agent = runner.house.conversations.get(KEY)
        assert agent is not None
        session = agent.session_id
        await town.asks(f"/resume {session}", "Back in", chat="elsewhere")
        await idle(town)
        town.say("first", chat="elsewhere")
        await town.until(lambda: len(server.calls) == 2, "the call")
        town.say("second")
        await town.sees("quick answer")
        said = [each.text for each in await runner.house.store.messages(session)]
        assert said == ["plum", "noted", "first", "slow answer", "second", "quick answer"]
        assert "slow answer" in str(server.calls[-1].body["messages"])


async def test_a_conversation_that_is_worked_on_cannot_be_had_in_another_chat(town: Town) -> None:
    slow = Step((Text("there"),), faults=(Stall(0, seconds=0.5),))
    steps = iter(["noted", slow, "a new one"])
    with ModelServer(lambda _request: next(steps)) as server:
        runner = await town.open(server)
        await town.asks("plum", "noted")
        agent = runner.house.conversations.get(KEY)
        town.say("think")
        await town.until(lambda: len(server.calls) == 2, "the call")
        refused = "is being worked on in another chat"
        await town.asks(f"/resume {agent.session_id}", refused, chat="elsewhere")
        await town.sees("there")
        await town.asks("hello", "a new one", chat="elsewhere")
        assert "plum" not in str(server.calls[-1].body["messages"])


async def test_what_is_sent_from_elsewhere_comes_between_turns_never_into_one(town: Town) -> None:
    slow = Step((Text("slow answer"),), faults=(Stall(0, seconds=0.5),))
    with ModelServer(["noted", slow, "I know"]) as server:
        runner = await town.open(server)
        await town.asks("plum", "noted")
        town.say("think")
        await town.until(lambda: len(server.calls) == 2, "the call")
        await runner.post.send("local:anna", "the train is late")
        await town.sees("slow answer")
        await town.asks("what about the train", "I know")
        agent = runner.house.conversations.get(KEY)
        kept = await runner.house.store.messages(agent.session_id)
        assert [each.text.splitlines()[-1] for each in kept] == [
            "plum", "noted", "think", "slow answer", "the train is late",
            "what about the train", "I know",
        ]  # fmt: skip
        assert agent.history == kept


async def test_what_was_sent_before_a_crash_is_in_the_conversation_after_it(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform has the message, and nobody noted that yet."""
    monkeypatch.setattr(outbox, "IDLE", 0.05)
    runner = await town.open(echoing)
    await town.asks("plum", "plum")
    await town.settled()

    async def dies(*_given: object) -> None:
        raise RuntimeError("the process is gone")

    monkeypatch.setattr(runner.house._desk.courier, "mirror", dies)
    await runner.post.send("local:anna", "the train is late")
    await town.sees("the train is late")
    await town.close()
    runner = await town.open(echoing)
    await town.settled()
    chat = await runner.house.store.chats.get(KEY)
    kept = [each.text for each in await runner.house.store.messages(chat.session_id)]
    assert sum("the train is late" in text for text in kept) == 1
    assert town.texts().count("the train is late") == 1


async def test_what_is_sent_from_elsewhere_is_put_there_once_whatever_breaks(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "SAVING", 0.05)
    runner = await town.open(echoing)
    await town.asks("plum", "plum")
    await town.settled()
    chat, reached = await runner.house.store.chats.get(KEY), asyncio.Event()

    async def hang(*_given: object, **_more: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runner.house.store.inbox, "answer", hang)
    await runner.post.send("local:anna", "the train is late")
    await reached.wait()
    await town.close()
    runner = await town.open(echoing)
    await town.settled()
    kept = [each.text for each in await runner.house.store.messages(chat.session_id)]
    assert sum("the train is late" in text for text in kept) == 1
