"""Questions of the agent in a chat."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import ModelServer, Step
from hermes.gateway.platforms.email.manifest import MANIFEST
from hermes.gateway.runner import GatewayRunner
from tests.integration.gateway.chats.conftest import Town

RISKY = Step((ToolCall("c1", "terminal", '{"command": "rm -rf junk"}'),))
ASKS = Step((ToolCall("c1", "clarify", '{"question": "Which?", "choices": ["red", "blue"]}'),))
LOCAL = {"gateway__terminal": "local"}


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Anna, who is the owner, works."""
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    folder = tmp_path / "work"
    (folder / "junk").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("answer", ["/approve", "yes", "OK", "/approve session"])
async def test_consent_in_words_lets_the_command_run(town: Town, cwd: Path, answer: str) -> None:
    with ModelServer([RISKY, "removed"]) as server:
        await town.open(server, **LOCAL, gateway__cwd=str(cwd))
        town.say("clean up")
        await town.sees("rm -rf junk")
        town.say(answer)
        await town.sees("removed")
    assert not (cwd / "junk").exists()


@pytest.mark.parametrize("answer", ["/deny", "no"])
async def test_refusal_in_words_keeps_it_from_running(town: Town, cwd: Path, answer: str) -> None:
    with ModelServer([RISKY, "left alone"]) as server:
        await town.open(server, **LOCAL, gateway__cwd=str(cwd))
        town.say("clean up")
        await town.sees("rm -rf junk")
        town.say(answer)
        await town.sees("left alone")
    assert (cwd / "junk").exists()


async def test_a_button_gives_consent(town: Town, cwd: Path) -> None:
    with ModelServer([RISKY, "removed"]) as server:
        await town.open(server, **LOCAL, gateway__cwd=str(cwd))
        town.say("clean up")
        shown = await town.sees("rm -rf junk")
        assert [each.label for each in shown.buttons][2] == "Always"
        assert "`/approve always`" in shown.text
        await town.asks("/status", "State: waiting for consent")
        allow = next(each for each in shown.buttons if each.label == "Allow")
        town.press(shown, allow.data)
        await town.sees("removed")
    assert not (cwd / "junk").exists()


async def test_nobody_else_can_consent(town: Town) -> None:
    """Ben may talk to the agent too, but it was Anna who was asked."""
    with ModelServer([RISKY, "left alone"]) as server:
        await town.open(server, **LOCAL, approvals__timeout=1)
        town.say("@hermes clean up", chat="room", chat_type="group")
        shown = await town.sees("rm -rf junk", chat="room")
        for _ in range(2):
            town.press(shown, shown.buttons[0].data, user="ben")
        await town.sees("ben: somebody else was asked", chat="room")
        town.say("/approve", user="ben", chat="room", chat_type="group")
        await town.sees("nothing waits for consent", chat="room")
        await town.sees("left alone", chat="room")
        assert "nobody answered" in str(server.calls[-1].body["messages"][-1])
        assert sum("somebody else" in text for text in town.texts("room")) == 1


async def test_who_presses_too_late_is_told_so_once(town: Town, cwd: Path) -> None:
    with ModelServer([RISKY, "left alone", "noted"]) as server:
        await town.open(server, **LOCAL, gateway__cwd=str(cwd))
        town.say("clean up")
        shown = await town.sees("rm -rf junk")
        await town.asks("/deny", "left alone")
        for button in (*shown.buttons, *shown.buttons):
            town.press(shown, button.data)
        await town.sees("this question is over")
        await town.asks("what did I press", "noted")
        await town.settled()
    assert sum("this question is over" in text for text in town.texts()) == 1
    assert (cwd / "junk").exists()


async def test_only_an_owner_may_allow_for_always(town: Town) -> None:
    with ModelServer([RISKY, "left alone"]) as server:
        await town.open(server, **LOCAL)
        town.say("clean up")
        shown = await town.sees("rm -rf junk")
        assert shown.text.endswith("`/approve`, `/approve session` or `/deny`")
        assert [each.label for each in shown.buttons] == ["Allow", "For this chat", "Deny"]
        await town.asks("/approve always", "Only an owner may use /approve always")
        town.say("/deny")
        await town.sees("left alone")


