"""Commands with effects: however the gateway is cut off, each takes effect once and is answered
once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermes.gateway import gateway
from hermes.gateway.commands import INTERRUPTED_MESSAGE
from hermes.gateway.runner import RESTART_NOTICE, GatewayRunner

KEY = "agent:main:local:dm:anna"
Crash = Callable[[str, str], Awaitable[None]]


@pytest.fixture
def crash(harness, monkeypatch):
    """Give a command, cut the gateway off when it comes to `where` of the store, start anew."""
    monkeypatch.setattr(gateway, "SAVE_SECONDS", 0.05)

    async def cut(command: str, where: str) -> None:
        runner = harness.runner
        assert runner is not None
        reached = asyncio.Event()

        async def hang(*_given: Any, **_more: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        await harness.wait_idle()
        part, _, operation = where.rpartition(".")
        store = runner.gateway.store
        monkeypatch.setattr(getattr(store, part) if part else store, operation, hang)
        harness.say(command)
        async with asyncio.timeout(100):
            await reached.wait()
        await harness.close()
        await harness.open()

    return cut


async def session_of(runner: GatewayRunner | None) -> str:
    assert runner is not None
    chat = await runner.gateway.store.chats.get(KEY)
    return chat.session_id if chat else ""


@pytest.mark.parametrize("where", ["inbox.answer", "undo", "inbox.start_command"])
async def test_undo_takes_back_one_question(harness, crash, where):
    await harness.open()
    for fruit in ("apple", "plum", "fig"):
        await harness.ask(fruit, fruit)
    await crash("/undo", where)
    shown = await harness.wait_for("Taken back from: fig")
    assert "2 questions left" in shown.text
    await harness.ask("what is left", "what is left")
    said = str(harness.server.calls[-1].body["messages"])
    assert "plum" in said and "fig" not in said
    assert sum("Taken back" in text for text in harness.texts()) == 1


@pytest.mark.parametrize("where", ["undo", "inbox.start", "append", "inbox.answer"])
async def test_retry_asks_the_last_question_once_more(harness, crash, where):
    await harness.open()
    for fruit in ("apple", "plum"):
        await harness.ask(fruit, fruit)
    await harness.ask("/undo", "Taken back from: plum")
    await harness.ask("fig", "fig")
    await crash("/retry", where)
    await harness.wait_for("fig", times=2)
    await harness.wait_idle()
    replies = [text for text in harness.texts() if "Taken" not in text and text != RESTART_NOTICE]
    assert replies == ["apple", "plum", "fig", "fig"]
    runner = harness.runner
    said = [each.text for each in await runner.gateway.store.messages(await session_of(runner))]
    assert said == ["apple", "apple", "fig", "fig"]


@pytest.mark.parametrize("where", ["inbox.answer", "branch", "chats.bind"])
async def test_branch_is_made_once_after_a_crash(harness, crash, where):
    runner = await harness.open()
    await harness.ask("apple", "apple")
    old = await session_of(runner)
    await crash("/branch my copy", where)
    await harness.wait_for("This is a copy now")
    store = harness.runner.gateway.store
    (made,) = await store.descendants(old)
    assert await session_of(harness.runner) == made.id
    assert made.title == "my copy"
    assert [each.text for each in await store.messages(made.id)] == ["apple", "apple"]


@pytest.mark.parametrize("where", ["inbox.answer", "create"])
async def test_new_conversation_begins_once_after_a_crash(harness, crash, where):
    runner = await harness.open()
    await harness.ask("apple", "apple")
    old = await session_of(runner)
    await crash("/new", where)
    shown = await harness.wait_for("A new conversation")
    now = await session_of(harness.runner)
    assert now != old and now in shown.text
    await harness.wait_idle()
    assert sum("A new conversation" in text for text in harness.texts()) == 1


async def test_resume_takes_effect_once_after_a_crash(harness, crash):
    runner = await harness.open()
    await harness.ask("apple", "apple")
    old = await session_of(runner)
    await harness.ask("/new", "A new conversation")
    await crash(f"/resume {old}", "inbox.answer")
    await harness.wait_for("Back in")
    assert await session_of(harness.runner) == old


async def test_finished_compaction_is_reported(harness, monkeypatch, crash):
    runner = await harness.open()
    await harness.ask("apple", "apple")
    store, old = runner.gateway.store, await session_of(runner)
    agent = runner.gateway.open_agents().get(KEY)

    async def compress(_focus: str = "") -> None:
        await store.compact(old, "shorter", await store.entries(old))
        await store.inbox.answer((), (), None, 0.0)  # where it is cut off

    monkeypatch.setattr(agent, "compress", compress)
    await crash("/compress", "inbox.answer")
    await harness.wait_for("Compacted: now session `shorter`")
    assert await session_of(harness.runner) == "shorter"


async def test_command_with_unknown_outcome_is_not_repeated(harness, crash, tmp_path):
    """A command of the settings may do anything."""
    noted = tmp_path / "noted"
    (harness.home).mkdir(exist_ok=True)
    (harness.home / "config.yaml").write_text(
        f"quick_commands:\n  note: {{type: exec, command: 'echo x >> {noted}'}}\n"
    )
    await harness.open()
    await crash("/note", "inbox.answer")
    await harness.wait_for(INTERRUPTED_MESSAGE)
    await harness.wait_idle()
    assert noted.read_text() == "x\n"
    assert harness.texts() == [INTERRUPTED_MESSAGE]


async def test_command_without_effects_is_repeated(harness, crash):
    await harness.open()
    await crash("/title my title", "inbox.answer")
    await harness.wait_for("Title: my title")
    await harness.wait_idle()
    assert len(harness.texts()) == 1
