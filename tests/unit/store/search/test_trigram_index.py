"""Which messages the trigram index holds, and that it stays in step with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.store.query_language import RANGES, is_unspaced
from hermes.store.sqlite import schema
from tests.unit.store.search.library import Library


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


def test_it_is_built_for_messages_that_were_there_before(library):
    for name in ("insert", "update", "delete"):
        library.change(f"DROP TRIGGER messages_trigram_{name}")
    library.say("plain")
    chinese = library.say("数据库")
    for statement in (*schema.SEARCH_STATEMENTS, schema.REBUILD_TRIGRAMS):
        library.change(statement)
    assert indexed(library) == {chinese}
    check(library)
    library.change("DELETE FROM messages")
    assert indexed(library) == set()
    check(library)


def test_every_object_is_listed(library):
    made = {row[0] for row in library.rows("SELECT name FROM sqlite_master")}
    own = {name for name in made if name.startswith("messages_trigram")} | {"messages_unspaced"}
    kept_by_fts5 = {f"messages_trigram_{part}" for part in ("data", "idx", "docsize", "config")}
    assert own - kept_by_fts5 == schema.SEARCH_OBJECTS
