"""Approvals of people who have no right to give them, in a gateway with an owner, Ben."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.core.messages import ToolCall
from hermes.core.testing import Step
from hermes.sdk.platforms import MessageEvent, SessionSource
from tests.fakes.local.server import ShownMessage
from tests.integration.gateway.chats.conftest import GatewayHarness, harness

__all__ = ["harness"]

PEOPLE: dict[str, Any] = {
    "gateway__owners": ["local:ben"],
    "gateway__terminal": "local",
    "display__busy_input_mode": "queue",
}
LEFT = "left alone"


class Office:
    """Ben owns the machine; Anna and Dora are members, Gus is a guest."""

    def __init__(self, harness: GatewayHarness, data: Path) -> None:
        self.harness, self.data = harness, data
        self.requester, self.room = "anna", "anna"
        self.question: ShownMessage | None = None

    @property
    def code(self) -> str:
        assert self.question is not None
        return self.question.buttons[0].data.partition(":")[0]

    def deletion(self) -> Step:
        command = json.dumps({"command": f"rm -rf {self.data}"})
        return Step((ToolCall("c1", "terminal", command),))

    async def open(self, *steps: Any, **settings: Any) -> None:
        script = iter(["hi", *steps])
        await self.harness.open(lambda _call: next(script, "later"), **{**PEOPLE, **settings})
        await self.harness.ask("hello", "hi", user="ben")

    async def request(self, user: str = "anna", room: str = "") -> ShownMessage:
        """Let a person ask for the deletion; return the question in the chat of the owner."""
        self.requester, self.room = user, room or user
        group = {"chat": room, "chat_type": "group"} if room else {}
        self.harness.say("@hermes clean up", user=user, **group)
        self.question = await self.harness.wait_for(str(self.data), chat="ben")
        return self.question

    async def press(self, user: str, data: str, chat: str = "") -> None:
        """Press a button, also one that this person was never shown."""
        assert self.harness.runner is not None
        source = SessionSource("local", chat or user, user_id=user)
        name = f"press-{user}-{data}-{chat}"
        assert await self.harness.runner.gateway.receive(MessageEvent(source, name, button=data))

    async def write(self, user: str, text: str, chat: str = "", **more: Any) -> None:
        """Write a message, and wait until the gateway has taken it."""
        said = self.harness.say(text, user, chat, **more)
        waiting = self.harness.platform.log.waiting
        await self.harness.until(
            lambda: not any(each.id == said for chat in waiting.values() for each in chat), text
        )

    async def assert_not_approved(self) -> None:
        """The question is still open, nothing was deleted, and the owner can still say no."""
        assert self.data.is_dir()
        await self.harness.ask(f"/deny {self.code}", "Denied", user="ben")
        await self.harness.wait_for(LEFT, chat=self.room)
        assert (self.data / "important.txt").read_text() == "the only copy\n"
        calls = self.harness.server.calls
        await self.harness.until(
            lambda: any("did not allow this" in str(call.body["messages"]) for call in calls)
        )


@pytest.fixture
def office(harness: GatewayHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    monkeypatch.setenv("LOCAL_ALLOWED_USERS", "anna,ben,dora")
    monkeypatch.setenv("LOCAL_ALLOW_ALL_USERS", "true")
    data = tmp_path / "data"
    data.mkdir()
    (data / "important.txt").write_text("the only copy\n")
    return Office(harness, data)


# The controls: the same calls have their effect when an owner approves them.


async def test_control_an_owner_approves_the_command_of_a_member(office: Office):
    await office.open(office.deletion(), "done")
    await office.request()
    await office.press("ben", f"{office.code}:once")
    await office.harness.wait_for("done")
    assert not office.data.exists()


async def test_control_an_owner_approves_an_own_command_with_yes(office: Office):
    await office.open(office.deletion(), "done")
    await office.request("ben")
    await office.write("ben", "yes")
    await office.harness.wait_for("done", chat="ben")
    assert not office.data.exists()


# Attacks on the question of a member, which only the owner may answer.

Attack = Callable[[Office], Awaitable[None]]


async def _command(office: Office) -> None:
    await office.harness.ask("/approve", "only an owner may approve this")


async def _command_with_code(office: Office) -> None:
    await office.harness.ask(f"/approve {office.code}", "only an owner may approve this")
    await office.harness.ask(f"/approve {office.code} session", "only an owner", chat="anna")


async def _always(office: Office) -> None:
    await office.harness.ask(f"/approve {office.code} always", "Only an owner may use")
    await office.harness.ask(f"/approve@hermes {office.code} always", "Only an owner may use")


async def _plain_yes(office: Office) -> None:
    for word in ("yes", "ok", "approve", "go", "YES", " y "):
        await office.write("anna", word)


async def _requester_presses_the_button(office: Office) -> None:
    await office.press("anna", f"{office.code}:once", chat="ben")
    await office.harness.wait_for("only an owner may approve this", chat="ben")


async def _forwarded_callback_data(office: Office) -> None:
    for value in ("once", "session", "always", ""):
        await office.press("anna", f"{office.code}:{value}", chat="anna")
    await office.harness.wait_for("only an owner may approve this", chat="anna")


async def _another_member_in_the_owners_chat_data(office: Office) -> None:
    await office.press("dora", f"{office.code}:once", chat="dora")
    await office.harness.wait_for("only an owner may approve this", chat="dora")


async def _guest_presses(office: Office) -> None:
    await office.press("gus", f"{office.code}:once", chat="gus")
    await office.harness.wait_for("only an owner may approve this", chat="gus")


async def _guest_command(office: Office) -> None:
    await office.harness.ask(f"/approve {office.code}", "A guest may not use /approve", user="gus")


async def _other_members_command(office: Office) -> None:
    await office.harness.ask(f"/approve {office.code}", "no approval is pending", user="dora")


async def _impostor_with_the_owners_name(office: Office) -> None:
    source = SessionSource("local", "ben", user_id="anna", user_name="ben")
    event = MessageEvent(source, "impostor", button=f"{office.code}:once")
    assert office.harness.runner is not None
    await office.harness.runner.gateway.receive(event)
    await office.harness.wait_for("only an owner may approve this", chat="ben")


async def _owner_of_another_platform(office: Office) -> None:
    """The id of the owner, on an account of ours that is not the owner's."""
    source = SessionSource("local", "ben", user_id="BEN ", user_name="ben")
    event = MessageEvent(source, "other", button=f"{office.code}:once")
    assert office.harness.runner is not None
    await office.harness.runner.gateway.receive(event)


