"""Tasks beside a conversation, and the gateway that goes away under them."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from hermes.core.messages import Text, ToolCall
from hermes.core.testing import ModelServer, RecordedRequest, Stall, Step, echo
from hermes.gateway import dispatcher
from hermes.gateway.platforms.local.server import Attached
from hermes.gateway.session_keys import build_session_key, errand_key, errand_name, errand_of
from tests.integration.gateway.chats.conftest import Town

STALLED = Step((Text("never"),), faults=(Stall(0),))
TODO = Step((ToolCall("c1", "todo", '{"todos": []}'),))


def counting(request: RecordedRequest) -> Step | str:
    """Hangs for the task as long as it is asked for the first time."""
    return STALLED if "stars" in str(request.body["messages"][-1]) else echo(request)


async def chat_rows(town: Town) -> list[str]:
    assert town.runner is not None
    return [each.session_key for each in await town.runner.house.store.chats.select()]


def test_the_key_of_a_task_is_that_of_no_chat() -> None:
    key = errand_key("agent:main:local:dm:anna:5", 17, 1_893_553_445.5)
    assert errand_name(key) == "bg_030405_000011"
    assert errand_name("background:17:agent:main:local:dm:anna:5") == "bg_17", "an older one"
    assert errand_of(key) == "agent:main:local:dm:anna:5"
    assert errand_of("agent:main:local:dm:background:17") == ""
    assert build_session_key.__module__ == errand_key.__module__


async def test_its_result_comes_once_and_nothing_is_left(town: Town, echoing: ModelServer) -> None:
    await town.open(echoing)
    begun = await town.asks("/background count the stars", "Started `bg_")
    name = re.search(r"`(bg_\d{6}_[0-9a-f]{6})`", begun.text)
    assert name is not None
    shown = await town.sees("(session ")
    assert f"`{name[1]}`" in shown.text
    await town.settled()
    assert sum("(session " in text for text in town.texts()) == 1
    await town.until(lambda: not town.runner.floor.workers(), "the task is over")
    assert not any(map(errand_of, await chat_rows(town)))
    assert not any(map(errand_of, town.runner.house.conversations.keys()))
    await town.asks("/agents", "Nothing runs in the background.")


async def test_a_task_goes_on_after_a_restart_where_it_was(town: Town) -> None:
    steps = iter([TODO, STALLED, Step((Text("a thousand"),))])
    with ModelServer(lambda _request: next(steps)) as server:
        await town.open(server)
        await town.asks("/background count the stars", "Started `bg_")
        await town.until(lambda: len(server.calls) == 2, "the second call")
        await town.close()
        await town.open(server)
        shown = await town.sees("a thousand")
        await town.settled()
        assert "count the stars (session " in shown.text
        assert sum("a thousand" in text for text in town.texts()) == 1
        said = server.calls[-1].body["messages"]
        assert [each["role"] for each in said[1:]] == ["user", "assistant", "tool"]


async def test_a_task_whose_answer_was_not_kept_is_answered_once(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "SAVING", 0.05)
    runner = await town.open(echoing)
    answer, reached = runner.house.store.inbox.answer, asyncio.Event()

    async def cut(rows: tuple[int, ...], drafts: tuple, *given: object, **more: object) -> object:
        if any(b"(session " in each.body for each in drafts):
            reached.set()
            await asyncio.Event().wait()
        return await answer(rows, drafts, *given, **more)

    monkeypatch.setattr(runner.house.store.inbox, "answer", cut)
    await town.asks("/background count the stars", "Started `bg_")
    await reached.wait()
    await town.close()
    await town.open(echoing)
    await town.sees("(session ")
    await town.settled()
    assert sum("(session " in text for text in town.texts()) == 1
    assert len(echoing.calls) == 1


async def test_the_command_cut_off_begins_one_task(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "SAVING", 0.05)
    runner = await town.open(echoing)
    reached = asyncio.Event()

    async def hang(*_given: object, **_more: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(runner.house.store.inbox, "answer", hang)
    town.say("/background count the stars")
    await reached.wait()
    await town.close()
    await town.open(echoing)
    await town.sees("Started `bg_")
    await town.sees("(session ")
    await town.settled()
    assert len(town.texts()) == 2
    assert len(echoing.calls) == 1


async def test_the_home_channel_gets_the_result_too(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_HOME_CHANNEL", "lobby")
    await town.open(echoing)
    await town.asks("/background count the stars", "Started `bg_")
    await town.sees("(session ")
    await town.sees("(session ", chat="lobby")
    await town.asks("/background count the trees", "Started `bg_", chat="lobby")
    await town.sees("count the trees (session ", chat="lobby")
    await town.settled()
    assert sum("count the trees (session " in text for text in town.texts("lobby")) == 1


async def test_stop_ends_it_and_it_says_nothing(town: Town) -> None:
    with ModelServer(counting) as server:
        await town.open(server)
        await town.asks("/background count the stars", "Started `bg_")
        await town.until(lambda: server.calls, "the call")
        await town.asks("hello", "hello")
        await town.asks("/agents", "count the stars (")
        await town.asks("/stop", "Stopped 1 background task.")
        await town.settled()
        await town.until(lambda: not town.runner.floor.workers(), "the task is over")
        await town.asks("/agents", "Nothing runs in the background.")
        assert not any("(session " in text for text in town.texts())


async def test_nobody_is_asked_in_it(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    risky = Step((ToolCall("c1", "terminal", json.dumps({"command": "rm -rf junk"})),))
    with ModelServer([risky, "I may not"]) as server:
        await town.open(server, gateway__terminal="local")
        await town.asks("/background clean up", "Started `bg_")
        await town.sees("I may not")
        assert len(town.texts()) == 2


async def test_a_picture_goes_with_the_task(
    town: Town, echoing: ModelServer, picture: Path
) -> None:
    await town.open(echoing)
    town.say("/background describe it", files=(Attached("image", str(picture)),))
    await town.sees("(session ")
    (call,) = echoing.calls
    assert "data:image/png;base64" in str(call.body["messages"][-1])
