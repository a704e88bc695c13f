"""Full-text and trigram search in SQLite."""

import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes.store.search import CANDIDATES, RANGES, Group, Query, Term, is_unspaced, parse_query
from hermes.store.sqlite import schema
from tests.unit.store.library import CORPUS, NOW, Library

TEXTS, FOUND = CORPUS["sqlite"]["texts"], CORPUS["sqlite"]["found"]


@pytest.fixture
def shelf(library):
    for text in TEXTS.values():
        library.say(text)
    return library


def test_queries_find_the_expected_messages(shelf):
    found = {query: shelf.texts(query) for query in FOUND}
    assert found == {query: {TEXTS[name] for name in names} for query, names in FOUND.items()}


@pytest.mark.parametrize("query", ["server", "server OR deploy*", 'friday OR "red server" OR blue'])
def test_a_query_of_plain_words_is_one_walk_of_each_index(shelf, query):
    shelf.statements.clear()
    shelf.ids(query)
    words, trigrams = sorted(shelf.statements)
    assert "messages_fts MATCH" in words
    assert "messages_trigram MATCH" in trigrams
    assert " IN (" not in words + trigrams


def test_the_index_is_walked_and_nothing_is_sorted(shelf):
    for query in ("server", "server friday", "服务器", "server NOT blue"):
        shelf.statements.clear()
        shelf.ids(query, roles=("user",), sessions=("s",), sources=("cli",))
        for statement in shelf.statements:
            plan = shelf.connection.execute(
                f"EXPLAIN QUERY PLAN {statement}", ("x",) * statement.count("?")
            )
            steps = [row[3] for row in plan]
            assert steps[0].startswith("SCAN i VIRTUAL TABLE"), steps
            assert not any("TEMP B-TREE" in step for step in steps), steps


def test_filters(library):
    library.session("t", source="telegram")
    library.session("c", source="cron")
    ids = {
        name: library.say("needle 服务器", **facts)
        for name, facts in {
            "user": {"at": 10.0},
            "tool": {"role": "tool", "at": 20.0},
            "telegram": {"session": "t", "at": 30.0},
            "cron": {"session": "c", "at": 40.0},
        }.items()
    }
    for filters, names in (
        ({}, {"user", "tool", "telegram", "cron"}),
        ({"sources": ("cli",)}, {"user", "tool"}),
        ({"sources": ("cli", "cron")}, {"user", "tool", "cron"}),
        ({"exclude_sources": ("cli",)}, {"telegram", "cron"}),
        ({"roles": ("tool",)}, {"tool"}),
        ({"sessions": ("t",)}, {"telegram"}),
        ({"sessions": ("s", "c")}, {"user", "tool", "cron"}),
        ({"sessions": ("none",)}, set()),
        ({"sessions": tuple(map(str, range(50_000)))}, set()),
        ({"since": 20.0}, {"tool", "telegram", "cron"}),
        ({"until": 20.0}, {"user", "tool"}),
        ({"since": 15.0, "until": 35.0, "roles": ("user",)}, {"telegram"}),
        ({"sources": ("q\"'",)}, set()),
    ):
        for query in ("needle", "服务器", "服", "needle 服务器", "needle NOT other"):
            assert library.ids(query, **filters) == {ids[name] for name in names}, (query, filters)


def test_filters_apply_before_the_newest_are_taken(library):
    wanted = library.say("needle 服务器", role="assistant")
    for _ in range(1100):
        library.say("needle 服务器", role="tool")
    for query in ("needle", "服务器", "服务"):
        assert library.ids(query, roles=("assistant",)) == {wanted}


@pytest.mark.parametrize("query", ["needle", "服务器", "服务", "needle OR 服务器"])
def test_the_newest_are_candidates_and_a_later_page_gets_more(library, query):
    ids = [library.say("needle 服务器") for _ in range(1100)]
    assert library.ids(query) == set(ids[-CANDIDATES:])
    assert library.ids(query, limit=20, offset=1030) == set(ids[-1050:])


def test_relevance_tells_a_good_match_from_a_poor_one(library):
    short = library.say("needle needle")
    long = library.say("needle " + "hay " * 500)
    query = "needle"
    found = {hit.id: n for n, hit in enumerate(library.search(query))}
    assert found[short] < found[long]


def test_a_message_without_text_is_never_found(library):
    library.say(None, at=NOW)
    library.say("", at=NOW)
    assert library.ids("a OR 服 OR 服务器 OR NOT b") == set()


@pytest.mark.parametrize(
    "query",
    [
        "a" * 5000,
        "服务器" * 2000,
        " ".join(["server"] * 500),
        " OR ".join(["server blue"] * 500),
        " NOT ".join(["server"] * 500),
        " OR ".join(["服务", "服务器", "server"] * 100),
        "'; DROP TABLE messages; --",
        "服'务 服%务 服_",
    ],
)
def test_a_strange_query_does_no_harm(shelf, query):
    assert shelf.texts(query) <= set(TEXTS.values())
    assert shelf.rows("SELECT count(*) FROM messages")[0][0] == len(TEXTS)


PIECES = (
    *("cat", "Cats", "concat", "go", "x", "café", "CAFE", "Übung", "42", "日本", "日本語", "語"),
    *("本を", "用", "서버", "서버를", "ไทย", "ที่", "🎉", "—", "’", "cat-go", "cat_go", "ab.cd/ef"),
)
GLUE = ("", " ", " ", " ", "-", "，", "\n")
OPERATORS = (" ", " AND ", " OR ", " NOT ", ' "', '" ', "* ", " (", ") ")

