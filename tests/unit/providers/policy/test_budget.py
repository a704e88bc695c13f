"""Caps on money: by turn, session, job and day, kept also by calls made at the same time."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.config.edit import assign
from hermes.core.errors import BudgetSpent, ServerFault, StreamCut
from hermes.core.messages import Assistant, Image, System, Text, Thinking, ToolCall, User
from hermes.core.model import (
    FREE,
    IMAGE_TOKENS,
    ModelRequest,
    Price,
    Reply,
    TextDelta,
    ToolSpec,
    Usage,
    message_tokens,
    tools_tokens,
)
from hermes.core.testing import ScriptedModel, Step
from hermes.providers.endpoints import ModelProfile
from hermes.providers.policy.budget import (
    DEFAULT_MAX_OUTPUT,
    Budget,
    BudgetLimits,
    DailySpend,
    MeteredModel,
    format_usd,
)
from tests.unit.providers.hand_clock import NOON, HandClock
from tests.unit.providers.policy.parts import ASK, MemoryLedger, ask, ask_until_delta


class Wallet:
    """A purse with its ledger, whose calls are recorded as the agent's loop records them."""

    def __init__(self, clock=None, ledger=None, zone=None, **limits: float) -> None:
        self.clock = clock or HandClock()
        self.ledger = ledger or MemoryLedger()
        self.budget = Budget(BudgetLimits(**limits), self.ledger, "s", self.clock, zone=zone)

    async def spend(self, usd: float) -> None:
        self.budget.settle(await self.budget.reserve(usd), usd)
        self.ledger.record(usd, at=self.clock.now())

    async def refusal(self, usd: float) -> BudgetSpent:
        with pytest.raises(BudgetSpent) as caught:
            await self.budget.reserve(usd)
        return caught.value


async def test_the_refusal_says_which_cap_what_is_spent_and_what_to_do():
    wallet = Wallet(turn=0.5)
    await wallet.spend(0.48)
    error = await wallet.refusal(0.0312)
    assert str(error) == (
        "budget.turn_usd allows $0.50 for one turn: $0.48 is spent and the next call may cost "
        "$0.0312"
    )
    assert error.hint == "`hermes config set budget.turn_usd N` changes the cap"


async def test_running_calls_count_and_are_named():
    wallet = Wallet(turn=1.0)
    first = await wallet.budget.reserve(0.75)
    assert "$0.75 is reserved for running calls" in str(await wallet.refusal(0.5))
    wallet.budget.release(first)
    await wallet.budget.reserve(0.5)


async def test_calls_made_at_the_same_time_cannot_overshoot_together():
    wallet = Wallet(turn=1.0, session=1.0, day=1.0)
    asked = [wallet.budget.reserve(0.3) for _ in range(10)]
    granted = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(one, BudgetSpent) for one in granted].count(False) == 3


async def test_a_reservation_ends_once():
    wallet = Wallet(turn=1.0)
    reservation = await wallet.budget.reserve(0.3)
    wallet.budget.settle(reservation, 0.1)
    with pytest.raises(ValueError, match="ended already"):
        wallet.budget.release(reservation)


async def test_less_is_granted_down_to_what_is_useful():
    wallet = Wallet(turn=1.0)
    await wallet.spend(0.6)
    assert (await wallet.budget.reserve(0.8, least=0.2)).usd == pytest.approx(0.4)
    with pytest.raises(BudgetSpent):
        await wallet.budget.reserve(0.8, least=0.2)


async def test_a_new_turn_has_its_own_money():
    wallet = Wallet(turn=1.0)
    await wallet.spend(0.9)
    await wallet.refusal(0.2)
    wallet.budget.begin_turn()
    await wallet.spend(0.9)


async def test_a_call_from_the_turn_before_does_not_count_in_the_new_one():
    wallet = Wallet(turn=1.0)
    slow = await wallet.budget.reserve(0.9)
    wallet.budget.begin_turn()
    wallet.budget.settle(slow, 0.9)
    await wallet.spend(0.9)


async def test_a_resumed_session_remembers_what_it_cost():
    ledger = MemoryLedger()
    ledger.record(0.9, session_id="s", at=NOON - timedelta(days=30))
    ledger.record(5.0, session_id="another")
    wallet = Wallet(session=1.0, ledger=ledger)
    assert "$1.00 for one session: $0.90 is spent" in str(await wallet.refusal(0.2))
    await wallet.spend(0.1)


