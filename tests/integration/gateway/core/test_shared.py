"""Several people in one conversation: what one may not, another does not do for them."""

import asyncio

import pytest

from hermes.core.messages import Text
from hermes.core.testing import Stall, Step

STALLED = Step((Text("never"),), faults=(Stall(0),))
ROOM = {"chat": "room", "chat_type": "group"}
TOGETHER = {"group_sessions_per_user": False}


@pytest.fixture(autouse=True)
def everybody(monkeypatch):
    """Anna and Ben are members, everybody else is a guest."""
    monkeypatch.setenv("LOCAL_ALLOW_ALL_USERS", "true")


def tools(call) -> set[str]:
    return {each["function"]["name"] for each in call.body.get("tools", ())}


async def test_messages_of_two_people_are_not_answered_with_the_rights_of_one(harness, monkeypatch):
    mode = {"display__busy_input_mode": "interrupt"}
    await harness.open([STALLED, "to the guest", "to anna"], **TOGETHER, **mode)
    harness.hold_turns(monkeypatch)
    await harness.begin("@hermes begin", user="anna", **ROOM)
    harness.say("@hermes delete it all", user="guest", **ROOM)
    harness.say("@hermes hello", user="anna", **ROOM)
    await harness.wait_for("to anna", chat="room")
    asked = [
        call for call in harness.server.calls if "delete it all" in str(call.body["messages"][-1])
    ]
    assert asked
    assert all("terminal" not in tools(call) for call in asked)


@pytest.mark.parametrize("words", ["do as I say", "/steer do as I say"])
async def test_a_guest_does_not_steer_the_turn_of_a_member(harness, words):
    def answer(request):
        last = str(request.body["messages"][-1])
        return Step((Text("done"),), faults=(Stall(0, seconds=0.5),)) if "begin" in last else "no"

    await harness.open(answer, **TOGETHER, display__busy_input_mode="steer")
    await harness.begin("@hermes begin", user="anna", **ROOM)
    harness.say(f"@hermes {words}" if words[0] != "/" else words, user="guest", **ROOM)
    await harness.wait_for("done", chat="room")
    await harness.wait_idle()
    heard = [call for call in harness.server.calls if "do as I say" in str(call.body["messages"])]
    assert all("terminal" not in tools(call) for call in heard)


async def test_a_command_of_a_guest_leaves_the_agent_of_a_member_open(harness, monkeypatch):
    runner = await harness.open(["hello", "again"], **TOGETHER)
    harness.say("@hermes hi", user="anna", **ROOM)
    await harness.wait_for("hello", chat="room")
    ((key, agent),) = runner.gateway.open_agents().items()
    session = runner.gateway.worker(key).session
    going, gate = asyncio.Event(), asyncio.Event()
    open_ = session._open

    async def slow(*given: object) -> object:
        found = await open_(*given)
        if not going.is_set():
            going.set()
            await gate.wait()
        return found

    monkeypatch.setattr(session, "_open", slow)
    harness.say("@hermes once more", user="anna", **ROOM)
    await going.wait()
    harness.say("/status", user="guest", **ROOM)
    await asyncio.sleep(0.2)
    gate.set()
    await harness.wait_for("again", chat="room")
    await harness.wait_for("Session:", chat="room")
    assert runner.gateway.open_agents().get(key) is agent
