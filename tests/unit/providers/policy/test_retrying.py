"""Trying again: when it can help, not too often, and as long as the server asks."""

from contextlib import aclosing

import pytest

from hermes.core.errors import CredentialRefused, RateLimited, ServerFault
from hermes.core.messages import User
from hermes.core.model import ModelRequest, Reply, Retrying
from hermes.core.testing import ScriptedModel
from hermes.providers.policy.retrying import LONGEST_DELAY, RetryingModel, pause_before

ASK = ModelRequest((User.say("hi"),))


class Naps:
    """A clock that does not wait."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self):
        raise AssertionError("nobody needs the time here")

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def limited(retry_after: float | None) -> RateLimited:
    error = RateLimited("slow down")
    error.retry_after = retry_after
    return error


async def ask(model: RetryingModel) -> list:
    async with aclosing(model.stream(ASK)) as events:
        return [event async for event in events]


async def test_a_passing_fault_is_overcome_and_told():
    clock = Naps()
    with ScriptedModel([ServerFault("busy"), limited(7), "fine"]) as inner:
        events = await ask(RetryingModel(inner, clock))
    assert [event.error for event in events if isinstance(event, Retrying)] == ["busy", "slow down"]
    assert isinstance(events[-1], Reply)
    assert clock.slept[1] == 7


async def test_the_third_failure_is_the_last():
    clock = Naps()
    inner = ScriptedModel([ServerFault("1"), ServerFault("2"), ServerFault("3")])
    with inner, pytest.raises(ServerFault, match="3"):
        await ask(RetryingModel(inner, clock))
    assert len(clock.slept) == 2


async def test_what_will_not_change_is_not_tried_again():
    with ScriptedModel([CredentialRefused("no")]) as inner, pytest.raises(CredentialRefused):
        await ask(RetryingModel(inner, Naps()))


async def test_a_server_that_wants_a_long_wait_is_not_waited_for():
    with ScriptedModel([limited(3600)]) as inner, pytest.raises(RateLimited):
        await ask(RetryingModel(inner, Naps()))


def test_pauses_grow_up_to_a_limit():
    pauses = [pause_before(attempt, ServerFault("x")) for attempt in range(1, 12)]
    assert all(pause is not None and 0 < pause <= LONGEST_DELAY for pause in pauses)
    assert pauses[0] <= 1.0
    assert pauses[-1] >= LONGEST_DELAY / 2
