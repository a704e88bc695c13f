import time

import pytest

from tests.unit.cli.sessions.conftest import DAY


@pytest.fixture
def found(hermes):
    """The ids of the sessions a search finds."""

    def search(*words):
        outcome = hermes("search", *words, "--json")
        assert outcome.code == 0, outcome.err
        return [hit["session_id"] for hit in outcome.document]

    return search


def test_words_are_found_with_what_was_said_around_them(hermes):
    first, *rest = hermes("search", "zebra").out.splitlines()
    assert first.startswith("20260102_bbbb  telegram  0s ago")
    assert rest[0] == "  user: what is a >>>zebra<<<?"
    assert rest[1] == "  assistant: a striped animal"


def test_a_terminal_shows_the_match_in_bold(hermes):
    assert "what is a \x1b[1mzebra\x1b[0m?" in hermes("search", "zebra", typed="").out


def test_a_search_can_be_narrowed(hermes, found):
    hermes.add("old", "a zebra", started_at=time.time() - 40 * DAY)
    assert sorted(found("zebra")) == ["20260102_bbbb", "old"]
    assert found("zebra", "--source", "telegram") == ["20260102_bbbb"]
    assert found("zebra", "--session", "old") == ["old"]
    assert found("zebra", "--since", "7d") == ["20260102_bbbb"]
    assert found("zebra", "--until", "7d") == ["old"]
    assert found("zebra", "--limit", "1") == ["20260102_bbbb"]
    assert found("animal", "--role", "user") == []
    assert found("striped", "animal", "--role", "assistant") == ["20260102_bbbb"]
    assert found("zebra NOT what") == ["old"]


def test_a_date_as_an_end_includes_that_day(hermes, found):
    noon = time.mktime((2026, 3, 5, 12, 0, 0, 0, 0, -1))
    hermes.add("march", "a giraffe", started_at=noon)
    assert found("giraffe", "--since", "2026-03-05", "--until", "2026-03-05") == ["march"]
    assert found("giraffe", "--since", "2026-03-06") == []
    assert found("giraffe", "--until", "2026-03-04") == []
    assert found("giraffe", "--since", "2026-03-05T11:59", "--until", "2026-03-05 12:01") == [
        "march"
    ]


def test_nothing_found_is_no_error(hermes):
    assert hermes("search", "hippopotamus")[:2] == (0, "nothing found\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["  "], "nothing to look for"),
        (['"'], "no word in it"),
        (["zebra", "--since", "yesterdayish"], "'yesterdayish' is neither a date such as"),
        (["zebra", "--since", "2026-02-30"], "neither a date"),
        (["zebra", "--until", "0001-01-01"], "neither a date"),
        (["zebra", "--since", "999999999999d"], "neither a date"),
        (["zebra", "--since", "2026-02-02", "--until", "2026-01-01"], "later than"),
        (["zebra", "--limit", "0"], "not a number from 1 up"),
        (["zebra", "--role", "king"], "--role"),
        (["zebra", "--session", "nobody"], "there is no session nobody"),
    ],
)
def test_wrong_input_is_a_clear_error(hermes, words, said):
    outcome = hermes("search", *words)
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err
