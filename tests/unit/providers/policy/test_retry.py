"""Trying again: when it can help, not too often, and as long as the server asks."""

from collections.abc import Callable

import pytest

from hermes.core.errors import (
    BudgetSpent,
    ConfigError,
    ContentRefused,
    ContextOverflow,
    CredentialMissing,
    CredentialRefused,
    CredentialsExhausted,
    DownloadFailed,
    ModelNotFound,
    Overloaded,
    QuotaSpent,
    RateLimited,
    ReplyInvalid,
    RequestRefused,
    ServerFault,
    StreamCut,
)
from hermes.core.model import FellBack, Model, Reply, Retrying, TextDelta
from hermes.core.testing import ScriptedModel, scripts
from hermes.providers.policy.retry import (
    FAILURE_THRESHOLD,
    MAX_DELAY,
    CircuitBreakerModel,
    EndpointCircuit,
    EndpointHealth,
    FallbackModel,
    RetryModel,
    pause_before,
)
from tests.unit.providers.hand_clock import HandClock
from tests.unit.providers.policy.parts import ask, kinds


class CutOnce:
    """Breaks off after the first words, and answers the second time."""

    name, provider = "cut", "testing"

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, request, emit):
        self.calls += 1
        emit(TextDelta("Hel"))
        if self.calls == 1:
            raise StreamCut("the connection ended")
        return await ScriptedModel(["Hello"]).call(request, emit)


async def test_transient_fault_is_retried_with_an_event():
    clock = HandClock()
    steps = [ServerFault("busy"), RateLimited("slow down", retry_after=7), "fine"]
    with ScriptedModel(steps) as inner:
        events = await ask(RetryModel(inner, clock))
    assert [event.error for event in events if isinstance(event, Retrying)] == ["busy", "slow down"]
    assert isinstance(events[-1], Reply)
    assert clock.slept[1] == 7


async def test_retry_delay_of_an_overloaded_server_is_respected():
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


async def test_permanent_error_is_not_retried():
    with ScriptedModel([CredentialRefused("no")]) as inner, pytest.raises(CredentialRefused):
        await ask(RetryModel(inner, HandClock()))


@pytest.mark.parametrize("kind", [RateLimited, Overloaded])
async def test_long_retry_delay_is_not_awaited(kind):
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


async def test_unavailable_model_is_not_retried_when_there_is_another():
    clock = HandClock()
    with ScriptedModel([ServerFault("down")]) as inner, pytest.raises(ServerFault):
        await ask(RetryModel(unwell_after_one(clock, inner), clock, patient=False))
    assert clock.slept == []


async def test_only_model_is_retried_even_when_unavailable():
    clock = HandClock()
    with ScriptedModel([ServerFault("down"), "fine"]) as inner:
        events = await ask(RetryModel(unwell_after_one(clock, inner), clock))
    assert events[-1].message.text == "fine"


def test_pauses_grow_up_to_a_limit():
    pauses = [pause_before(attempt, ServerFault("x")) for attempt in range(1, 12)]
    assert all(pause is not None and 0 < pause <= MAX_DELAY for pause in pauses)
    assert pauses[0] <= 1.0
    assert pauses[-1] >= MAX_DELAY / 2


HELPED = [
    CredentialMissing,
    CredentialRefused,
    CredentialsExhausted,
    QuotaSpent,
    RateLimited,
    ModelNotFound,
    RequestRefused,
    ServerFault,
    ReplyInvalid,
    DownloadFailed,
]


@pytest.fixture
def script():
    """A maker of models that must be used up."""
    with scripts() as make:
        yield lambda name, *steps: make(steps, name=name, provider=f"p-{name}")


def entries(*models: Model | Exception) -> list[Callable[[], Model]]:
    def build(model: Model | Exception) -> Model:
        if isinstance(model, Exception):
            raise model
        return model

    return [lambda model=model: build(model) for model in models]


def unavailable(model: ScriptedModel) -> CircuitBreakerModel:
    circuit = EndpointCircuit(HandClock())
    for _ in range(FAILURE_THRESHOLD):
        with pytest.raises(ServerFault), circuit.call():
            raise ServerFault("down")
    return CircuitBreakerModel(model, circuit)


@pytest.mark.parametrize("kind", HELPED)
async def test_next_model_takes_over_with_an_event(script, kind):
    model = FallbackModel(entries(script("a", kind("it failed")), script("b", "fine")))
    assert (model.name, model.provider) == ("a", "p-a")
    events = await ask(model)
    assert events[0] == FellBack("p-b", "b", "it failed")
    assert isinstance(events[-1], Reply)
    assert (model.name, model.provider) == ("b", "p-b")


