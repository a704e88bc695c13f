"""Questions of the agent in a chat."""

import asyncio
from typing import Any

import msgspec
import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import Step
from hermes.gateway.runner import GatewayRunner
from hermes_plugins.platforms.email.manifest import MANIFEST
from tests.integration.gateway.chats.conftest import GatewayHarness

RISKY = Step((ToolCall("c1", "terminal", '{"command": "rm -rf junk"}'),))
ASKS = Step((ToolCall("c1", "clarify", '{"question": "Which?", "choices": ["red", "blue"]}'),))
LOCAL = {"gateway__terminal": "local"}


@pytest.fixture
def cwd(tmp_path, monkeypatch):
    """Where Anna, who is the owner, works."""
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna")
    folder = tmp_path / "work"
    (folder / "junk").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("answer", ["/approve", "yes", "OK", "/approve session"])
async def test_consent_in_words_lets_the_command_run(harness, cwd, answer):
    await harness.open([RISKY, "removed"], **LOCAL, gateway__cwd=str(cwd))
    harness.say("clean up")
    await harness.wait_for("rm -rf junk")
    harness.say(answer)
    await harness.wait_for("removed")
    assert not (cwd / "junk").exists()


@pytest.mark.parametrize("answer", ["/deny", "no"])
async def test_refusal_in_words_keeps_it_from_running(harness, cwd, answer):
    await harness.open([RISKY, "left alone"], **LOCAL, gateway__cwd=str(cwd))
    harness.say("clean up")
    await harness.wait_for("rm -rf junk")
    harness.say(answer)
    await harness.wait_for("left alone")
    assert (cwd / "junk").exists()


async def test_a_button_gives_consent(harness, cwd):
    await harness.open([RISKY, "removed"], **LOCAL, gateway__cwd=str(cwd))
    harness.say("clean up")
    shown = await harness.wait_for("rm -rf junk")
    assert [each.label for each in shown.buttons][2] == "Always"
    assert "`/approve always`" in shown.text
    await harness.ask("/status", "State: waiting for approval")
    allow = next(each for each in shown.buttons if each.label == "Allow")
    harness.press(shown, allow.data)
    await harness.wait_for("removed")
    assert not (cwd / "junk").exists()


async def test_other_members_cannot_approve(harness):
    """Ben may talk to the agent too, but it was Anna, the owner, who was asked."""
    await harness.open([RISKY, "left alone"], **LOCAL, gateway__owners=["local:anna"])
    harness.say("@hermes clean up", chat="room", chat_type="group")
    shown = await harness.wait_for("rm -rf junk", chat="room")
    for _ in range(2):
        harness.press(shown, shown.buttons[0].data, user="ben")
    await harness.wait_for("ben: this question is for another person", chat="room")
    harness.say("/approve", user="ben", chat="room", chat_type="group")
    await harness.wait_for("no approval is pending", chat="room")
    harness.press(shown, shown.buttons[-1].data)
    await harness.wait_for("left alone", chat="room")
    assert sum("another person" in text for text in harness.texts("room")) == 1


async def test_late_button_presses_get_one_notice(harness, cwd):
    await harness.open([RISKY, "left alone", "noted"], **LOCAL, gateway__cwd=str(cwd))
    harness.say("clean up")
    shown = await harness.wait_for("rm -rf junk")
    await harness.ask("/deny", "left alone")
    for button in (*shown.buttons, *shown.buttons):
        harness.press(shown, button.data)
    await harness.wait_for("this question is closed")
    await harness.ask("what did I press", "noted")
    await harness.wait_idle()
    assert sum("this question is closed" in text for text in harness.texts()) == 1
    assert (cwd / "junk").exists()


async def test_only_an_owner_may_allow_for_always(harness):
    await harness.open(["hi", RISKY, "left alone"], **LOCAL, gateway__owners=["local:ben"])
    await harness.ask("hello", "hi", user="ben")
    harness.say("clean up")
    shown = await harness.wait_for("rm -rf junk", chat="ben")
    assert [each.label for each in shown.buttons][2] == "Always"
    await harness.ask("/approve always", "Only an owner may use /approve always")
    await harness.ask("/deny", "only an owner may approve this")
    harness.say("/deny", user="ben")
    await harness.wait_for("left alone")


OTHER = Step((ToolCall("c2", "terminal", '{"command": "rm -rf other"}'),))


@pytest.mark.parametrize("how", ["session", "always"])
async def test_an_answer_for_longer_covers_exactly_this_command(harness, cwd, how):
    (cwd / "other").mkdir()
    steps = [RISKY, RISKY, OTHER, "left alone"]
    await harness.open(steps, **LOCAL, gateway__cwd=str(cwd))
    harness.say("clean up")
    shown = await harness.wait_for("rm -rf junk")
    assert f"exactly this in {cwd}" in shown.text
    await harness.ask(f"/approve {how}", f"exactly this in {cwd}")
    await harness.wait_for("rm -rf other")
    harness.say("/deny")
    await harness.wait_for("left alone")
    assert (cwd / "other").exists() and not (cwd / "junk").exists()


async def test_a_wider_scope_is_named_and_a_destructive_one_confirmed(harness, cwd, hermes_home):
    (cwd / "other").mkdir()
    await harness.open([RISKY, OTHER, "removed"], **LOCAL, gateway__cwd=str(cwd))
    harness.say("clean up")
    await harness.wait_for("rm -rf junk")
    await harness.ask("/approve always planet", "'planet' is not a scope")
    await harness.ask("/approve always folder", "/approve always folder confirm")
    assert (cwd / "junk").exists()
    await harness.ask("/approve always folder confirm", "Allowed permanently: everything of")
    await harness.wait_for("removed")
    assert not (cwd / "junk").exists() and not (cwd / "other").exists()
    assert f"folder: {cwd}" in (hermes_home / "config.yaml").read_text()


