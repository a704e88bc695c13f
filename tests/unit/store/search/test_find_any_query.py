"""Whatever is asked, the database answers, and with exactly the messages that match."""

import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes.store.query_language import Group, Query, Term, is_unspaced, parse_query
from tests.unit.store.search.library import Library

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
    """The words of `text`, told in the plainest way."""
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


@settings(deadline=None, max_examples=150)
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


@settings(deadline=None, max_examples=120)
@given(st.text(), st.lists(st.text(max_size=30), max_size=3))
def test_any_text_at_all_is_answered(emptied, query, texts):
    library = emptied()
    for text in (*texts, query):
        library.say(text.replace("\x00", "").encode("utf-8", "ignore").decode())
    if parse_query(query).any_of:
        hits = library.search(query)
        assert all(hit.snippet for hit in hits)
