"""Searching messages: ranking, snippets and the search of both databases."""

import itertools
import sys

import msgspec
import pytest

from hermes.core.errors import UsageError
from hermes.store.records import Neighbour
from hermes.store.search import LENGTH, fold, matchers, parse_query, rank, snippet
from tests.unit.store.library import CORPUS, NOW

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


PLAIN = "lorem ipsum dolor sit amet " * 100


def show(content: str, query: str) -> str:
    return snippet(content, matchers(parse_query(query).wanted))


def test_matches_are_marked():
    cases = CORPUS["snippets"]
    assert [[text, query, show(text, query)] for text, query, _ in cases] == cases


def test_a_long_text_is_cut_between_words_around_the_match():
    shown = show(PLAIN + "the needle " + PLAIN, "needle")
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert ">>>needle<<<" in shown
    assert 200 <= len(shown) <= LENGTH + len("…>>><<<…")
    assert set(shown.strip("…").replace(">>>needle<<<", "the").split()) <= {*PLAIN.split(), "the"}


def test_nothing_is_marked_as_cut_at_the_ends_of_the_text():
    assert show("needle " + PLAIN, "needle").startswith(">>>needle<<< lorem")
    assert show(PLAIN + "needle", "needle").endswith("amet >>>needle<<<")
    assert show(PLAIN, "needle").startswith("lorem ipsum")
    assert show(PLAIN, "needle").endswith("…")


def test_the_place_with_the_most_terms_is_shown():
    text = f"red {PLAIN} blue {PLAIN} the red and the blue {PLAIN} red"
    assert ">>>red<<< and the >>>blue<<<" in show(text, "red blue")


def test_a_match_longer_than_the_snippet_is_cut():
    words = " ".join(f"w{number}" for number in range(200))
    shown = show(f"{PLAIN}{words} {PLAIN}", f'"{words}"')
    assert shown.startswith("…>>>w0 w1")
    assert shown.endswith("<<<…")
    assert len(shown) <= LENGTH + len("…>>><<<…")


@pytest.mark.parametrize("filler", ["lorem ipsum ", "señor água ", "漢字仮名 ", "ab"])
@pytest.mark.parametrize("where", [0, 65_000, 65_536, 65_700, 131_072, 400_000])
def test_a_match_is_found_anywhere_in_a_huge_text(filler, where):
    text = (filler * (1 + where // len(filler)))[:where]
    shown = show(f"{text} needle {filler * 1000}", "needle")
    assert ">>>needle<<<" in shown
    assert shown.count("needle") == 1


def test_a_word_is_not_mistaken_at_the_edge_of_a_slice():
    for shift in range(-8, 9):
        text = "x" * (65_536 - 240 + shift) + "needle " + "hay " * 40_000
        assert ">>>" not in show(text, "needle")
        text = "x " * ((65_536 + 240) // 2) + "y" * (10 + shift) + " needles " + "hay " * 40_000
        assert ">>>" not in show(text, "needle")


def test_folding_keeps_every_character_in_its_place():
    longer = [
        code
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000 and len(fold(chr(code))) != 1
    ]
    assert longer == []


def test_a_session_without_title_and_model(library):
    library.change("UPDATE sessions SET model = NULL, title = NULL")
    library.say("needle")
    (hit,) = library.search("needle")
    assert (hit.model, hit.title) == ("", "")


def test_context_is_the_message_before_and_after_in_the_same_session(library):
    library.session("other")
    library.say("before " + "x" * 300, role="assistant", at=10.0)
    library.say("elsewhere", session="other", at=10.5)
    library.say("needle", at=11.0)
    library.say("elsewhere too", session="other", at=11.5)
    library.say("after", role="tool", at=12.0)
    library.say("much later", at=13.0)
    (hit,) = library.search("needle")
    assert hit.context == (
        Neighbour("assistant", ("before " + "x" * 300)[:200]),
        Neighbour("tool", "after"),
    )


def test_messages_of_the_same_moment_are_neighbours_in_the_order_they_were_written(library):
    for text in ("one", "two", "needle", "four", "five"):
        library.say(text, at=10.0)
    (hit,) = library.search("needle")
    assert [neighbour.content for neighbour in hit.context] == ["two", "four"]


def test_a_neighbour_without_text(library):
    library.say(None, role="assistant", at=1.0)
    library.say("needle", at=2.0)
    assert library.search("needle")[0].context == (Neighbour("assistant", ""),)


def test_a_message_with_an_image_shows_its_text(library):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 900}}
    for text in ("see the needle", "and this"):
        parts = [image, {"type": "text", "text": text}]
        library.say(msgspec.json.encode(parts).decode())
    (hit,) = library.search("needle")
    assert hit.snippet == "see the >>>needle<<<"
    assert hit.context == (Neighbour("user", "and this"),)


def test_a_copy_in_a_branched_session_shows_once(library):
    library.session("branch")
    for number in range(30):
        library.say(f"needle {number}", at=NOW + number)
    for number in range(30):
        library.say(f"needle {number}", at=NOW + number, session="branch")
    pages = [library.search("needle", limit=20, offset=offset) for offset in (0, 20, 40)]
    assert [len(page) for page in pages] == [20, 10, 0]
    assert len({hit.snippet for page in pages for hit in page}) == 30


def test_different_messages_of_the_same_moment_all_show(library):
    library.say("needle one", at=NOW)
    library.say("needle two", at=NOW)
    library.say("needle one", role="assistant", at=NOW)
    library.say("needle one", at=NOW + 1)
    assert len(library.search("needle")) == 4


def test_more_hits_than_fit_into_one_statement(library):
    for number in range(1200):
        library.say(f"needle {number}", at=NOW + number)
    assert len(library.search("needle", limit=1200)) == 1200


@pytest.mark.parametrize("query", ["", "  ", '"', "OR", "NOT AND", "!?", "***", "🎉"])
def test_a_query_with_nothing_to_look_for_is_refused_with_a_hint(library, query):
    with pytest.raises(UsageError) as caught:
        library.search(query)
    assert "nothing to search for" in str(caught.value)
    assert '"a phrase"' in caught.value.hint
    assert "OR" in caught.value.hint
    assert "NOT" in caught.value.hint
    assert "*" in caught.value.hint


@pytest.mark.parametrize("page", [{"limit": 0}, {"limit": -1}, {"offset": -1}])
def test_a_page_that_cannot_be_is_refused(library, page):
    with pytest.raises(UsageError):
        library.search("needle", **page)


def test_neighbours_are_found_by_the_index(library):
    library.say("needle")
    library.search("needle")
    (statement,) = (text for text in library.statements if "JOIN sessions" in text)
    plan = [row[3] for row in library.connection.execute(f"EXPLAIN QUERY PLAN {statement}", (1,))]
    by_index = [step for step in plan if "idx_messages_session (session_id=? AND timestamp" in step]
    assert len(by_index) == 2, plan