async def test_silence_is_a_refusal(harness, cwd):
    await harness.open(
        [RISKY, "left alone"], **LOCAL, gateway__cwd=str(cwd), approvals__timeout=0.3
    )
    await harness.ask("clean up", "left alone")
    assert "was not answered in time" in str(harness.server.calls[-1].body["messages"][-1])
    assert (cwd / "junk").exists()


@pytest.mark.parametrize("answer", ["2", "blue"])
async def test_a_question_is_answered_by_the_next_message(harness, answer):
    await harness.open([ASKS, "blue it is"])
    harness.say("paint")
    await harness.wait_for("1. red")
    harness.say(answer)
    await harness.wait_for("blue it is")
    await harness.wait_idle()
    assert "blue" in str(harness.server.calls[-1].body["messages"][-1])
    assert len(harness.server.calls) == 2


async def test_a_button_answers_a_question(harness):
    await harness.open([ASKS, "blue it is"])
    harness.say("paint")
    shown = await harness.wait_for("1. red")
    harness.press(shown, shown.buttons[1].data)
    await harness.wait_for("blue it is")


async def test_without_a_question_approve_says_so(harness):
    await harness.open([])
    await harness.ask("/approve", "no approval is pending")


async def test_consent_is_asked_for_in_every_turn(harness, cwd):
    await harness.open(["hello", RISKY, "removed"], **LOCAL, gateway__cwd=str(cwd))
    await harness.ask("hi", "hello")
    await harness.wait_idle()
    harness.say("clean up")
    await harness.wait_for("rm -rf junk")
    harness.say("/approve")
    await harness.wait_for("removed")
    assert not (cwd / "junk").exists()


async def test_owner_is_asked_in_a_private_chat_for_another_person(harness):
    await harness.open(["hi", RISKY, "done"], **LOCAL, gateway__owners=["local:ben"])
    await harness.ask("hello", "hi", user="ben")
    harness.say("@hermes clean up", chat="room", chat_type="group")
    await harness.wait_for("An owner was asked", chat="room")
    shown = await harness.wait_for("rm -rf junk", chat="ben")
    assert "asked by local:anna" in shown.text and "group local:room" in shown.text
    harness.say("/status", chat="room", chat_type="group")
    await harness.wait_for("waiting for the approval of an owner", chat="room")
    await harness.ask("/approve", "Allowed once", user="ben")
    await harness.wait_for("done", chat="room")


async def test_home_channel_stands_in_for_a_private_chat_of_an_owner(harness, monkeypatch):
    monkeypatch.setenv("LOCAL_HOME_CHANNEL", "office")
    await harness.open([RISKY, "done"], **LOCAL, gateway__owners=["local:ben"])
    harness.say("clean up")
    shown = await harness.wait_for("rm -rf junk", chat="office")
    harness.press(shown, shown.buttons[0].data, user="ben")
    await harness.wait_for("done")


async def test_several_open_approvals_are_told_apart_by_their_codes(harness):
    steps = ["hi", RISKY, RISKY, "one", "two"]
    await harness.open(steps, **LOCAL, gateway__owners=["local:ben"])
    await harness.ask("hello", "hi", user="ben")
    harness.say("clean up")
    await harness.wait_for("rm -rf junk", chat="ben")
    harness.say("@hermes clean up", chat="room", chat_type="group")
    shown = await harness.wait_for("rm -rf junk", chat="ben", times=2)
    code = shown.buttons[0].data.partition(":")[0]
    await harness.ask("/approve", "several approvals are pending", user="ben")
    await harness.ask(f"/deny {code}", "Denied", user="ben")
    await harness.wait_for("one", chat="room")
    await harness.ask("/deny", "Denied", user="ben")
    await harness.wait_for("two")


RETRY_SECONDS: dict[str, Any] = {"approvals__timeout": 0.05, "clarify__timeout": 0.05}


def patient(runner: GatewayRunner) -> None:
    """Wait for answers as long as on a platform that people rarely look at."""
    known = runner.gateway.manifests
    known["local"] = msgspec.structs.replace(known["local"], patience=60.0)


async def late(harness: GatewayHarness, text: str) -> None:
    """The question is there, and the usual time is over."""
    await harness.wait_for(text)
    await asyncio.sleep(0.1)


@pytest.mark.parametrize("by", ["the setting of the platform", "the platform"])
async def test_a_patient_platform_waits_longer_for_consent(harness, cwd, by):
    said = {"approvals__platform_timeouts": {"local": 60}} if "setting" in by else {}
    runner = await harness.open(
        [RISKY, "removed"], **LOCAL, **RETRY_SECONDS, **said, gateway__cwd=str(cwd)
    )
    if not said:
        patient(runner)
    harness.say("clean up")
    await late(harness, "rm -rf junk")
    harness.say("yes")
    await harness.wait_for("removed")
    assert not (cwd / "junk").exists()


async def test_a_patient_platform_waits_longer_for_an_answer(harness):
    patient(await harness.open([ASKS, "thanks"], **RETRY_SECONDS))
    harness.say("choose")
    await late(harness, "Which?")
    harness.say("2")
    await harness.wait_for("thanks")
    assert "The user answers: blue" in str(harness.server.calls[-1].body)


def test_mail_gives_people_time():
    assert MANIFEST.patience >= 3600