async def test_the_session_is_counted_along_without_asking_the_store_for_each_call():
    wallet = Wallet(session=1.0)
    for _ in range(4):
        await wallet.spend(0.25)
    await wallet.refusal(0.01)
    assert wallet.ledger.reads == 1


async def test_spending_of_another_process_counts_from_the_next_turn():
    wallet = Wallet(session=1.0)
    await wallet.spend(0.3)
    wallet.ledger.record(0.5)
    await wallet.budget.reserve(0.1)
    wallet.budget.begin_turn()
    assert "$0.80 is spent" in str(await wallet.refusal(0.2))


async def test_a_call_that_is_not_recorded_yet_is_neither_lost_nor_counted_twice():
    wallet = Wallet(session=1.0, day=1.0)
    await wallet.spend(0.1)
    wallet.budget.settle(await wallet.budget.reserve(0.4), 0.4)
    wallet.budget.begin_turn()
    assert "$0.50 is spent" in str(await wallet.refusal(0.6))
    wallet.ledger.record(0.4)
    wallet.budget.begin_turn()
    assert "$0.50 is spent" in str(await wallet.refusal(0.6))


async def test_other_spending_counts_while_an_own_call_is_unrecorded():
    wallet = Wallet(day=1.0)
    await wallet.spend(0.1)
    wallet.ledger.record(0.3, session_id="another")
    wallet.budget.settle(await wallet.budget.reserve(0.2), 0.2)
    assert "$0.60 is spent" in str(await wallet.refusal(0.5))


async def test_a_broken_reply_counts_though_it_is_never_recorded():
    wallet = Wallet(day=1.0)
    wallet.budget.settle(await wallet.budget.reserve(0.4), 0.4, recorded=False)
    wallet.ledger.record(0.5, session_id="another")
    assert "$0.90 is spent" in str(await wallet.refusal(0.2))


async def test_a_job_has_its_own_cap():
    budget = Budget(BudgetLimits(session=2.0, job=1.0), MemoryLedger(), "s", HandClock(), job=True)
    budget.settle(await budget.reserve(0.9), 0.9)
    with pytest.raises(BudgetSpent, match=r"budget\.job_usd allows \$1\.00 for one run of a job"):
        await budget.reserve(0.2)


@pytest.mark.parametrize("own", [1.0, None])
async def test_a_job_is_under_the_cap_of_sessions_too(own):
    limits = BudgetLimits(session=0.1, job=own)
    budget = Budget(limits, MemoryLedger(), "s", HandClock(), job=True)
    with pytest.raises(BudgetSpent, match=r"budget\.session_usd"):
        await budget.reserve(0.2)


async def test_the_cap_of_jobs_is_not_for_conversations():
    await Wallet(session=1.0, job=0.1).spend(0.9)


async def test_the_day_counts_every_session_of_every_process():
    wallet = Wallet(day=1.0)
    await wallet.spend(0.3)
    wallet.ledger.record(0.5, session_id="another")
    wallet.ledger.record(9.0, session_id="another", at=NOON - timedelta(days=1))
    assert "$1.00 for one day: $0.80 is spent" in str(await wallet.refusal(0.3))


async def test_the_day_is_the_users_calendar_day():
    tokyo = timezone(timedelta(hours=9))
    clock = HandClock(datetime(2026, 3, 5, 14, 0, tzinfo=UTC))  # 23:00 in Tokyo
    wallet = Wallet(clock, day=1.0, zone=tokyo)
    wallet.ledger.record(0.5, at=datetime(2026, 3, 4, 14, 59, tzinfo=UTC))  # the day before
    await wallet.spend(0.9)
    await wallet.refusal(0.2)
    clock.pass_(3600)
    await wallet.spend(0.9)
    await wallet.refusal(0.2)


async def test_a_call_over_midnight_counts_in_the_new_day():
    clock = HandClock(datetime(2026, 3, 5, 23, 59, tzinfo=UTC))
    wallet = Wallet(clock, day=1.0)
    late = await wallet.budget.reserve(0.9)
    clock.pass_(120)
    await wallet.refusal(0.2)
    wallet.budget.settle(late, 0.9)
    await wallet.refusal(0.2)


async def test_sessions_of_one_process_share_the_day():
    ledger, clock = MemoryLedger(), HandClock()
    day = DailySpend(1.0, ledger, clock)
    one, two = (Budget(BudgetLimits(), ledger, name, clock, day=day) for name in ("one", "two"))
    await one.reserve(0.7)
    with pytest.raises(BudgetSpent):
        await two.reserve(0.7)


def test_without_caps_nothing_is_limited():
    assert not Wallet().budget.is_limited
    assert Wallet(day=1.0).budget.is_limited


