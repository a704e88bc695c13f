"""Counting tokens and money."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.model import FREE, LongPrompts, Price, Usage

counts = st.integers(0, 10**9)
usages = st.builds(Usage, counts, counts, counts, counts, counts)
PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


def test_the_prompt_is_everything_the_model_read():
    usage = Usage(input=10, output=5, cache_read=100, cache_write=20, reasoning=3)
    assert (usage.prompt, usage.total) == (130, 135)


@given(usages, usages)
def test_usage_adds_up(one, two):
    both = one + two
    assert both.total == one.total + two.total
    assert both.reasoning == one.reasoning + two.reasoning
    assert both == two + one


@given(usages)
def test_no_usage_adds_nothing(usage):
    assert usage + Usage() == usage


def test_each_kind_of_token_has_its_price():
    million = 1_000_000
    assert PRICE.cost(Usage(input=million)) == 3.0
    assert PRICE.cost(Usage(output=million)) == 15.0
    assert PRICE.cost(Usage(cache_read=million)) == 0.3
    assert PRICE.cost(Usage(cache_write=million)) == 3.75


def test_reasoning_is_paid_once_as_output():
    assert PRICE.cost(Usage(output=100, reasoning=100)) == PRICE.cost(Usage(output=100))


@given(usages, usages)
def test_the_cost_of_a_sum_is_the_sum_of_costs(one, two):
    assert PRICE.cost(one + two) == pytest.approx(PRICE.cost(one) + PRICE.cost(two))
    assert FREE.cost(one) == 0


def test_a_long_prompt_costs_more_for_the_whole_call():
    price = Price(1, 10, 0.1, 1.25, long=LongPrompts(over=100, input=2, output=1.5))
    short = Usage(input=50, cache_read=50, output=10)
    long = Usage(input=51, cache_read=50, output=10)
    assert price.cost(short) == pytest.approx((50 + 5 + 100) / 1e6)
    assert price.cost(long) == pytest.approx((102 + 10 + 150) / 1e6)
