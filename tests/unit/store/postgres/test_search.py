"""Search vectors for PostgreSQL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.store.postgres.search import (
    INCOMPLETE,
    LEXEME_BYTES,
    POSITIONS_A_LEXEME,
    VECTOR_BYTES,
    build_vector,
    pieces,
    quote_lexeme,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, big_WORLD!", ["hello", "big", "world"]),
        ("naïve CAFÉ cafe\u0301", ["naive", "cafe", "cafe"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("100% of 3.14", ["100", "of", "3", "14"]),
        ("Привет ёлка", ["привет", "елка"]),
        ("नमस्ते दुनिया", ["नमस्ते", "दुनिया"]),
        ("שָׁלוֹם", ["שלום"]),
        ("مُحَمَّد", ["محمد"]),
        ("1\ufe0f\u20e3 ok \u2764\ufe0f", ["1", "ok"]),
        ("我用Python写代码", ["我用", "python", "写代码"]),
        ("สวัสดี world", ["สวัสดี", "world"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("\u1112\u1161\u11ab", ["한"]),
        ("か\u3099く", ["がく"]),
        ("... --- ''", []),
    ],
)
def test_words_of_any_script_are_separated(text, words):
    assert [piece.text for piece in pieces(text)] == words


def test_a_run_without_spaces_is_one_step_for_its_neighbours():
    assert build_vector("a 世界人 b a") == "'a':1,4 '世' '界' '人' '世界' '界人' 'b':3"


def test_a_word_met_too_often_marks_the_vector():
    made = build_vector("so " * (POSITIONS_A_LEXEME + 1) + "end")
    assert made.startswith(quote_lexeme(INCOMPLETE)) and made.endswith(
        f"'end':{POSITIONS_A_LEXEME + 2}"
    )
    assert INCOMPLETE not in build_vector("so " * POSITIONS_A_LEXEME)


def test_a_word_of_any_length_is_cut_at_a_whole_character():
    [piece] = pieces("é" * 5 + "ß" * 1 + "ж" * 5000)
    assert len(piece.text.encode()) in (LEXEME_BYTES - 1, LEXEME_BYTES)


def test_too_many_different_words_lose_their_places_first_and_then_the_last_ones_go():
    words = [f"word{number}" for number in range(300_000)]
    some, all_ = build_vector(" ".join(words[:60_000])), build_vector(" ".join(words))
    assert "'word0':1 " in some and some.endswith("'word59999'")
    assert "'word0' " in all_ and "'word90000'" in all_ and "word299999" not in all_
    for made in (some, all_):
        assert quote_lexeme(INCOMPLETE) in made
        assert sum(len(part.partition(":")[0]) - 2 for part in made.split()) <= VECTOR_BYTES


def test_quotes_and_backslashes_of_a_lexeme_are_escaped():
    assert quote_lexeme("it's \\ this") == "'it''s \\\\ this'"


@given(st.text())
def test_every_text_has_words_without_signs_and_the_same_words_again(text):
    found = [piece.text for piece in pieces(text)]
    assert not any(sign in word for word in found for sign in " '\\:&|!()*<>-")
    assert [piece.text for piece in pieces(" ".join(found))] == found
