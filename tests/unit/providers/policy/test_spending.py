"""No call goes out that a cap does not allow, and what a call cost is counted."""

import asyncio

import pytest

from hermes.config.assignment import assign
from hermes.core.errors import BudgetSpent, ServerFault, StreamCut
from hermes.core.messages import Assistant, Image, System, Text, Thinking, ToolCall, User
from hermes.core.model import ModelRequest, Reply, TextDelta, ToolSpec
from hermes.core.testing import ScriptedModel, Step
from hermes.core.tokens import IMAGE_TOKENS, message_tokens, tools_tokens
from hermes.core.usage import FREE, Price, Usage
from hermes.providers.endpoints import ModelProfile
from hermes.providers.policy.budget import DEFAULT_MAX_OUTPUT, Budget, BudgetLimits, MeteredModel
from tests.unit.providers.policy.parts import ASK, HandClock, MemoryLedger, ask, ask_until_delta

# A dollar for a thousand tokens of output; what is read costs next to nothing.
DEAR_OUTPUT = ModelProfile(price=Price(0.001, 1000, 0.001, 0.001), max_output=4000)
DEAR_INPUT = ModelProfile(price=Price(1000, 0, 1000, 2000), max_output=4000)


def purse(cap: float | None) -> Budget:
    return Budget(BudgetLimits(turn=cap), MemoryLedger(), "s", HandClock())


async def left(of: Budget) -> float:
    """All that can still be set aside."""
    reservation = await of.reserve(1e9, least=0.0)
    of.release(reservation)
    return reservation.usd


def cost(output: int) -> Step:
    return Step((Text("fine"),), usage=Usage(input=0, output=output))


async def test_without_a_cap_the_call_is_passed_on_as_it_is():
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, purse(None), ModelProfile(price=None)))
    assert inner.requests == [ASK]


async def test_a_free_model_is_always_allowed():
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, purse(0.0), ModelProfile(price=FREE)))
    assert inner.requests == [ASK]


async def test_what_the_call_really_cost_is_what_counts():
    money = purse(10.0)
    with ScriptedModel([cost(output=1000), cost(output=2000)]) as inner:
        model = MeteredModel(inner, money, DEAR_OUTPUT)
        await ask(model)
        assert await left(money) == pytest.approx(9.0)
        await ask(model)
    assert await left(money) == pytest.approx(7.0)
    assert inner.requests == [ASK, ASK]


class Priced:
    """An endpoint that says itself what the call cost."""

    name, provider = "priced", "testing"

    async def stream(self, request):
        yield Reply(Assistant((Text("fine"),)), Usage(output=1000), "priced", cost_usd=3.0)


async def test_the_cost_the_endpoint_reports_wins():
    money = purse(10.0)
    await ask(MeteredModel(Priced(), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(7.0)


async def test_a_reply_without_counts_is_charged_by_its_length():
    money = purse(10.0)
    step = Step((Text("x" * 3000),), usage=Usage())
    await ask(MeteredModel(ScriptedModel([step]), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(9.0, abs=0.01)


async def test_a_reply_is_shortened_to_what_can_be_paid():
    money = purse(1.0)
    with ScriptedModel([cost(output=900)]) as inner:
        await ask(MeteredModel(inner, money, DEAR_OUTPUT))
    [sent] = inner.requests
    assert 990 <= sent.max_tokens <= 1000
    assert await left(money) == pytest.approx(0.1)


async def test_a_reply_too_short_to_be_useful_is_not_paid_for():
    with ScriptedModel([]) as inner, pytest.raises(BudgetSpent) as caught:
        await ask(MeteredModel(inner, purse(0.25), DEAR_OUTPUT))
    assert "budget.turn_usd allows $0.25 for one turn: $0.00 is spent" in str(caught.value)
    assert "the next call may cost $0.256" in str(caught.value)


async def test_a_short_reply_that_was_asked_for_is_useful():
    request = ModelRequest(ASK.messages, max_tokens=100)
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, purse(0.5), DEAR_OUTPUT), request)
    assert inner.requests == [request]


async def test_a_model_whose_longest_reply_is_not_known_is_asked_for_no_more_than_was_set_aside():
    profile = ModelProfile(price=DEAR_OUTPUT.price)
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, purse(100.0), profile))
    assert inner.requests[0].max_tokens == DEFAULT_MAX_OUTPUT


