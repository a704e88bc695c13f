"""Search: what is found, in any language, and what a hit says."""

import msgspec
import pytest

from hermes.core.errors import UsageError
from hermes.core.messages import Assistant, Text, ToolCall, ToolResult, User
from hermes.store.records import SearchRequest
from tests.integration.store.conftest import reply, say, start
from tests.unit.store.library import CORPUS

TEXTS, FOUND = CORPUS["both"]["texts"], CORPUS["both"]["found"]
HOSTILE = (
    'server"', "server AND", "OR server", "NOT OR server", "(server", "server)", "server^2",
    "content:server", "NEAR(server 3)", "server + blue", "server*blue", "%", "server\x00blue",
    "'; DROP TABLE messages; --", "server \ud800", "{server}", "a" * 5000, "服务器" * 300,
    " ".join(["server"] * 500), "***", '""',
)  # fmt: skip


@pytest.fixture
async def library(store):
    for session, text in TEXTS.items():
        await start(store, session, text)
    return store


async def found(store, query: str, **filters) -> list[str]:
    hits = await store.search(SearchRequest(query, **filters))
    return [hit.session_id for hit in hits]


async def test_queries_find_the_expected_sessions(library):
    assert {query: sorted(await found(library, query)) for query in FOUND} == FOUND


async def test_a_strange_query_finds_something_or_is_a_usage_error(library):
    for query in HOSTILE:
        try:
            assert set(await found(library, query)) <= set(TEXTS), query
            assert set(await found(library, query, tolerant=True)) <= set(TEXTS), query
        except UsageError as error:
            assert str(error)


TOLERANT = {
    "tomato": ("garden", "similar"),  # another ending
    "greenhose": ("garden", "similar"),  # a typing error
    "rgeenhouse": ("garden", "similar"),
    "early blight copper": ("garden", "similar"),  # in several messages
    "What became of the tomatoes in my conservatory?": ("garden", "some"),
    "орхидея": ("flower", "similar"),
    "Rechnung": ("bill", "similar"),
    "planning": ("plan", "similar"),
    "leaf": ("garden", "similar"),
    "我们什么时候去西安": ("xian", "some"),  # a whole sentence without spaces
    "invoice": ("bill", "exact"),
}


async def test_a_tolerant_search_finds_endings_errors_and_some_of_the_words(store):
    await start(
        store,
        "garden",
        "My tomatoes have early blight on the leaves",
        "Spray copper in the greenhouse",
    )
    await start(store, "flower", "Как пересадить орхидею?")
    await start(store, "bill", "the invoice is late", "Die Rechnungen sind bezahlt")
    await start(store, "plan", "the plan of the house")
    await start(store, "xian", "我们打算十月去西安看兵马俑")
    await start(store, "other", "Play some music", "It plays")
    results = {}
    for query in TOLERANT:
        hits = await store.search(SearchRequest(query, tolerant=True))
        results[query] = (hits[0].session_id, hits[0].match) if hits else None
    assert results == TOLERANT
    (hit,) = await store.search(SearchRequest("greenhose", tolerant=True))
    assert hit.snippet == "Spray copper in the >>>greenhouse<<<" and hit.share == 0.6
    for strict in ('"tomato blight"', "tomato NOT early", "tomato OR blights", "12345", "zzzzzz"):
        assert await store.search(SearchRequest(strict, tolerant=True)) == (), strict
    assert await store.search(SearchRequest("tomato")) == ()


async def test_a_tolerant_search_obeys_filters_and_pages(store):
    for number in range(8):
        await start(store, f"s{number}", f"tomatoes {number}", source="cli" if number else "tool")
    request = SearchRequest("tomato", exclude_sources=("tool",), limit=3, tolerant=True)
    pages = [
        [hit.session_id for hit in await store.search(msgspec.structs.replace(request, offset=at))]
        for at in (0, 3, 6)
    ]
    assert list(map(len, pages)) == [3, 3, 1]
    assert {one for page in pages for one in page} == {f"s{number}" for number in range(1, 8)}


async def test_sessions_are_left_out_and_kept_by_user(store):
    await start(store, "a", "an apple", user_id="ada")
    await start(store, "b", "an apple", user_id="bob")
    await start(store, "c", "an apple")
    assert await found(store, "apple", user="ada") == ["a"]
    assert sorted(await found(store, "apple", exclude_sessions=("a", "x"))) == ["b", "c"]
    assert sorted(await found(store, "apples", exclude_sessions=("c",), tolerant=True)) == [
        "a",
        "b",
    ]


async def test_other_words_are_asked_for_only_if_little_is_found(store):
    await start(store, "cat", "our cat vomits after the dry food")
    await start(store, "other", "the weather is fine")
    asked = []

    async def suggest(query: str) -> list[str]:
        asked.append(query)
        return ["cat", "dog", "sick"]

    for query, expected in (
        ("pet with an illness", ["cat"]),
        ("vomit", ["cat"]),
        ("food", ["cat"]),
    ):
        hits = await store.search(SearchRequest(query, tolerant=True), suggest)
        assert [hit.session_id for hit in hits] == expected
    assert asked == ["pet with an illness"]
    assert await store.search(SearchRequest("pet"), suggest) == ()
    assert len(asked) == 1


@pytest.mark.parametrize("query", ["", "  ", '"', "OR", "!?", "*"])
async def test_a_query_with_nothing_to_look_for_is_refused(library, query):
    with pytest.raises(UsageError):
        await library.search(SearchRequest(query))


