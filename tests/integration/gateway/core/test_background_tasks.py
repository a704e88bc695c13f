"""Background tasks, and restarts of the gateway while they run."""

import asyncio
import json
import re

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import RecordedRequest, Stall, Step, echo
from hermes.gateway import gateway
from hermes.gateway.platforms.local import LocalFile
from hermes.gateway.session_keys import (
    background_key,
    background_name,
    background_parent,
    build_session_key,
)
from tests.integration.gateway.chats.conftest import GatewayHarness

STALLED = Step((Text("never"),), faults=(Stall(0),))
TODO = Step((ToolCall("c1", "todo", '{"todos": []}'),))


def counting(request: RecordedRequest) -> Step | str:
    """Hangs for the task as long as it is asked for the first time."""
    return STALLED if "stars" in str(request.body["messages"][-1]) else echo(request)


async def chat_rows(harness: GatewayHarness) -> list[str]:
    assert harness.runner is not None
    return [each.session_key for each in await harness.runner.gateway.store.chats.select()]


def test_background_keys_differ_from_chat_keys():
    key = background_key("agent:main:local:dm:anna:5", 17, 1_893_553_445.5)
    assert background_name(key) == "bg_030405_000011"
    assert background_name("background:17:agent:main:local:dm:anna:5") == "bg_17", "an older one"
    assert background_parent(key) == "agent:main:local:dm:anna:5"
    assert background_parent("agent:main:local:dm:background:17") == ""
    assert build_session_key.__module__ == background_key.__module__


async def test_its_result_comes_once_and_nothing_is_left(harness):
    await harness.open()
    begun = await harness.ask("/background count the stars", "Started `bg_")
    name = re.search(r"`(bg_\d{6}_[0-9a-f]{6})`", begun.text)
    assert name is not None
    shown = await harness.wait_for("(session ")
    assert f"`{name[1]}`" in shown.text
    await harness.wait_idle()
    assert sum("(session " in text for text in harness.texts()) == 1
    await harness.until(lambda: not harness.runner.gateway.workers_in_use(), "the task is over")
    assert not any(map(background_parent, await chat_rows(harness)))
    assert not any(map(background_parent, harness.runner.gateway.open_agents()))
    await harness.ask("/agents", "Nothing runs in the background.")


async def test_background_task_continues_after_a_restart(harness):
    steps = iter([TODO, STALLED, Step((Text("a thousand"),))])
    await harness.open(lambda _request: next(steps))
    await harness.ask("/background count the stars", "Started `bg_")
    await harness.until(lambda: len(harness.server.calls) == 2, "the second call")
    await harness.close()
    await harness.open()
    shown = await harness.wait_for("a thousand")
    await harness.wait_idle()
    assert "count the stars (session " in shown.text
    assert sum("a thousand" in text for text in harness.texts()) == 1
    said = harness.server.calls[-1].body["messages"]
    assert [each["role"] for each in said[1:]] == ["user", "assistant", "tool"]


async def test_background_task_is_answered_once_after_a_store_failure(harness, monkeypatch):
    monkeypatch.setattr(gateway, "SAVE_SECONDS", 0.05)
    runner = await harness.open()
    answer, reached = runner.gateway.store.inbox.answer, asyncio.Event()

    async def cut(
        rows: tuple[int, ...], compose_items: tuple, *given: object, **more: object
    ) -> object:
        if any(b"(session " in each.body for each in compose_items):
            reached.set()
            await asyncio.Event().wait()
        return await answer(rows, compose_items, *given, **more)

    monkeypatch.setattr(runner.gateway.store.inbox, "answer", cut)
    await harness.ask("/background count the stars", "Started `bg_")
    await reached.wait()
    await harness.close()
    await harness.open()
    await harness.wait_for("(session ")
    await harness.wait_idle()
    assert sum("(session " in text for text in harness.texts()) == 1
    assert len(harness.server.calls) == 1


async def test_the_command_cut_off_begins_one_task(harness, monkeypatch):
    monkeypatch.setattr(gateway, "SAVE_SECONDS", 0.05)
    runner = await harness.open()
    reached = asyncio.Event()

    async def hang(*_given: object, **_more: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runner.gateway.store.inbox, "answer", hang)
    harness.say("/background count the stars")
    await reached.wait()
    await harness.close()
    await harness.open()
    await harness.wait_for("Started `bg_")
    await harness.wait_for("(session ")
    await harness.wait_idle()
    assert len(harness.texts()) == 2
    assert len(harness.server.calls) == 1


async def test_the_home_channel_gets_the_result_too(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_HOME_CHANNEL", "lobby")
    await harness.open()
    await harness.ask("/background count the stars", "Started `bg_")
    await harness.wait_for("(session ")
    await harness.wait_for("(session ", chat="lobby")
    await harness.ask("/background count the trees", "Started `bg_", chat="lobby")
    await harness.wait_for("count the trees (session ", chat="lobby")
    await harness.wait_idle()
    assert sum("count the trees (session " in text for text in harness.texts("lobby")) == 1


async def test_stop_ends_it_and_it_says_nothing(harness):
    await harness.open(counting)
    await harness.ask("/background count the stars", "Started `bg_")
    await harness.until(lambda: harness.server.calls, "the call")
    await harness.ask("hello", "hello")
    await harness.ask("/agents", "count the stars (")
    await harness.ask("/stop", "Stopped 1 background task.")
    await harness.wait_idle()
    await harness.until(lambda: not harness.runner.gateway.workers_in_use(), "the task is over")
    await harness.ask("/agents", "Nothing runs in the background.")
    assert not any("(session " in text for text in harness.texts())


async def test_background_task_asks_no_questions(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    risky = Step((ToolCall("c1", "terminal", json.dumps({"command": "rm -rf junk"})),))
    await harness.open([risky, "I may not"], gateway__terminal="local")
    await harness.ask("/background clean up", "Started `bg_")
    await harness.wait_for("I may not")
    assert len(harness.texts()) == 2


async def test_a_picture_goes_with_the_task(harness, picture):
    await harness.open()
    harness.say("/background describe it", files=(LocalFile("image", str(picture)),))
    await harness.wait_for("(session ")
    (call,) = harness.server.calls
    assert "data:image/png;base64" in str(call.body["messages"][-1])