@pytest.mark.parametrize(
    ("usd", "words"),
    [(0, "$0.00"), (1.5, "$1.50"), (0.0312, "$0.0312"), (1e-6, "less than $0.0001")],
)
def test_dollars_are_written_so_that_nothing_is_hidden(usd, words):
    assert format_usd(usd) == words


CAPS = {"turn": 1.0, "session": 1.5, "day": 2.0}
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), st.floats(0, 0.6)),
        st.tuples(st.just("settle"), st.floats(0, 1)),
        st.tuples(st.just("break off"), st.floats(0, 1)),
        st.tuples(st.just("release"), st.just(0.0)),
        st.tuples(st.just("record"), st.just(0.0)),
        st.tuples(st.just("another process spends"), st.floats(0, 0.3)),
        st.tuples(st.just("new turn"), st.just(0.0)),
    ),
    max_size=40,
)


class Play:
    """Runs events in any order and compares the true spending with the budget."""

    def __init__(self) -> None:
        self.wallet = Wallet(**CAPS)
        self.open: list = []
        self.unrecorded: list[float] = []
        self.turn = self.session = self.elsewhere = 0.0

    async def move(self, what: str, number: float) -> None:
        budget = self.wallet.budget
        if what == "reserve":
            await self.reserve(number)
        elif what == "record" and self.unrecorded:
            self.wallet.ledger.record(self.unrecorded.pop(0))
        elif what == "another process spends":
            self.elsewhere += number
            self.wallet.ledger.record(number, session_id="another")
        elif what == "new turn" and not self.open:
            budget.begin_turn()
            self.turn = 0.0
        elif what == "release" and self.open:
            budget.release(self.open.pop(0))
        elif what in ("settle", "break off") and self.open:
            reservation = self.open.pop()
            cost = reservation.usd * number
            budget.settle(reservation, cost, recorded=what == "settle")
            self.turn += cost
            self.session += cost
            if what == "settle":
                self.unrecorded.append(cost)

    async def reserve(self, usd: float) -> None:
        held = usd + sum(reservation.usd for reservation in self.open)
        spent = {"turn": self.turn, "session": self.session}
        spent["day"] = self.session + self.elsewhere
        over = [name for name, cap in CAPS.items() if spent[name] + held > cap]
        try:
            self.open.append(await self.wallet.budget.reserve(usd))
        except BudgetSpent:
            assert over, "refused although every cap has room"
        else:
            assert not [name for name in over if spent[name] + held > CAPS[name] + 1e-6] or (
                over == ["day"] and self.unrecorded
            ), f"granted although {over} is used up"

    def check(self) -> None:
        assert self.turn <= CAPS["turn"] + 1e-6
        assert self.session <= CAPS["session"] + 1e-6


@given(MOVES)
def test_no_order_of_calls_spends_more_than_a_cap_or_is_refused_without_need(moves):
    async def run() -> None:
        play = Play()
        for what, number in moves:
            await play.move(what, number)
            play.check()

    asyncio.run(run())


# A dollar for a thousand tokens of output; what is read costs next to nothing.
DEAR_OUTPUT = ModelProfile(price=Price(0.001, 1000, 0.001, 0.001), max_output=4000)
DEAR_INPUT = ModelProfile(price=Price(1000, 0, 1000, 2000), max_output=4000)


def budget(cap: float | None) -> Budget:
    return Budget(BudgetLimits(turn=cap), MemoryLedger(), "s", HandClock())


async def left(of: Budget) -> float:
    """All that can still be set aside."""
    reservation = await of.reserve(1e9, least=0.0)
    of.release(reservation)
    return reservation.usd


def cost(output: int) -> Step:
    return Step((Text("fine"),), usage=Usage(input=0, output=output))


@pytest.mark.parametrize(("cap", "price"), [(None, None), (0.0, FREE)])
async def test_a_free_model_or_a_call_without_a_cap_is_passed_on_as_it_is(cap, price):
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, budget(cap), ModelProfile(price=price)))
    assert inner.requests == [ASK]


async def test_real_cost_replaces_the_reservation():
    money = budget(10.0)
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

    async def call(self, request, emit):
        return Reply(Assistant((Text("fine"),)), Usage(output=1000), "priced", cost_usd=3.0)