contents = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(GLUE)), max_size=5).map(
    lambda parts: "".join(piece + glue for piece, glue in parts)
)
queries = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from(OPERATORS)), min_size=1, max_size=5
).map(lambda parts: "".join(piece + operator for piece, operator in parts))


@cache
def tokens(text: str) -> tuple[str, ...]:
    """Return the words of `text`, found in the simplest way."""
    plain = ""
    for character in unicodedata.normalize("NFC", text):
        base = unicodedata.normalize("NFD", character)[0]
        character = base if base.isascii() else character
        plain += character.lower() if unicodedata.category(character)[0] in "LN" else " "
    return tuple(plain.split())


def has(content: str, term: Term) -> bool:
    is_piece = is_unspaced(content) and (term.is_unspaced or len(term.text) >= 3)
    if is_piece and term.text.lower() in content.lower():
        return True
    return not term.is_unspaced and has_words(tokens(content), tokens(" ".join(term.words)), term)


def has_words(words: tuple[str, ...], wanted: tuple[str, ...], term: Term) -> bool:
    for start in range(len(words) - len(wanted) + 1):
        *whole, last = words[start : start + len(wanted)]
        fits = last.startswith(wanted[-1]) if term.prefix else last == wanted[-1]
        if fits and tuple(whole) == wanted[:-1]:
            return True
    return False


def in_group(content: str, group: Group) -> bool:
    return all(has(content, term) for term in group.all_of) and not any(
        has(content, term) for term in group.none_of
    )


def matches(content: str, query: Query) -> bool:
    return any(in_group(content, group) for group in query.any_of)


@pytest.fixture(scope="module")
def emptied() -> Iterator[Callable[[], Library]]:
    """A library without messages, the same one each time: to make one takes long."""
    library = Library()

    def empty() -> Library:
        library.change("DELETE FROM messages")
        return library

    yield empty
    library.close()


@given(st.lists(contents, max_size=8), st.lists(queries, min_size=1, max_size=4))
@example(
    ["cat 日本concat", "日本 cat-go go", "cat go 日本"], ["cat go NOT concat", "cat-go OR 日本"]
)
def test_exactly_the_messages_that_match_are_found(emptied, texts, asked):
    library = emptied()
    ids = {library.say(text): text for text in texts}
    for text in asked:
        query = parse_query(text)
        expected = {id_ for id_, content in ids.items() if matches(content, query)}
        assert library.ids(text) == expected, text


@given(st.text(), st.lists(st.text(max_size=30), max_size=3))
def test_any_text_at_all_is_answered(emptied, query, texts):
    library = emptied()
    for text in (*texts, query):
        library.say(text.replace("\x00", "").encode("utf-8", "ignore").decode())
    if parse_query(query).any_of:
        hits = library.search(query)
        assert all(hit.snippet for hit in hits)


def indexed(library):
    return {row[0] for row in library.rows("SELECT id FROM messages_trigram_docsize")}


def check(library):
    """FTS5's own comparison of the index with the text it is for; raises when they differ."""
    library.change(
        "INSERT INTO messages_trigram(messages_trigram, rank) VALUES ('integrity-check', 1)"
    )


@pytest.mark.parametrize("text", ["plain words", "", None, "Ünïcode слово हिन्दी", "“—” → ✅ 🎉 ✔️"])
def test_a_message_in_a_script_with_spaces_adds_nothing(library, text):
    before = library.rows("SELECT count(*), sum(length(block)) FROM messages_trigram_data")
    library.say(text)
    assert indexed(library) == set()
    assert library.rows("SELECT count(*), sum(length(block)) FROM messages_trigram_data") == before


def test_the_condition_in_sql_is_the_one_in_python(library):
    edges = {code for first, last, _ in RANGES for code in (first - 1, first, last, last + 1)}
    edges |= {0x41, 0xE9, 0x7FF, 0x800, 0xFFF, 0x1000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF}
    texts = [f"some text {chr(code)} more" for code in sorted(edges) if not 0xD800 <= code < 0xE000]
    expected = {library.say(text) for text in texts if is_unspaced(text)}
    for text in texts:
        if not is_unspaced(text):
            library.say(text)
    assert indexed(library) == expected
    assert 0 < len(expected) < len(texts)


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"))))
def test_the_condition_agrees_for_any_text(texts):
    library = Library()
    expected = {
        id_ for id_, text in [(library.say(text), text) for text in texts] if is_unspaced(text)
    }
    assert indexed(library) == expected
    library.close()


def test_changes_and_deletions_reach_the_index(library):
    first, second, third = library.say("数据库一"), library.say("plain"), library.say("数据库三")
    library.change("UPDATE messages SET content = 'plain now' WHERE id = ?", (first,))
    library.change("UPDATE messages SET content = '数据库二' WHERE id = ?", (second,))
    library.change("UPDATE messages SET content = NULL WHERE id = ?", (third,))
    assert indexed(library) == {second}
    assert library.ids("数据库") == {second}
    library.change("UPDATE messages SET content = '数据库三' WHERE id = ?", (third,))
    library.change("DELETE FROM messages WHERE id = ?", (second,))
    assert library.ids("数据库") == library.ids("数据") == library.ids("库三") == {third}
    check(library)


def test_index_includes_earlier_messages(library):
    for name in ("insert", "update", "delete"):
        library.change(f"DROP TRIGGER messages_trigram_{name}")
    library.say("plain")
    chinese = library.say("数据库")
    library.change("DROP TABLE additions_version")
    schema.migrate(library.connection)
    assert indexed(library) == {chinese}
    check(library)
    library.change("DELETE FROM messages")
    assert indexed(library) == set()
    check(library)
