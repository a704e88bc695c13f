"""An endpoint that keeps failing is left alone for a while, and tried again."""

import asyncio

import pytest

from hermes.core.errors import BudgetSpent, CredentialRefused, ReplyInvalid, ServerFault
from hermes.core.messages import Text
from hermes.core.testing import ScriptedModel, Stall, Step
from hermes.providers.policy.retry import (
    FAILURE_THRESHOLD,
    FAILURE_WINDOW,
    LONGEST_OPEN,
    CircuitBreakerModel,
    EndpointCircuit,
    EndpointHealth,
)
from tests.unit.providers.hand_clock import HandClock
from tests.unit.providers.policy.parts import ASK, ask, ask_until_delta


def fail(circuit: EndpointCircuit, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(ServerFault), circuit.call():
            raise ServerFault("down")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def circuit(clock: HandClock) -> EndpointCircuit:
    return EndpointHealth(clock).circuit("acme", "https://acme.test", "env:A")


def test_each_credential_has_a_health_of_its_own(clock):
    health = EndpointHealth(clock)
    fail(health.circuit("acme", "https://acme.test", "env:A"), FAILURE_THRESHOLD)
    assert health.circuit("acme", "https://acme.test", "env:A").open_for == 30
    assert health.circuit("acme", "https://acme.test", "env:B").open_for == 0
    assert health.circuit("acme", "https://other.test", "env:A").open_for == 0


async def test_five_failures_in_a_row_open_the_circuit(circuit):
    model = CircuitBreakerModel(ScriptedModel([ReplyInvalid("empty")] * FAILURE_THRESHOLD), circuit)
    for _ in range(FAILURE_THRESHOLD):
        assert model.unavailable_reason() == ""
        with pytest.raises(ReplyInvalid):
            await ask(model)
    assert (
        model.unavailable_reason()
        == "testing failed several times in a row and is not called for 30 s"
    )


async def test_an_answer_in_between_begins_the_count_anew(circuit):
    fail(circuit, FAILURE_THRESHOLD - 1)
    with ScriptedModel(["fine"]) as inner:
        await ask(CircuitBreakerModel(inner, circuit))
    fail(circuit, FAILURE_THRESHOLD - 1)
    assert circuit.open_for == 0


def test_failures_spread_over_a_long_time_do_not_count_together(circuit, clock):
    for _ in range(FAILURE_THRESHOLD * 2):
        fail(circuit)
        clock.pass_(FAILURE_WINDOW / (FAILURE_THRESHOLD - 2))
    assert circuit.open_for == 0


async def test_after_the_time_one_call_is_let_through(circuit, clock):
    fail(circuit, FAILURE_THRESHOLD)
    clock.pass_(29)
    assert circuit.open_for == 1
    clock.pass_(1)
    assert circuit.open_for == 0
    with ScriptedModel(["fine"]) as inner:
        meanwhile = []
        await CircuitBreakerModel(inner, circuit).call(
            ASK, lambda _delta: meanwhile.append(circuit.open_for)
        )
    assert all(meanwhile), "a second caller must look elsewhere meanwhile"
    assert circuit.open_for == 0


def test_each_failed_trial_doubles_the_time_up_to_a_limit(circuit, clock):
    fail(circuit, FAILURE_THRESHOLD)
    waits = []
    for _ in range(6):
        waits.append(circuit.open_for)
        clock.pass_(circuit.open_for)
        fail(circuit)
    assert waits == [30, 60, 120, 240, LONGEST_OPEN, LONGEST_OPEN]


def test_failures_while_open_do_not_prolong_the_pause(circuit, clock):
    fail(circuit, FAILURE_THRESHOLD)
    clock.pass_(10)
    fail(circuit, FAILURE_THRESHOLD)
    assert circuit.open_for == 20


def test_a_refusal_shows_that_the_endpoint_lives(circuit, clock):
    fail(circuit, FAILURE_THRESHOLD)
    clock.pass_(30)
    with pytest.raises(CredentialRefused), circuit.call():
        raise CredentialRefused("bad key")
    fail(circuit, FAILURE_THRESHOLD - 1)
    assert circuit.open_for == 0


def test_a_call_that_the_budget_forbids_says_nothing_about_the_endpoint(circuit, clock):
    fail(circuit, FAILURE_THRESHOLD)
    clock.pass_(30)
    with pytest.raises(BudgetSpent), circuit.call():
        raise BudgetSpent("too dear")
    fail(circuit)
    assert circuit.open_for == 60


async def test_stopped_reply_is_not_a_failure(circuit, clock):
    fail(circuit, FAILURE_THRESHOLD)
    clock.pass_(30)
    inner = ScriptedModel(["a long answer", Step((Text("hm"),), faults=(Stall(after=0),))])
    await ask_until_delta(CircuitBreakerModel(inner, circuit))
    assert circuit.open_for == 0, "the trial is free again"
    task = asyncio.create_task(ask(CircuitBreakerModel(inner, circuit)))
    while len(inner.requests) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert circuit.open_for == 0