async def test_the_cost_the_endpoint_reports_wins():
    money = budget(10.0)
    await ask(MeteredModel(Priced(), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(7.0)


async def test_a_reply_without_counts_is_charged_by_its_length():
    money = budget(10.0)
    step = Step((Text("x" * 3000),), usage=Usage())
    await ask(MeteredModel(ScriptedModel([step]), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(9.0, abs=0.01)


async def test_a_reply_is_shortened_to_what_can_be_paid():
    money = budget(1.0)
    with ScriptedModel([cost(output=900)]) as inner:
        await ask(MeteredModel(inner, money, DEAR_OUTPUT))
    [sent] = inner.requests
    assert 990 <= sent.max_tokens <= 1000
    assert await left(money) == pytest.approx(0.1)


async def test_a_reply_too_short_to_be_useful_is_not_paid_for():
    with ScriptedModel([]) as inner, pytest.raises(BudgetSpent) as caught:
        await ask(MeteredModel(inner, budget(0.25), DEAR_OUTPUT))
    assert "budget.turn_usd allows $0.25 for one turn: $0.00 is spent" in str(caught.value)
    assert "the next call may cost $0.256" in str(caught.value)


async def test_a_short_reply_that_was_asked_for_is_useful():
    request = ModelRequest(ASK.messages, max_tokens=100)
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, budget(0.5), DEAR_OUTPUT), request)
    assert inner.requests == [request]


async def test_a_model_whose_longest_reply_is_not_known_is_asked_for_no_more_than_was_set_aside():
    profile = ModelProfile(price=DEAR_OUTPUT.price)
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, budget(100.0), profile))
    assert inner.requests[0].max_tokens == DEFAULT_MAX_OUTPUT


async def test_the_dearest_way_to_read_the_request_is_assumed():
    tokens = 10_000
    request = ModelRequest((User.say("x" * 3 * tokens),))
    with ScriptedModel(["fine"]) as inner:
        await ask(MeteredModel(inner, budget(2.0 * tokens / 1000 * 1.1), DEAR_INPUT), request)
    with ScriptedModel([]) as inner, pytest.raises(BudgetSpent):
        await ask(MeteredModel(inner, budget(2.0 * tokens / 1000), DEAR_INPUT), request)


async def test_calls_at_the_same_time_share_what_is_left():
    money = budget(1.2)
    inner = ScriptedModel(lambda _: cost(output=600))
    model = MeteredModel(inner, money, DEAR_OUTPUT)
    ends = await asyncio.gather(*[ask(model) for _ in range(5)], return_exceptions=True)
    assert sum(isinstance(end, BudgetSpent) for end in ends) == 4
    assert await left(money) == pytest.approx(0.6)


async def test_an_unknown_price_stops_the_call_and_the_hint_gives_it():
    inner = ScriptedModel([], name="acme/model-4.5", provider="openrouter")
    with pytest.raises(BudgetSpent, match=r"price of acme/model-4\.5 at openrouter is not") as c:
        await ask(MeteredModel(inner, budget(1.0), ModelProfile()))
    [key, value] = c.value.hint.split("`hermes config set ")[1].rstrip("`").split("' '")
    assignment = assign(key.strip("'"), value.strip("'"))
    assert assignment.parts == ("providers", "openrouter", "models", "acme/model-4.5", "price")
    assert assignment.value == {"input": 3, "output": 15}


async def test_a_call_that_failed_before_it_answered_costs_nothing():
    money = budget(1.0)
    with pytest.raises(ServerFault):
        await ask(MeteredModel(ScriptedModel([ServerFault("down")]), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(1.0)


class CutOff:
    name, provider = "cut", "testing"

    async def call(self, request, emit):
        emit(TextDelta("x" * 600))
        await asyncio.sleep(0)
        raise StreamCut("the connection ended")


async def test_received_part_of_a_broken_reply_is_charged():
    money = budget(1.0)
    with pytest.raises(StreamCut):
        await ask(MeteredModel(CutOff(), money, DEAR_OUTPUT))
    assert await left(money) == pytest.approx(0.8, abs=0.001)


async def test_cost_of_a_broken_reply_does_not_hide_other_spending():
    ledger, clock = MemoryLedger(), HandClock()
    money = Budget(BudgetLimits(day=1.0), ledger, "s", clock)
    with pytest.raises(StreamCut):
        await ask(MeteredModel(CutOff(), money, DEAR_OUTPUT))
    ledger.record(0.5, session_id="another", at=clock.now())
    assert await left(money) == pytest.approx(0.3, abs=0.001)


async def test_received_part_of_a_stopped_reply_is_charged():
    money = budget(1.0)
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
        await ask(MeteredModel(ScriptedModel([]), budget(10.0), DEAR_INPUT), request)
