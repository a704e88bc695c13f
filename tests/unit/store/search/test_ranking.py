import itertools

from hermes.store.search import rank

NOW = 1_000_000_000.0
DAY = 86400.0


def candidate(id_=1, role="user", days=0.0, relevance=1.0):
    return (id_, "s", role, NOW - days * DAY, relevance)


def order(*candidates):
    return [found[0] for found in rank(candidates, NOW)]


def test_recent_comes_before_old():
    assert order(candidate(1, days=300), candidate(2, days=1), candidate(3, days=40)) == [2, 3, 1]


def test_a_user_comes_before_the_assistant_and_a_tool_last():
    roles = ("tool", "assistant", "user", "session_meta")
    assert order(*(candidate(n, role) for n, role in enumerate(roles))) == [2, 1, 3, 0]


def test_a_better_match_comes_first():
    assert order(candidate(1, relevance=0.5), candidate(2, relevance=1.0)) == [2, 1]


def test_a_much_better_match_is_worth_more_than_being_recent_or_a_user():
    assert order(candidate(1, relevance=0.1), candidate(2, "tool", 1000, 1.0)) == [2, 1]


def test_equals_stay_in_the_order_they_come_in():
    ancient = [candidate(n, days=100_000) for n in (3, 1, 2)]
    for arrangement in itertools.permutations(ancient):
        assert order(*arrangement) == [found[0] for found in arrangement]


def test_a_time_in_the_future_is_as_good_as_now():
    assert order(candidate(1, days=-5), candidate(2, days=0)) == [1, 2]
    assert order(candidate(1, days=-5), candidate(2, days=0, relevance=1.01)) == [2, 1]
