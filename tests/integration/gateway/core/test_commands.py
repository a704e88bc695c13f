"""Commands that are answered whatever the agent does, and those that come with files."""

import asyncio
from pathlib import Path

import pytest

from hermes.core.testing import ModelServer
from hermes.gateway.platforms.local.server import Attached
from tests.integration.gateway.chats.conftest import Town

KEY = "agent:main:local:dm:anna"
SKILL = "---\nname: look\ndescription: look at things\n---\n\nLook closely.\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/status", "State: working"),
        ("/stop", "Stopped."),
        ("/approve", "nothing waits for consent"),
        ("/agents", "Nothing runs in the background."),
        ("/help", "/status"),
    ],
)
async def test_they_do_not_wait_for_an_agent_to_be_opened(
    town: Town,
    echoing: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    answer: str,
) -> None:
    runner = await town.open(echoing)
    opening, gate = asyncio.Event(), asyncio.Event()
    agent = runner.house.app.agent

    async def slow(request: object) -> object:
        opening.set()
        await gate.wait()
        return await agent(request)

    monkeypatch.setattr(runner.house.app, "agent", slow)
    town.say("begin")
    await opening.wait()
    await town.asks(command, answer)
    assert not gate.is_set()
    gate.set()
    await town.settled()


async def test_to_ask_for_the_status_is_not_to_talk(town: Town, echoing: ModelServer) -> None:
    runner = await town.open(echoing)
    await town.asks("/status", "Session: none yet")
    await town.asks("hello", "hello")
    await town.settled()
    before = await runner.house.store.chats.get(KEY)
    await town.asks("/status", "Conversation: 1 question, 2 messages")
    await town.close()
    runner = await town.open(echoing)
    await town.asks("/status", "Conversation: 2 messages")
    await town.settled()
    after = await runner.house.store.chats.get(KEY)
    assert after.last_active == before.last_active
    assert after.session_id == before.session_id


async def test_a_status_that_waited_for_the_next_start_is_not_talking_either(
    town: Town, echoing: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = await town.open(echoing)
    await town.asks("hello", "hello")
    await town.settled()
    before = await runner.house.store.chats.get(KEY)

    async def broken(*_given: object) -> None:
        raise OSError

    monkeypatch.setattr(runner.house, "say_aside", broken)
    monkeypatch.setattr(runner.floor, "_ended", lambda *_given: None)
    said = town.say("/status")
    await town.until(lambda: said not in str(town.platform.room.waiting), "kept")
    await town.close()
    runner = await town.open(echoing)
    await town.sees("Session:")
    await town.settled()
    assert (await runner.house.store.chats.get(KEY)).last_active == before.last_active


async def test_a_picture_goes_with_a_skill(town: Town, echoing: ModelServer, picture: Path) -> None:
    folder = town.home / "skills" / "look"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    await town.open(echoing)
    town.say("/look what is it", files=(Attached("image", str(picture)),))
    await town.until(lambda: echoing.calls, "the call")
    asked = str(echoing.calls[0].body["messages"][-1])
    assert "Look closely." in asked and "what is it" in asked
    assert "data:image/png;base64" in asked and "[image: " in asked
