"""Caps on money: by turn, session, job and day, kept also by calls made at the same time."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import BudgetSpent
from hermes.providers.policy.budget import Budget, BudgetLimits, DailySpend, format_usd
from tests.unit.providers.policy.parts import NOON, HandClock, MemoryLedger


class Wallet:
    """A purse with its ledger, whose calls are recorded as the agent's loop records them."""

    def __init__(self, clock=None, ledger=None, zone=None, **limits: float) -> None:
        self.clock = clock or HandClock()
        self.ledger = ledger or MemoryLedger()
        self.purse = Budget(BudgetLimits(**limits), self.ledger, "s", self.clock, zone=zone)

    async def spend(self, usd: float) -> None:
        self.purse.settle(await self.purse.reserve(usd), usd)
        self.ledger.record(usd, at=self.clock.now())

    async def refusal(self, usd: float) -> BudgetSpent:
        with pytest.raises(BudgetSpent) as caught:
            await self.purse.reserve(usd)
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


async def test_calls_under_way_count_and_are_told():
    wallet = Wallet(turn=1.0)
    first = await wallet.purse.reserve(0.75)
    assert "$0.75 is reserved for running calls" in str(await wallet.refusal(0.5))
    wallet.purse.release(first)
    await wallet.purse.reserve(0.5)


async def test_calls_made_at_the_same_time_cannot_overshoot_together():
    wallet = Wallet(turn=1.0, session=1.0, day=1.0)
    asked = [wallet.purse.reserve(0.3) for _ in range(10)]
    granted = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(one, BudgetSpent) for one in granted].count(False) == 3


async def test_a_reservation_ends_once():
    wallet = Wallet(turn=1.0)
    reservation = await wallet.purse.reserve(0.3)
    wallet.purse.settle(reservation, 0.1)
    with pytest.raises(ValueError, match="ended already"):
        wallet.purse.release(reservation)


async def test_less_is_granted_down_to_what_is_useful():
    wallet = Wallet(turn=1.0)
    await wallet.spend(0.6)
    assert (await wallet.purse.reserve(0.8, least=0.2)).usd == pytest.approx(0.4)
    with pytest.raises(BudgetSpent):
        await wallet.purse.reserve(0.8, least=0.2)


async def test_a_new_turn_has_its_own_money():
    wallet = Wallet(turn=1.0)
    await wallet.spend(0.9)
    await wallet.refusal(0.2)
    wallet.purse.begin_turn()
    await wallet.spend(0.9)


async def test_a_call_from_the_turn_before_does_not_count_in_the_new_one():
    wallet = Wallet(turn=1.0)
    slow = await wallet.purse.reserve(0.9)
    wallet.purse.begin_turn()
    wallet.purse.settle(slow, 0.9)
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


async def test_what_another_process_spent_in_the_session_is_seen_with_the_next_turn():
    wallet = Wallet(session=1.0)
    await wallet.spend(0.3)
    wallet.ledger.record(0.5)
    await wallet.purse.reserve(0.1)
    wallet.purse.begin_turn()
    assert "$0.80 is spent" in str(await wallet.refusal(0.2))


async def test_a_call_that_is_not_recorded_yet_is_neither_lost_nor_counted_twice():
    wallet = Wallet(session=1.0, day=1.0)
    await wallet.spend(0.1)
    wallet.purse.settle(await wallet.purse.reserve(0.4), 0.4)
    wallet.purse.begin_turn()
    assert "$0.50 is spent" in str(await wallet.refusal(0.6))
    wallet.ledger.record(0.4)
    wallet.purse.begin_turn()
    assert "$0.50 is spent" in str(await wallet.refusal(0.6))


async def test_what_others_spent_is_kept_in_mind_while_a_call_of_ours_is_not_recorded_yet():
    wallet = Wallet(day=1.0)
    await wallet.spend(0.1)
    wallet.ledger.record(0.3, session_id="another")
    wallet.purse.settle(await wallet.purse.reserve(0.2), 0.2)
    assert "$0.60 is spent" in str(await wallet.refusal(0.5))


async def test_a_broken_reply_counts_though_it_is_never_recorded():
    wallet = Wallet(day=1.0)
    wallet.purse.settle(await wallet.purse.reserve(0.4), 0.4, recorded=False)
    wallet.ledger.record(0.5, session_id="another")
    assert "$0.90 is spent" in str(await wallet.refusal(0.2))


async def test_a_job_has_its_own_cap():
    purse = Budget(BudgetLimits(session=2.0, job=1.0), MemoryLedger(), "s", HandClock(), job=True)
    purse.settle(await purse.reserve(0.9), 0.9)
    with pytest.raises(BudgetSpent, match=r"budget\.job_usd allows \$1\.00 for one run of a job"):
        await purse.reserve(0.2)


async def test_a_job_is_under_the_cap_of_sessions_too():
    purse = Budget(BudgetLimits(session=0.1, job=1.0), MemoryLedger(), "s", HandClock(), job=True)
    with pytest.raises(BudgetSpent, match=r"budget\.session_usd"):
        await purse.reserve(0.2)


async def test_the_cap_of_jobs_is_not_for_conversations():
    await Wallet(session=1.0, job=0.1).spend(0.9)


async def test_a_job_without_a_cap_of_its_own_is_a_session():
    purse = Budget(BudgetLimits(session=0.1), MemoryLedger(), "s", HandClock(), job=True)
    with pytest.raises(BudgetSpent, match=r"budget\.session_usd"):
        await purse.reserve(0.2)


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
    late = await wallet.purse.reserve(0.9)
    clock.pass_(120)
    await wallet.refusal(0.2)
    wallet.purse.settle(late, 0.9)
    await wallet.refusal(0.2)


async def test_sessions_of_one_process_share_the_day():
    ledger, clock = MemoryLedger(), HandClock()
    day = DailySpend(1.0, ledger, clock)
    one, two = (Budget(BudgetLimits(), ledger, name, clock, day=day) for name in ("one", "two"))
    await one.reserve(0.7)
    with pytest.raises(BudgetSpent):
        await two.reserve(0.7)


def test_without_caps_nothing_is_limited():
    assert not Wallet().purse.is_limited
    assert Wallet(day=1.0).purse.is_limited


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
    """Any order of events, with what is true noted beside what the purse believes."""

    def __init__(self) -> None:
        self.wallet = Wallet(**CAPS)
        self.open: list = []
        self.unrecorded: list[float] = []
        self.turn = self.session = self.elsewhere = 0.0

    async def move(self, what: str, number: float) -> None:
        purse = self.wallet.purse
        if what == "reserve":
            await self.reserve(number)
        elif what == "record" and self.unrecorded:
            self.wallet.ledger.record(self.unrecorded.pop(0))
        elif what == "another process spends":
            self.elsewhere += number
            self.wallet.ledger.record(number, session_id="another")
        elif what == "new turn" and not self.open:
            purse.begin_turn()
            self.turn = 0.0
        elif what == "release" and self.open:
            purse.release(self.open.pop(0))
        elif what in ("settle", "break off") and self.open:
            reservation = self.open.pop()
            cost = reservation.usd * number
            purse.settle(reservation, cost, recorded=what == "settle")
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
            self.open.append(await self.wallet.purse.reserve(usd))
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