async def test_the_dearest_way_to_read_the_request_is_assumed():
    tokens = 10_000
    request = ModelRequest((User.say("x" * 3 * tokens),))
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, purse(2.0 * tokens / 1000 * 1.1), DEAR_INPUT), request)
    with ScriptedModel([]) as inner, pytest.raises(BudgetSpent):
        await ask(MeteredModel(inner, purse(2.0 * tokens / 1000), DEAR_INPUT), request)


async def test_calls_at_the_same_time_share_what_is_left():
    money = purse(1.2)
    inner = ScriptedModel(lambda _: cost(output=600))
    model = MeteredModel(inner, money, DEAR_OUTPUT)
    ends = await asyncio.gather(*[ask(model) for _ in range(5)], return_exceptions=True)
    assert sum(isinstance(end, BudgetSpent) for end in ends) == 4
    assert await left(money) == pytest.approx(0.6)


async def test_an_unknown_price_stops_the_call_and_the_hint_gives_it():
    inner = ScriptedModel([], name="acme/model-4.5", provider="openrouter")
    with pytest.raises(BudgetSpent, match=r"price of acme/model-4\.5 at openrouter is not") as c:
        await ask(MeteredModel(inner, purse(1.0), ModelProfile()))
    [key, value] = c.value.hint.split("`hermes config set ")[1].rstrip("`").split("' '")
    assignment = assign(key.strip("'"), value.strip("'"))
    assert assignment.parts == ("providers", "openrouter", "models", "acme/model-4.5", "price")
    assert assignment.value == {"input": 3, "output": 15}


async def test_a_call_that_failed_before_it_answered_costs_nothing():
    money = purse(1.0)
    with pytest.raises(ServerFault):
        await ask(MeteredModel(ScriptedModel([ServerFault("down")]), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(1.0)


class CutOff:
    name, provider = "cut", "testing"

    async def stream(self, request):
        yield TextDelta("x" * 600)
        raise StreamCut("the connection ended")


async def test_what_came_of_a_broken_reply_is_charged():
    money = purse(1.0)
    with pytest.raises(StreamCut):
        await ask(MeteredModel(CutOff(), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(0.8, abs=0.001)


async def test_what_a_broken_reply_cost_does_not_hide_what_others_spend():
    ledger, clock = MemoryLedger(), HandClock()
    money = Budget(BudgetLimits(day=1.0), ledger, "s", clock)
    with pytest.raises(StreamCut):
        await ask(MeteredModel(CutOff(), money, DEAR_OUTPUT))
    ledger.record(0.5, session_id="another", at=clock.now())
    assert await left(money) == pytest.approx(0.3, abs=0.001)


async def test_what_came_of_a_stopped_reply_is_charged():
    money = purse(1.0)
    await ask_until_delta(MeteredModel(CutOff(), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(0.8, abs=0.001)


def test_everything_in_a_message_counts():
    assert message_tokens(System("x" * 300)) == 108
    assert message_tokens(User((Text("漢" * 10), Image("data:image/png;base64,AAAA")))) == (
        8 + 10 + IMAGE_TOKENS
    )
    signed = Thinking("short", details=({"signature": "s" * 300},))
    call = ToolCall("c", "write_file", "x" * 300)
    assert message_tokens(Assistant((signed, call))) > 208
    assert message_tokens(User.say("\ud83d")) == 9
    assert tools_tokens([ToolSpec("t", "d" * 300, {"description": "p" * 300})]) > 200


async def test_tools_count_too():
    tools = (ToolSpec("t", "x" * 30_000, {}),)
    with pytest.raises(BudgetSpent):
        request = ModelRequest(ASK.messages, tools)
        await ask(MeteredModel(ScriptedModel([]), purse(10.0), DEAR_INPUT), request)
