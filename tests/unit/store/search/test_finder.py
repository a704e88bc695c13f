"""From a request to the hits a user sees."""

import msgspec
import pytest

from hermes.core.errors import UsageError
from hermes.store.records import Neighbour
from tests.unit.store.search.library import NOW

DAY = 86400.0


def test_a_hit_says_where_it_is(library):
    library.session("plan", source="telegram", title="The plan")
    id_ = library.say("the needle is here", session="plan", at=NOW - 7)
    (hit,) = library.search("needle")
    assert (hit.id, hit.session_id, hit.role, hit.timestamp) == (id_, "plan", "user", NOW - 7)
    assert (hit.source, hit.model, hit.title) == ("telegram", "m", "The plan")
    assert hit.session_started == 5.0
    assert hit.snippet == "the >>>needle<<< is here"
    assert hit.context == ()


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


def test_recent_and_user_text_come_first(library):
    ids = [
        library.say("needle here", role=role, at=NOW - days * DAY)
        for role, days in (("tool", 0), ("user", 0), ("assistant", 0), ("user", 400))
    ]
    assert [hit.id for hit in library.search("needle")] == [ids[n] for n in (1, 2, 0, 3)]


@pytest.mark.parametrize("query", ["needle", "服务器", "服务"])
def test_pages_do_not_overlap(library, query):
    for number in range(45):
        library.say(f"needle 服务器 {number:02}", at=NOW + number)
    pages = [library.search(query, limit=20, offset=offset) for offset in (0, 20, 40)]
    assert [len(page) for page in pages] == [20, 20, 5]
    ids = [hit.id for page in pages for hit in page]
    assert ids == sorted(set(ids), reverse=True)
    assert library.search(query, limit=20, offset=60) == ()


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
