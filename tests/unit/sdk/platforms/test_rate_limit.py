"""Rate limits of a platform and its chats."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.sdk.platforms import RateLimit, RateLimiter
from hermes.sdk.platforms.outbound import PRUNE_AT
from tests.unit.gateway.hand_clock import HandClock, settle

MANY = RateLimit(1000, 1.0)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


async def test_calls_go_through_until_the_chat_is_full(clock) -> None:
    buckets = RateLimiter(RateLimit(2, 10.0), MANY, clock)
    for _ in range(2):
        await buckets.acquire("a")
    assert not buckets.is_ready("a")
    assert buckets.is_ready("b")
    waiting = asyncio.create_task(buckets.acquire("a"))
    await clock.advance(9.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert waiting.done()


async def test_the_platform_has_a_limit_over_all_chats(clock) -> None:
    buckets = RateLimiter(MANY, RateLimit(3, 1.0), clock)
    for chat in "abc":
        assert buckets.try_take(chat)
    assert not buckets.try_take("d")
    await clock.advance(1.0)
    assert buckets.try_take("d")


async def test_asking_takes_nothing(clock) -> None:
    buckets = RateLimiter(RateLimit(1, 10.0), MANY, clock)
    assert all(buckets.is_ready("a") for _ in range(5))
    assert buckets.try_take("a")


async def test_edit_is_skipped_when_no_token_is_free_or_a_send_waits(clock) -> None:
    buckets = RateLimiter(RateLimit(1, 10.0), MANY, clock)
    assert buckets.try_take("a")
    assert not buckets.try_take("a")
    waiting = asyncio.create_task(buckets.acquire("a"))
    await clock.advance(10.0)
    assert waiting.done()
    assert not buckets.try_take("a")


async def test_an_edit_leaves_room_for_sends(clock) -> None:
    buckets = RateLimiter(RateLimit(10, 60.0), MANY, clock)
    taken = sum(buckets.try_take("a", leave=3) for _ in range(10))
    assert taken == 7
    assert buckets.is_ready("a")
    small = RateLimiter(RateLimit(1, 60.0), MANY, clock)
    assert small.try_take("a", leave=3)


async def test_waiters_are_served_in_order(clock) -> None:
    buckets = RateLimiter(RateLimit(1, 1.0), MANY, clock)
    await buckets.acquire("a")
    served: list[int] = []

    async def call(number: int) -> None:
        await buckets.acquire("a")
        served.append(number)

    calls = [asyncio.create_task(call(number)) for number in range(3)]
    await clock.advance(1.5)
    assert served == [0]
    await clock.advance(2.0)
    assert served == [0, 1, 2]
    await asyncio.gather(*calls)


async def test_pause_of_the_platform_is_respected(clock) -> None:
    buckets = RateLimiter(MANY, MANY, clock)
    buckets.pause("a", 30.0)
    assert (buckets.is_ready("a"), buckets.is_ready("b")) == (False, True)
    await clock.advance(30.0)
    assert buckets.is_ready("a")


async def test_cancelled_waiter_does_not_block_the_others(clock) -> None:
    buckets = RateLimiter(RateLimit(1, 1.0), MANY, clock)
    await buckets.acquire("a")
    first, second = (asyncio.create_task(buckets.acquire("a")) for _ in range(2))
    await settle()
    first.cancel()
    await clock.advance(1.0)
    assert second.done()


async def test_idle_chats_are_forgotten_and_busy_ones_are_not(clock) -> None:
    buckets = RateLimiter(RateLimit(1, 1.0), RateLimit(10_000_000, 1.0), clock)
    buckets.pause("paused", 1e9)
    for number in range(10 * PRUNE_AT):
        assert buckets.try_take(f"chat {number}")
        clock.time += 0.1
    assert len(buckets) <= 2 * PRUNE_AT
    assert not buckets.is_ready("paused")


@given(st.lists(st.floats(0.0, 3.0), max_size=60), st.integers(1, 5))
def test_no_span_of_time_sees_more_calls_than_allowed(pauses, count) -> None:
    clock = HandClock(0.0)
    times: list[float] = []

    async def run() -> None:
        buckets = RateLimiter(RateLimit(count, 2.0), MANY, clock)
        for pause in pauses:
            clock.time += pause
            if buckets.try_take("a"):
                times.append(clock.time)

    asyncio.run(run())
    for start in times:
        assert sum(start <= time < start + 2.0 for time in times) <= count
