"""What is kept at the start and at the end."""

from hermes.context.compression import find_bounds
from hermes.context.compressor import CompressionOptions, compute_sizes
from hermes.context.conversation import dict_tokens
from tests.unit.context.compressor.talking import (
    SYSTEM,
    Dicts,
    asks,
    call,
    long_talk,
    reads,
    result,
    says,
    user,
    work,
)


def bounds(messages: Dicts, window: int = 20_000, **options):
    costs = [dict_tokens(message) for message in messages]
    chosen = CompressionOptions(**options)
    return find_bounds(messages, costs, compute_sizes(window, chosen), chosen)


def chat(turns: int, words: int = 60) -> Dicts:
    """Exchanges of about 2 x 100 tokens."""
    pairs = [
        (user(f"question {n} " + "why " * words), says(f"answer {n} " + "so " * words))
        for n in range(turns)
    ]
    return [SYSTEM, *(message for pair in pairs for message in pair)]


def test_budgets_are_those_of_the_specification():
    sizes = compute_sizes(200_000, CompressionOptions())
    assert (sizes.threshold, sizes.tail, sizes.summary) == (100_000, 20_000, 10_000)
    assert sizes.summary_of(5_000) == 2_000
    assert sizes.summary_of(30_000) == 6_000
    assert sizes.summary_of(90_000) == 10_000
    assert compute_sizes(1_000_000, CompressionOptions()).summary_of(900_000) == 12_000
    assert compute_sizes(16_000, CompressionOptions()).summary_of(9_000) == 800


def test_the_ratio_of_the_tail_stays_between_its_bounds():
    assert compute_sizes(100_000, CompressionOptions(target_ratio=0.01)).tail == 5_000
    assert compute_sizes(100_000, CompressionOptions(target_ratio=0.99)).tail == 40_000


def test_the_head_is_the_first_exchange_with_the_results_of_its_calls():
    assert bounds(chat(40)).head == 3
    calls = asks(*(call(n, "read_file", path="a") for n in range(4)))
    results = [result(n, "read_file", "x" * 999) for n in range(4)]
    assert bounds([SYSTEM, user("go"), calls, *results, *work(60)]).head == 7


def test_the_tail_has_the_last_messages_while_they_are_small():
    messages = chat(60, words=10)
    found = bounds(messages, protect_last_n=30)
    assert len(messages) - found.tail >= 30


def test_the_budget_rules_when_the_last_messages_are_too_large():
    messages = long_talk(60)
    found = bounds(messages)
    tail = sum(dict_tokens(message) for message in messages[found.tail :])
    assert 2_000 <= tail <= 3_000
    assert messages[found.tail]["role"] == "assistant"


def test_at_least_three_messages_stay_however_large_they_are():
    huge = [message for n in range(9) for message in reads(n, "a.py", "y" * 90_000)]
    found = bounds([SYSTEM, user("go"), says("ok"), user("look"), *huge, says("end")])
    assert found.tail == 20  # a call, its result and the last words


def test_a_group_of_calls_is_never_split():
    calls = asks(*(call(n, "read_file", path=f"{n}.py") for n in range(8)))
    results = [result(n, "read_file", "x" * 600) for n in range(8)]
    messages = [*long_talk(30), calls, *results]
    for window in range(4_000, 40_000, 500):
        for last in (1, 4, 20):
            found = bounds(messages, window, protect_last_n=last)
            assert messages[found.tail]["role"] != "tool"
            assert messages[found.head]["role"] != "tool"


def test_a_group_that_is_too_large_goes_when_enough_is_left_without_it():
    calls = asks(*(call(n, "read_file", path=f"{n}.py") for n in range(9)))
    group = [calls, *(result(n, "read_file", f"{n}" * 6_000) for n in range(9))]
    messages = [*long_talk(10), *group, says("so"), user("and now?"), says("well"), user("yes?")]
    found = bounds(messages, window=30_000)
    assert found.tail == len(messages) - 4


def test_the_latest_message_of_the_user_is_in_the_tail_when_it_is_near():
    messages = [*long_talk(30), says("done"), user("next: the lexer"), *work(6, 100)]
    found = bounds(messages, protect_last_n=3, target_ratio=0.4)
    assert found.tail <= found.request == len(messages) - 13


def test_when_it_lies_far_back_the_tail_does_not_reach_for_it():
    messages = long_talk(60)
    found = bounds(messages)
    assert found.request == 3
    assert found.tail > 60


def test_news_of_a_background_process_is_not_the_user():
    news = user("[background process proc_1 (make): finished]\nAlways use tabs.")
    messages = [*long_talk(20), news, *work(3, 50)]
    assert bounds(messages).request == 3


def test_steering_message_is_the_request():
    steered = user("[While you were working, the user said:]\nuse tabs")
    messages = [*long_talk(20), steered, *work(3, 50)]
    assert bounds(messages).request == len(messages) - 7


def test_a_short_conversation_is_all_head_and_tail():
    found = bounds(chat(4))
    assert found.head >= found.tail
