"""Trying again: when it can help, not too often, and as long as the server asks."""

import pytest

from hermes.core.errors import CredentialRefused, Overloaded, RateLimited, ServerFault, StreamCut
from hermes.core.model import Reply, Retrying, TextDelta
from hermes.core.testing import ScriptedModel
from hermes.providers.policy.circuit_breaker import (
    FAILURE_THRESHOLD,
    CircuitBreakerModel,
    EndpointHealth,
)
from hermes.providers.policy.retry import MAX_DELAY, RetryModel, pause_before
from tests.unit.providers.policy.parts import HandClock, ask


class CutOnce:
    """Breaks off after the first words, and answers the second time."""

    name, provider = "cut", "testing"

    def __init__(self) -> None:
        self.calls = 0

    async def stream(self, request):
        self.calls += 1
        yield TextDelta("Hel")
        if self.calls == 1:
            raise StreamCut("the connection ended")
        async for event in ScriptedModel(["Hello"]).stream(request):
            yield event


async def test_a_passing_fault_is_overcome_and_told():
    clock = HandClock()
    steps = [ServerFault("busy"), RateLimited("slow down", retry_after=7), "fine"]
    with ScriptedModel(steps) as inner:
        events = await ask(RetryModel(inner, clock))
    assert [event.error for event in events if isinstance(event, Retrying)] == ["busy", "slow down"]
    assert isinstance(events[-1], Reply)
    assert clock.slept[1] == 7


async def test_the_wait_an_overloaded_server_asks_for_is_kept():
    clock = HandClock()
    with ScriptedModel([Overloaded("full", retry_after=12), "fine"]) as inner:
        await ask(RetryModel(inner, clock))
    assert clock.slept == [12]


async def test_a_reply_that_broke_off_is_asked_for_again():
    events = await ask(RetryModel(CutOnce(), HandClock()))
    broken = next(n for n, event in enumerate(events) if isinstance(event, Retrying))
    assert [event.text for event in events[:broken]] == ["Hel"]
    assert events[-1].message.text == "Hello"


async def test_the_third_failure_is_the_last():
    clock = HandClock()
    inner = ScriptedModel([ServerFault("1"), ServerFault("2"), ServerFault("3")])
    with inner, pytest.raises(ServerFault, match="3"):
        await ask(RetryModel(inner, clock))
    assert len(clock.slept) == 2


async def test_what_will_not_change_is_not_tried_again():
    with ScriptedModel([CredentialRefused("no")]) as inner, pytest.raises(CredentialRefused):
        await ask(RetryModel(inner, HandClock()))


@pytest.mark.parametrize("kind", [RateLimited, Overloaded])
async def test_a_server_that_wants_a_long_wait_is_not_waited_for(kind):
    clock = HandClock()
    with ScriptedModel([kind("later", retry_after=3600)]) as inner, pytest.raises(kind):
        await ask(RetryModel(inner, clock))
    assert clock.slept == []


def unwell_after_one(clock: HandClock, inner: ScriptedModel) -> CircuitBreakerModel:
    """A model that one more failure makes unwell."""
    circuit = EndpointHealth(clock).circuit("testing", "http://x")
    for _ in range(FAILURE_THRESHOLD - 1):
        with pytest.raises(ServerFault), circuit.call():
            raise ServerFault("before")
    return CircuitBreakerModel(inner, circuit)


async def test_no_time_is_wasted_on_an_unwell_model_when_there_is_another():
    clock = HandClock()
    with ScriptedModel([ServerFault("down")]) as inner, pytest.raises(ServerFault):
        await ask(RetryModel(unwell_after_one(clock, inner), clock, patient=False))
    assert clock.slept == []


async def test_the_only_model_is_tried_again_even_when_it_is_unwell():
    clock = HandClock()
    with ScriptedModel([ServerFault("down"), "fine"]) as inner:
        events = await ask(RetryModel(unwell_after_one(clock, inner), clock))
    assert events[-1].message.text == "fine"


def test_pauses_grow_up_to_a_limit():
    pauses = [pause_before(attempt, ServerFault("x")) for attempt in range(1, 12)]
    assert all(pause is not None and 0 < pause <= MAX_DELAY for pause in pauses)
    assert pauses[0] <= 1.0
    assert pauses[-1] >= MAX_DELAY / 2
