"""Which session a chat is in while other chats and processes use it."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hermes.core.errors import StoreError
from hermes.core.messages import Assistant, Text, User
from hermes.core.model import Usage
from hermes.core.testing import Stall, Step
from hermes.gateway import gateway, outbox, worker
from hermes.store.records import InboxItem
from tests.integration.gateway.chats.conftest import GatewayHarness

KEY = "agent:main:local:dm:anna"


async def idle(harness: GatewayHarness) -> None:
    runner = harness.runner
    assert runner is not None
    await harness.until(
        lambda: not any(one.working for one in runner.gateway.workers_in_use()), "idle"
    )


@pytest.mark.parametrize("opened_by", ["a turn", "a command"])
async def test_work_of_another_process_is_read_again(harness, opened_by):
    runner = await harness.open(["noted", "I know"])
    await harness.ask("my fruit is plum", "noted")
    if opened_by == "a command":
        await harness.close()
        runner = await harness.open()
        harness.say("/usage")
        await harness.until(lambda: runner.gateway.open_agents().get(KEY), "the agent")
    await idle(harness)
    store, now = runner.gateway.store, runner.gateway.now()
    chat = await store.chats.get(KEY)
    lease = await store.chats.claim(KEY, "another", now, now + 30)
    assert chat is not None and lease is not None
    await store.append(chat.session_id, User.say("my car is red"))
    await store.append(chat.session_id, Assistant((Text("red it is"),)))
    await store.chats.release(lease)
    await harness.ask("what do you know", "I know")
    said = str(harness.server.calls[-1].body["messages"])
    assert "plum" in said and "my car is red" in said


async def test_a_right_is_given_back_though_the_next_was_refused(harness, monkeypatch):
    """Another process handled the rest meanwhile."""
    runner = await harness.open()
    claim, store, claims = runner.gateway.leases.claim, runner.gateway.store, iter([True])

    async def once(key: str) -> object:
        rows = await store.inbox.pending(key)
        if next(claims, False):
            await store.inbox.receive(InboxItem("local", "", "more", key, rows[0].event), 1.0)
            return await claim(key)
        await store.inbox.answer(tuple(row.id for row in rows), (), None, runner.gateway.now())
        return None

    monkeypatch.setattr(runner.gateway.leases, "claim", once)
    monkeypatch.setattr(worker, "CLAIM_RETRY_SECONDS", 0.01)
    await harness.ask("hello", "hello")
    await idle(harness)
    assert await store.chats.owners() == ()


async def test_a_conversation_taken_up_in_another_chat_is_not_lost_to_the_first(harness):
    runner = await harness.open()
    await harness.ask("plum", "plum")
    agent = runner.gateway.open_agents().get(KEY)
    assert agent is not None
    await harness.ask(f"/resume {agent.session_id}", "Back in", chat="elsewhere")
    await harness.ask("pear", "pear", chat="elsewhere")
    await harness.ask("fig", "fig")
    assert "pear" in str(harness.server.calls[-1].body["messages"])


async def test_a_conversation_is_not_ended_under_a_turn(harness):
    """The old one is over; while it is looked at, a message comes."""
    slow = Step((Text("here"),), faults=(Stall(0, seconds=0.5),))
    runner = await harness.open(
        ["noted", slow, "still here"], session_reset__mode="idle", session_reset__idle_minutes=1
    )
    await harness.ask("remember plum", "noted")
    await idle(harness)
    store = runner.gateway.store
    (chat,) = await store.chats.select()
    old = runner.gateway.now() - timedelta(minutes=2).total_seconds()
    await store.chats.bind(chat.session_key, chat.session_id, b"", old)
    select = store.chats.select

    async def then_a_message(**given: Any) -> Any:
        found = await select(**given)
        harness.say("hello")
        await harness.until(lambda: runner.gateway.running_turns, "the turn")
        return found

    store.chats.select = then_a_message  # type: ignore[method-assign]
    await runner.maintenance.expire()
    await harness.wait_for("here")
    await idle(harness)
    now = await store.chats.get(KEY)
    assert now is not None and now.session_id
    await harness.ask("and now", "still here")
    assert "hello" in str(harness.server.calls[-1].body["messages"])


async def test_maintenance_makes_the_daily_backup(harness):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    for _ in range(2):
        await runner.maintenance.clean()
    root = runner.gateway.app.home.root
    assert len(list(root.glob("backups/sessions/state-*.db"))) == 1


async def test_a_platform_is_worked_on_though_the_store_failed_as_it_came(harness, monkeypatch):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    waiting, faults = runner.gateway.store.inbox.pending_chats, [StoreError("busy")]

    async def broken(*given: Any) -> Any:
        if faults:
            raise faults.pop()
        return await waiting(*given)

    monkeypatch.setattr(runner.gateway.store.inbox, "pending_chats", broken)
    await harness.platform.drop()
    runner.gateway.supervisors[0].check()
    await harness.until(
        lambda: runner.gateway.connections.get("local") is None, "the platform is away"
    )
    await harness.ask("are you there", "are you there")


async def test_concurrent_opens_share_one_agent(harness):
    runner = await harness.open()
    harness.say("hello")
    await harness.wait_for("hello")
    worker = runner.gateway.worker(KEY)
    source = worker.source
    assert source is not None
    roles = ("member", "guest", "member", "guest", "member")
    found = await asyncio.gather(*(worker.session.open(source, role) for role in roles))
    assert runner.gateway.worker(KEY) is worker, "a worker stays while its session is opened"
    live = worker.session.agent
    assert found[-1] is live
    sessions = [each for each in runner.gateway.app._open if each.session_id == live.session_id]
    assert sessions == [live]


async def test_two_chats_in_one_conversation_are_answered_one_after_the_other(harness):
    slow = Step((Text("slow answer"),), faults=(Stall(0, seconds=0.5),))
    steps = iter(["noted", slow, "quick answer"])
    runner = await harness.open(lambda _request: next(steps))
    await harness.ask("plum", "noted")
    await idle(harness)
    agent = runner.gateway.open_agents().get(KEY)
    assert agent is not None
    session = agent.session_id
    await harness.ask(f"/resume {session}", "Back in", chat="elsewhere")
    await idle(harness)
    harness.say("first", chat="elsewhere")
    await harness.until(lambda: len(harness.server.calls) == 2, "the call")
    harness.say("second")
    await harness.wait_for("quick answer")
    said = [each.text for each in await runner.gateway.store.messages(session)]
    assert said == ["plum", "noted", "first", "slow answer", "second", "quick answer"]
    assert "slow answer" in str(harness.server.calls[-1].body["messages"])


async def test_a_conversation_that_is_worked_on_cannot_be_had_in_another_chat(harness):
    slow = Step((Text("there"),), faults=(Stall(0, seconds=0.5),))
    steps = iter(["noted", slow, "a new one"])
    runner = await harness.open(lambda _request: next(steps))
    await harness.ask("plum", "noted")
    agent = runner.gateway.open_agents().get(KEY)
    harness.say("think")
    await harness.until(lambda: len(harness.server.calls) == 2, "the call")
    refused = "is being worked on in another chat"
    await harness.ask(f"/resume {agent.session_id}", refused, chat="elsewhere")
    await harness.wait_for("there")
    await harness.ask("hello", "a new one", chat="elsewhere")
    assert "plum" not in str(harness.server.calls[-1].body["messages"])


async def test_mirrored_message_is_appended_between_turns(harness):
    slow = Step((Text("slow answer"),), faults=(Stall(0, seconds=0.5),))
    runner = await harness.open(["noted", slow, "I know"])
    await harness.ask("plum", "noted")
    harness.say("think")
    await harness.until(lambda: len(harness.server.calls) == 2, "the call")
    await runner.gateway.outbox.send("local:anna", "the train is late")
    await harness.wait_for("slow answer")
    await harness.ask("what about the train", "I know")
    agent = runner.gateway.open_agents().get(KEY)
    kept = await runner.gateway.store.messages(agent.session_id)
    assert [each.text.splitlines()[-1] for each in kept] == [
        "plum", "noted", "think", "slow answer", "the train is late",
        "what about the train", "I know",
    ]  # fmt: skip
    assert agent.history == kept


async def test_mirrored_message_survives_a_crash(harness, monkeypatch):
    """The platform has the message, but that is not recorded yet."""
    monkeypatch.setattr(outbox, "IDLE_SECONDS", 0.05)
    runner = await harness.open()
    await harness.ask("plum", "plum")
    await harness.wait_idle()

    async def dies(*_given: object) -> None:
        raise RuntimeError("the process is gone")

    monkeypatch.setattr(runner.gateway.outbox, "_mirror", dies)
    await runner.gateway.outbox.send("local:anna", "the train is late")
    await harness.wait_for("the train is late")
    await harness.close()
    runner = await harness.open()
    await harness.wait_idle()
    chat = await runner.gateway.store.chats.get(KEY)
    kept = [each.text for each in await runner.gateway.store.messages(chat.session_id)]
    assert sum("the train is late" in text for text in kept) == 1
    assert harness.texts().count("the train is late") == 1


async def test_mirrored_message_is_appended_once_after_failures(harness, monkeypatch):
    monkeypatch.setattr(gateway, "SAVE_SECONDS", 0.05)
    runner = await harness.open()
    await harness.ask("plum", "plum")
    await harness.wait_idle()
    chat, reached = await runner.gateway.store.chats.get(KEY), asyncio.Event()

    async def hang(*_given: object, **_more: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runner.gateway.store.inbox, "answer", hang)
    await runner.gateway.outbox.send("local:anna", "the train is late")
    await reached.wait()
    await harness.close()
    runner = await harness.open()
    await harness.wait_idle()
    kept = [each.text for each in await runner.gateway.store.messages(chat.session_id)]
    assert sum("the train is late" in text for text in kept) == 1


@pytest.mark.parametrize("restarted", [False, True])
async def test_hygiene_goes_by_the_size_that_the_api_reported(harness, restarted):
    """The estimate of these short messages is far below the limit."""
    limits = {"model__context_length": 40_000, "compression__threshold": 1.0}
    almost_full = Step((Text("second"),), usage=Usage(36_000, 10))
    script = ["first", almost_full] if restarted else ["first", almost_full, "third"]
    runner = await harness.open(script, **limits)
    await harness.ask("one", "first")
    await harness.ask("two", "second")
    await idle(harness)
    asked: list[str] = []
    if restarted:
        await harness.close()
        runner = await harness.open(["third"], **limits)
        harness.say("/usage")
    await harness.until(lambda: runner.gateway.open_agents().get(KEY), "the agent")
    agent = runner.gateway.open_agents()[KEY]

    async def compress(focus: str = "") -> None:
        asked.append(focus)

    object.__setattr__(agent, "compress", compress)
    await harness.ask("three", "third")
    assert asked == [""]


async def test_chat_of_a_platform_that_only_other_gateways_serve_is_left_to_them(harness):
    runner = await harness.open(session_reset__mode="idle", session_reset__idle_minutes=1)
    await harness.ask("hello", "hello")
    await idle(harness)
    store, now = runner.gateway.store, runner.gateway.now()
    (chat,) = await store.chats.select()
    origin = chat.origin.replace(b'"local"', b'"telegram"')
    await store.create("theirs", source="telegram", model="m", system_prompt="")
    await store.chats.bind("agent:main:telegram:dm:7", "theirs", origin, now - 600)
    await runner.maintenance.expire()
    theirs = await store.chats.get("agent:main:telegram:dm:7")
    assert (theirs.session_id, theirs.fence) == ("theirs", 0)