@pytest.mark.parametrize("kind", [ContextOverflow, ContentRefused, BudgetSpent])
async def test_error_that_no_fallback_may_handle_is_raised(script, kind):
    model = FallbackModel(entries(script("a", kind("no")), script("b")))
    with pytest.raises(kind) as caught:
        await ask(model)
    assert caught.value.hint == ""
    assert model.name == "a"


async def test_fallback_model_stays_in_use(script):
    model = FallbackModel(entries(script("a", ServerFault("down")), script("b", "one", "two")))
    await ask(model)
    assert kinds(await ask(model)) == ["Reply"]


async def test_too_long_a_context_after_a_fallback_does_not_go_on_to_the_next(script):
    model = FallbackModel(
        entries(script("a", ServerFault("x")), script("b", ContextOverflow("long"), "fine"))
    )
    with pytest.raises(ContextOverflow):
        await ask(model)
    assert kinds(await ask(model)) == ["Reply"]


async def test_each_entry_is_tried_once_in_order(script):
    model = FallbackModel(
        entries(script("a", ServerFault("1")), script("b", ModelNotFound("2")), script("c", "fine"))
    )
    reported = [event for event in await ask(model) if isinstance(event, FellBack)]
    assert [(event.model, event.error) for event in reported] == [("b", "1"), ("c", "2")]


async def test_when_all_failed_the_first_error_is_raised_and_the_hint_tells_the_rest(script):
    first = CredentialRefused("the key was refused", hint="run hermes model")
    model = FallbackModel(
        entries(script("a", first), script("b", ServerFault("2")), script("c", QuotaSpent("3")))
    )
    with pytest.raises(CredentialRefused) as caught:
        await ask(model)
    assert caught.value is first
    assert first.hint == "run hermes model; 2 fallbacks failed too, the last with: 3"


async def test_single_entry_behaves_like_the_model_itself(script):
    model = FallbackModel(entries(script("a", "fine", ServerFault("down"))))
    assert kinds(await ask(model)) == ["Reply"]
    with pytest.raises(ServerFault, match="down") as caught:
        await ask(model)
    assert caught.value.hint == ""


@pytest.mark.parametrize("error", [ConfigError("no such provider"), CredentialMissing("no key")])
async def test_an_entry_that_cannot_be_built_is_passed_over(script, error):
    model = FallbackModel(entries(script("a", ServerFault("down")), error, script("c", "fine")))
    events = await ask(model)
    assert [event for event in events if isinstance(event, FellBack)] == [
        FellBack("p-c", "c", "down")
    ]


async def test_first_entry_that_cannot_be_built_is_reported_with_the_first_call(script):
    model = FallbackModel(entries(CredentialMissing("no key"), script("b", "one", "two")))
    assert model.name == "b"
    assert kinds(await ask(model)) == ["FellBack", "Reply"]
    assert kinds(await ask(model)) == ["Reply"]


def test_when_nothing_can_be_built_it_says_so_before_the_turn_begins():
    with pytest.raises(CredentialMissing, match="no key") as caught:
        FallbackModel(entries(CredentialMissing("no key"), ConfigError("what is acme?")))
    assert caught.value.hint == "1 fallback failed too, the last with: what is acme?"


async def test_a_later_entry_is_not_built_before_it_is_needed(script):
    built = []
    [first] = entries(script("a", "fine"))
    await ask(FallbackModel([first, lambda: built.append("b")]))
    assert built == []


async def test_unavailable_model_is_passed_over_at_once(script):
    model = FallbackModel(entries(unavailable(script("a")), script("b", "fine")))
    [reported, *_] = await ask(model)
    assert isinstance(reported, FellBack)
    assert reported.model == "b"
    assert "p-a failed several times in a row" in reported.error


async def test_unavailable_model_is_tried_when_all_others_failed(script):
    model = FallbackModel(
        entries(unavailable(script("a", "fine")), script("b", ServerFault("down")))
    )
    reported = [event for event in await ask(model) if isinstance(event, FellBack)]
    assert [(event.model, event.error) for event in reported][-1] == ("a", "down")


@pytest.mark.parametrize("rest", [[], [ConfigError("broken")]])
async def test_unavailable_model_without_an_alternative_answers(script, rest):
    model = FallbackModel(entries(unavailable(script("a", "fine")), *rest))
    assert kinds(await ask(model)) == ["Reply"]


async def test_first_model_begins_when_all_are_unavailable(script):
    model = FallbackModel(entries(unavailable(script("a", "fine")), unavailable(script("b"))))
    assert kinds(await ask(model)) == ["Reply"]