async def test_silence_is_a_refusal(town: Town, cwd: Path) -> None:
    with ModelServer([RISKY, "left alone"]) as server:
        await town.open(server, **LOCAL, gateway__cwd=str(cwd), approvals__timeout=0.3)
        await town.asks("clean up", "left alone")
    assert (cwd / "junk").exists()


@pytest.mark.parametrize("answer", ["2", "blue"])
async def test_a_question_is_answered_by_the_next_message(town: Town, answer: str) -> None:
    with ModelServer([ASKS, "blue it is"]) as server:
        await town.open(server)
        town.say("paint")
        await town.sees("1. red")
        town.say(answer)
        await town.sees("blue it is")
        await town.settled()
        assert "blue" in str(server.calls[-1].body["messages"][-1])
    assert len(server.calls) == 2


async def test_a_button_answers_a_question(town: Town) -> None:
    with ModelServer([ASKS, "blue it is"]) as server:
        await town.open(server)
        town.say("paint")
        shown = await town.sees("1. red")
        town.press(shown, shown.buttons[1].data)
        await town.sees("blue it is")


async def test_without_a_question_approve_says_so(town: Town) -> None:
    with ModelServer([]) as server:
        await town.open(server)
        await town.asks("/approve", "nothing waits for consent")


async def test_consent_is_asked_for_in_every_turn(town: Town, cwd: Path) -> None:
    with ModelServer(["hello", RISKY, "removed"]) as server:
        await town.open(server, **LOCAL, gateway__cwd=str(cwd))
        await town.asks("hi", "hello")
        await town.settled()
        town.say("clean up")
        await town.sees("rm -rf junk")
        town.say("/approve")
        await town.sees("removed")
    assert not (cwd / "junk").exists()


async def test_an_owner_answers_for_somebody_else(town: Town) -> None:
    with ModelServer([RISKY, "done"]) as server:
        await town.open(server, **LOCAL, gateway__owners=["local:ben"])
        town.say("@hermes clean up", chat="room", chat_type="group")
        await town.sees("rm -rf junk", chat="room")
        town.say("/approve", user="ben", chat="room", chat_type="group")
        await town.sees("Allowed this once", chat="room")
        await town.sees("done", chat="room")


SOON: dict[str, Any] = {"approvals__timeout": 0.05, "clarify__timeout": 0.05}


def patient(runner: GatewayRunner) -> None:
    """As on a platform that nobody looks at every minute."""
    known = runner.house.manifests
    known["local"] = msgspec.structs.replace(known["local"], patience=60.0)


async def late(town: Town, text: str) -> None:
    """The question is there, and the usual time is over."""
    await town.sees(text)
    await asyncio.sleep(0.1)


@pytest.mark.parametrize("by", ["the setting of the platform", "the platform"])
async def test_a_patient_platform_waits_longer_for_consent(town: Town, cwd: Path, by: str) -> None:
    said = {"approvals__platform_timeouts": {"local": 60}} if "setting" in by else {}
    with ModelServer([RISKY, "removed"]) as server:
        runner = await town.open(server, **LOCAL, **SOON, **said, gateway__cwd=str(cwd))
        if not said:
            patient(runner)
        town.say("clean up")
        await late(town, "rm -rf junk")
        town.say("yes")
        await town.sees("removed")
    assert not (cwd / "junk").exists()


async def test_a_patient_platform_waits_longer_for_an_answer(town: Town) -> None:
    with ModelServer([ASKS, "thanks"]) as server:
        patient(await town.open(server, **SOON))
        town.say("choose")
        await late(town, "Which?")
        town.say("2")
        await town.sees("thanks")
        assert "The user answers: blue" in str(server.calls[-1].body)


def test_mail_gives_people_time() -> None:
    assert MANIFEST.patience >= 3600
