"""Commands with effects: however the gateway is cut off, each takes effect once and is answered
once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.core.testing import ModelServer
from hermes.gateway import dispatcher
from hermes.gateway.commands import UNKNOWN
from hermes.gateway.runner import AWAY, GatewayRunner
from tests.integration.gateway.chats.conftest import Town

KEY = "agent:main:local:dm:anna"
Crash = Callable[[str, str], Awaitable[None]]


@pytest.fixture
def crash(town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Crash:
    """Give a command, cut the gateway off when it comes to `where` of the store, start anew."""
    monkeypatch.setattr(dispatcher, "SAVING", 0.05)

    async def cut(command: str, where: str) -> None:
        runner = town.runner
        assert runner is not None
        reached = asyncio.Event()

        async def hang(*_given: Any, **_more: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        await town.settled()
        part, _, operation = where.rpartition(".")
        store = runner.house.store
        monkeypatch.setattr(getattr(store, part) if part else store, operation, hang)
        town.say(command)
        async with asyncio.timeout(20):
            await reached.wait()
        await town.close()
        await town.open(echoing)

    return cut


async def session_of(runner: GatewayRunner | None) -> str:
    assert runner is not None
    chat = await runner.house.store.chats.get(KEY)
    return chat.session_id if chat else ""


@pytest.mark.parametrize("where", ["inbox.answer", "undo", "inbox.start_command"])
async def test_undo_takes_back_one_question(
    town: Town, echoing: ModelServer, crash: Crash, where: str
) -> None:
    await town.open(echoing)
    for fruit in ("apple", "plum", "fig"):
        await town.asks(fruit, fruit)
    await crash("/undo", where)
    shown = await town.sees("Taken back from: fig")
    assert "2 questions left" in shown.text
    await town.asks("what is left", "what is left")
    said = str(echoing.calls[-1].body["messages"])
    assert "plum" in said and "fig" not in said
    assert sum("Taken back" in text for text in town.texts()) == 1


@pytest.mark.parametrize("where", ["undo", "inbox.start", "append", "inbox.answer"])
async def test_retry_asks_the_last_question_once_more(
    town: Town, echoing: ModelServer, crash: Crash, where: str
) -> None:
    await town.open(echoing)
    for fruit in ("apple", "plum"):
        await town.asks(fruit, fruit)
    await town.asks("/undo", "Taken back from: plum")
    await town.asks("fig", "fig")
    await crash("/retry", where)
    await town.sees("fig", times=2)
    await town.settled()
    told = [text for text in town.texts() if "Taken" not in text and text != AWAY]
    assert told == ["apple", "plum", "fig", "fig"]
    runner = town.runner
    said = [each.text for each in await runner.house.store.messages(await session_of(runner))]
    assert said == ["apple", "apple", "fig", "fig"]


@pytest.mark.parametrize("where", ["inbox.answer", "branch", "chats.bind"])
async def test_one_branch_is_made(
    town: Town, echoing: ModelServer, crash: Crash, where: str
) -> None:
    runner = await town.open(echoing)
    await town.asks("apple", "apple")
    old = await session_of(runner)
    await crash("/branch my copy", where)
    await town.sees("This is a copy now")
    store = town.runner.house.store
    (made,) = await store.descendants(old)
    assert await session_of(town.runner) == made.id
    assert made.title == "my copy"
    assert [each.text for each in await store.messages(made.id)] == ["apple", "apple"]


@pytest.mark.parametrize("where", ["inbox.answer", "create"])
async def test_one_new_conversation_begins(
    town: Town, echoing: ModelServer, crash: Crash, where: str
) -> None:
    runner = await town.open(echoing)
    await town.asks("apple", "apple")
    old = await session_of(runner)
    await crash("/new", where)
    shown = await town.sees("A new conversation")
    now = await session_of(town.runner)
    assert now != old and now in shown.text
    await town.settled()
    assert sum("A new conversation" in text for text in town.texts()) == 1


async def test_one_goes_back_to_an_old_conversation_once(
    town: Town, echoing: ModelServer, crash: Crash
) -> None:
    runner = await town.open(echoing)
    await town.asks("apple", "apple")
    old = await session_of(runner)
    await town.asks("/new", "A new conversation")
    await crash(f"/resume {old}", "inbox.answer")
    await town.sees("Back in")
    assert await session_of(town.runner) == old


async def test_a_compaction_that_was_made_is_told(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch, crash: Crash
) -> None:
    runner = await town.open(echoing)
    await town.asks("apple", "apple")
    store, old = runner.house.store, await session_of(runner)
    agent = runner.house.conversations.get(KEY)

    async def compress(_focus: str = "") -> None:
        await store.compact(old, "shorter", await store.entries(old))
        await store.inbox.answer((), (), None, 0.0)  # where it is cut off

    monkeypatch.setattr(agent, "compress", compress)
    await crash("/compress", "inbox.answer")
    await town.sees("Compacted: now session `shorter`")
    assert await session_of(town.runner) == "shorter"


async def test_of_what_nobody_knows_it_is_said_so(
    town: Town, echoing: ModelServer, crash: Crash, tmp_path: Path
) -> None:
    """A command of the settings may do anything."""
    noted = tmp_path / "noted"
    (town.home).mkdir(exist_ok=True)
    (town.home / "config.yaml").write_text(
        f"quick_commands:\n  note: {{type: exec, command: 'echo x >> {noted}'}}\n"
    )
    await town.open(echoing)
    await crash("/note", "inbox.answer")
    await town.sees(UNKNOWN)
    await town.settled()
    assert noted.read_text() == "x\n"
    assert town.texts() == [UNKNOWN]


async def test_what_only_shows_something_is_done_again(
    town: Town, echoing: ModelServer, crash: Crash
) -> None:
    await town.open(echoing)
    await crash("/title my title", "inbox.answer")
    await town.sees("Title: my title")
    await town.settled()
    assert len(town.texts()) == 1