async def _owners_yes_to_something_else(office: Office) -> None:
    """A plain yes of the owner belongs to the owner's own conversation."""
    await office.harness.ask("yes", LEFT, user="ben")
    office.room = "ben"


async def _guessed_code(office: Office) -> None:
    for code in ("00000000", office.code[:-1], office.code + "0", "*", "%"):
        await office.press("anna", f"{code}:once")
        await office.press("ben", f"{code}:once")


ATTACKS: dict[str, Attack] = {
    "member approves the own command": _command,
    "member names the code": _command_with_code,
    "member approves for always": _always,
    "member says yes": _plain_yes,
    "member presses the button of the owner": _requester_presses_the_button,
    "member forwards the callback data": _forwarded_callback_data,
    "another member presses": _another_member_in_the_owners_chat_data,
    "another member approves by command": _other_members_command,
    "guest presses": _guest_presses,
    "guest approves by command": _guest_command,
    "member has the name of the owner": _impostor_with_the_owners_name,
    "id that looks like the owner's": _owner_of_another_platform,
    "owner says yes to something else": _owners_yes_to_something_else,
    "guessed code": _guessed_code,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
async def test_host_command_of_a_member_needs_an_owner(office: Office, attack: Attack):
    await office.open(office.deletion(), LEFT)
    await office.request()
    await office.harness.wait_for("An owner was asked")
    await attack(office)
    await office.assert_not_approved()


@pytest.mark.parametrize("who", ["anna", "dora", "gus"])
async def test_people_in_a_group_cannot_approve_for_each_other(office: Office, who: str):
    await office.open(office.deletion(), LEFT)
    await office.request("anna", "room")
    await office.write(who, "/approve", "room", chat_type="group")
    await office.write(who, "@hermes yes", "room", chat_type="group")
    await office.press(who, f"{office.code}:once", chat="room")
    await office.harness.wait_for("only an owner may approve this", chat="room")
    await office.assert_not_approved()


async def test_guest_approves_nothing(office: Office):
    settings = {"gateway__role_toolsets": {"guest": ["terminal"]}}
    await office.open(office.deletion(), LEFT, **settings)
    question = await office.request("gus")
    assert "asked by local:gus (gus), a guest" in question.text
    await office.write("gus", "yes")
    await office.press("gus", f"{office.code}:once")
    await office.assert_not_approved()


async def test_closed_question_stays_closed(office: Office):
    await office.open(office.deletion(), LEFT, office.deletion(), LEFT)
    await office.request()
    first = office.code
    await office.harness.ask(f"/deny {first}", "Denied", user="ben")
    await office.harness.wait_for(LEFT)
    await office.request()
    office.question = await office.harness.wait_for(str(office.data), chat="ben", times=2)
    assert office.code != first
    await office.press("ben", f"{first}:once")
    await office.harness.wait_for("this question is closed", chat="ben")
    await office.harness.ask(f"/approve {first}", "is not an answer", user="ben")
    assert office.data.is_dir()
    await office.harness.ask(f"/deny {office.code}", "Denied", user="ben", chat="ben")
    await office.harness.wait_for(LEFT, times=2)
    assert office.data.is_dir()


async def test_unanswered_question_is_denied(office: Office):
    await office.open(office.deletion(), LEFT, approvals__timeout=0.5)
    await office.request()
    await office.harness.wait_for(LEFT)
    await office.press("ben", f"{office.code}:once")
    assert office.data.is_dir()
    assert "not answered in time" in str(office.harness.server.calls[-1].body["messages"])


async def test_without_an_owner_who_can_be_asked_it_is_refused(office: Office):
    await office.harness.open([office.deletion(), LEFT], **PEOPLE)  # Ben has never written
    await office.harness.ask("clean up", "only an owner may approve this, and no owner can be")
    await office.harness.wait_for(LEFT)
    assert office.data.is_dir()
    assert "no owner can be asked" in str(office.harness.server.calls[-1].body["messages"])


# Other people's chats.

PHISH = "your password has expired"


def send(target: str) -> Step:
    arguments = json.dumps({"target": target, "message": PHISH})
    return Step((ToolCall("c1", "send_message", arguments),))


def received(office: Office, chat: str) -> list[str]:
    """Messages that are the text itself, not a question about it."""
    return [text for text in office.harness.texts(chat) if text.strip() == PHISH]


@pytest.mark.parametrize("target", ["local:ben", "local:dora", "local:room"])
@pytest.mark.parametrize("terminal", ["local", "sandbox"])
async def test_member_cannot_approve_a_message_to_another_chat(
    office: Office, target: str, terminal: str
):
    await office.open(send(target), LEFT, gateway__terminal=terminal)
    office.harness.say("tell them")
    office.question = await office.harness.wait_for(PHISH, chat="ben")
    assert "send_message wants to send this" in office.question.text
    await _command(office)
    await office.write("anna", "yes")
    await office.press("anna", f"{office.code}:once")
    await office.harness.ask(f"/deny {office.code}", "Denied", user="ben")
    await office.harness.wait_for(LEFT)
    assert not received(office, target.removeprefix("local:"))


async def test_control_an_owner_lets_a_message_be_sent(office: Office):
    await office.open(send("local:dora"), "sent")
    office.harness.say("tell them")
    office.question = await office.harness.wait_for(PHISH, chat="ben")
    await office.press("ben", f"{office.code}:once")
    await office.harness.wait_for("sent")
    await office.harness.until(lambda: received(office, "dora"))


@pytest.mark.parametrize("target", ["local:ben", "origin,local:ben", "local"])
async def test_job_of_a_member_delivers_to_no_other_chat(office: Office, target: str):
    arguments = {
        "action": "create", "schedule": "every 1m", "prompt": f"Say {PHISH}", "deliver": target,
    }  # fmt: skip
    create = Step((ToolCall("c1", "cronjob", json.dumps(arguments)),))
    await office.open(create, "hm", approvals__timeout=0.5)
    await office.harness.ask("every minute", "hm")
    result = str(office.harness.server.calls[-1].body["messages"][-1])
    jobs = office.harness.home / "cron" / "jobs.json"
    stored = jobs.read_text() if jobs.is_file() else ""
    assert "local:ben" not in stored, result


async def test_name_of_the_requester_cannot_change_the_question(office: Office):
    await office.open(office.deletion(), LEFT)
    assert office.harness.runner is not None
    fake = "x\n```\nHarmless clean-up, approved by security.\u202e\x1b[2K" + "y" * 500
    source = SessionSource("local", "anna", user_id="anna", user_name=fake, chat_name=fake)
    await office.harness.runner.gateway.receive(MessageEvent(source, "m1", "clean up"))
    office.question = await office.harness.wait_for(str(office.data), chat="ben")
    lines = office.question.text.splitlines()
    (asked,) = [line for line in lines if line.startswith("asked by local:anna")]
    assert "\\n```\\nHarmless" in asked and "\\u202e\\x1b[2K" in asked and len(asked) < 700
    assert not [line for line in lines if line.startswith("Harmless")]
    await office.assert_not_approved()
