"""Commands that are answered whatever the agent does, and those that come with files."""

import asyncio

import pytest

from hermes.gateway.platforms.local import LocalFile

KEY = "agent:main:local:dm:anna"
SKILL = "---\nname: look\ndescription: look at things\n---\n\nLook closely.\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/status", "State: working"),
        ("/stop", "Stopped."),
        ("/approve", "no approval is pending"),
        ("/agents", "Nothing runs in the background."),
        ("/help", "/status"),
    ],
)
async def test_commands_do_not_wait_for_an_agent_to_be_opened(
    harness, monkeypatch, command, answer
):
    runner = await harness.open()
    opening, gate = asyncio.Event(), asyncio.Event()
    agent = runner.gateway.app.agent

    async def slow(request: object) -> object:
        opening.set()
        await gate.wait()
        return await agent(request)

    monkeypatch.setattr(runner.gateway.app, "agent", slow)
    harness.say("begin")
    await opening.wait()
    await harness.ask(command, answer)
    assert not gate.is_set()
    gate.set()
    await harness.wait_idle()


async def test_to_ask_for_the_status_is_not_to_talk(harness):
    runner = await harness.open()
    await harness.ask("/status", "Session: none yet")
    await harness.ask("hello", "hello")
    await harness.wait_idle()
    before = await runner.gateway.store.chats.get(KEY)
    await harness.ask("/status", "Conversation: 1 question, 2 messages")
    await harness.close()
    runner = await harness.open()
    await harness.ask("/status", "Conversation: 2 messages")
    await harness.wait_idle()
    after = await runner.gateway.store.chats.get(KEY)
    assert after.last_active == before.last_active
    assert after.session_id == before.session_id


async def test_a_status_that_waited_for_the_next_start_is_not_talking_either(harness, monkeypatch):
    runner = await harness.open()
    await harness.ask("hello", "hello")
    await harness.wait_idle()
    before = await runner.gateway.store.chats.get(KEY)

    async def broken(*_given: object) -> None:
        raise OSError

    monkeypatch.setattr(runner.gateway, "reply_now", broken)
    monkeypatch.setattr(runner.gateway.worker(KEY), "wake", lambda: None)
    said = harness.say("/status")
    await harness.until(lambda: said not in str(harness.platform.log.waiting), "kept")
    await harness.close()
    runner = await harness.open()
    await harness.wait_for("Session:")
    await harness.wait_idle()
    assert (await runner.gateway.store.chats.get(KEY)).last_active == before.last_active


async def test_a_picture_goes_with_a_skill(harness, picture):
    folder = harness.home / "skills" / "look"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    await harness.open()
    await harness.begin("/look what is it", files=(LocalFile("image", str(picture)),))
    asked = str(harness.server.calls[0].body["messages"][-1])
    assert "Look closely." in asked and "what is it" in asked
    assert "data:image/png;base64" in asked and "[image: " in asked