async def test_a_hit_says_where_it_is_and_what_stands_around_it(store):
    await start(store, "s", "the question before " + "x" * 300, "the needle is here", "the end")
    await store.set_title("s", "plan")
    (hit,) = await store.search(SearchRequest("needle"))
    log = await store.log("s")
    assert (hit.id, hit.session_id, hit.role) == (log[1].id, "s", "assistant")
    assert hit.timestamp == log[1].timestamp
    assert (hit.source, hit.model, hit.title) == ("cli", "m", "plan")
    assert hit.session_started == (await store.info("s")).started_at
    assert hit.snippet == "the >>>needle<<< is here"
    before, after = hit.context
    assert (before.role, before.content) == ("user", ("the question before " + "x" * 300)[:200])
    assert (after.role, after.content) == ("user", "the end")


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("部署", ">>>部署<<<"),
        ("服务器部署", ">>>服务器部署<<<"),
        ("エラー", ">>>エラー<<<"),
        ("nginx", ">>>nginx<<<"),
        ("DEPLOY*", ">>>deployed<<<"),
    ],
)
async def test_a_snippet_marks_the_match_in_any_script(library, query, marked):
    hits = await library.search(SearchRequest(query))
    assert any(marked in hit.snippet for hit in hits)
    assert all(hit.snippet.count(">>>") == hit.snippet.count("<<<") >= 1 for hit in hits)


async def test_a_snippet_of_a_long_message_is_short_and_shows_the_match(store):
    await start(store, "s", "filler words " * 5000 + "the needle " + "more words " * 5000)
    (hit,) = await store.search(SearchRequest("needle"))
    assert ">>>needle<<<" in hit.snippet
    assert len(hit.snippet) < 1000


async def test_context_at_the_edges_of_a_session(store):
    await start(store, "a", "needle")
    await start(store, "b", "other session")
    (hit,) = await store.search(SearchRequest("needle"))
    assert hit.context == ()


async def test_filters(store):
    await start(store, "a", "needle one", "needle two", source="cli")
    await start(store, "b", "needle three", source="telegram")
    await start(store, "c", "needle four", source="cron")
    await store.append("c", ToolResult("x", "t", "needle five"))
    (first,) = await store.log("b")
    expected = {
        "sources": (("cli", "cron"), {"a", "c"}),
        "exclude_sources": (("cli",), {"b", "c"}),
        "roles": (("assistant",), {"a"}),
        "sessions": (("b", "c"), {"b", "c"}),
        "since": (first.timestamp, {"b", "c"}),
        "until": (first.timestamp, {"a", "b"}),
    }
    for name, (value, sessions) in expected.items():
        assert set(await found(store, "needle", **{name: value})) == sessions, name
    assert await found(store, "needle", sources=("cli",), roles=("tool",)) == []
    assert await found(store, "needle", roles=("tool",)) == ["c"]


@pytest.mark.parametrize("word", ["needle", "服务器", "部署"])
async def test_pages_of_hits_do_not_overlap(store, word):
    await start(store, "s", *(f"{word} {number}" for number in range(25)))
    pages = [
        await store.search(SearchRequest(word, limit=10, offset=offset)) for offset in (0, 10, 20)
    ]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert len({hit.id for page in pages for hit in page}) == 25
    assert await store.search(SearchRequest(word, limit=10, offset=30)) == ()


async def test_user_messages_and_recent_ones_come_first(store):
    await start(store, "s")
    await store.append("s", ToolResult("x", "t", "the needle was found"))
    await store.append("s", User.say("the needle was found"))
    await store.append("s", reply("the needle was found"))
    hits = await store.search(SearchRequest("needle"))
    assert hits[0].role == "user"
    assert hits[-1].role == "tool"


async def test_an_undone_message_is_still_found(store):
    await start(store, "s", "needle", "ok")
    await store.undo("s")
    assert await found(store, "needle") == ["s"]


async def test_a_deleted_message_is_not_found_any_more(store):
    await start(store, "s", "needle 服务器部署")
    await start(store, "t", "needle 服务器部署")
    await store.delete("s")
    for query in ("needle", "服务器部署", "部署"):
        assert await found(store, query) == ["t"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_text_that_another_program_wrote_or_changed_is_found(store, place):
    await start(store, "s", "old words")
    place.change("UPDATE messages SET content = 'changed 服务器部署'")
    place.change(
        "INSERT INTO messages (session_id, role, content, timestamp)"
        " VALUES ('s', 'user', 'foreign サーバー', 1.0)"
    )
    assert await found(store, "old") == []
    for query in ("changed", "服务器部署", "部署", "foreign", "サーバー"):
        assert await found(store, query) == ["s"], query


async def test_an_index_that_is_built_anew_finds_the_same(library):
    reported: list[tuple[int, int]] = []
    assert await library.reindex(lambda done, total: reported.append((done, total))) == len(TEXTS)
    assert reported[-1] == (len(TEXTS), len(TEXTS))
    assert {query: sorted(await found(library, query)) for query in FOUND} == FOUND
    await say(library, "mixed", "written afterwards 之后写的")
    assert await found(library, "afterwards") == ["mixed"]
    assert await found(library, "之后写") == ["mixed"]


async def test_hits_in_a_message_that_calls_tools(store):
    await start(store, "s")
    call = ToolCall("c", "terminal", '{"command": "ls"}')
    await store.append("s", Assistant((Text("listing the needle"), call), "tool_calls"))
    (hit,) = await store.search(SearchRequest("needle"))
    assert hit.role == "assistant"
