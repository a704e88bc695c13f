"""Lines broken to the columns of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from hermes.tui.text import break_ranges, safe, width, wrap, wrap_ranges

CHARACTERS = [
    "a", "b", " ", "-", ".", "世", "界", "。", "「", "é", "e\u0301", "👩\u200d💻", "👍🏽", "🇩🇪",
    "❤\ufe0f", "ש", "न", "\u094d", "\u0600", "\u200d", "\ufe0f", "\u0301",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(CHARACTERS), max_size=60).map("".join).map(safe)


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("", 10, [""]),
        ("one two three", 20, ["one two three"]),
        ("one two three", 8, ["one two", "three"]),
        ("  spaces   around  ", 30, ["spaces   around"]),
        ("exactly ten", 11, ["exactly ten"]),
        ("a verylongwordhere b", 8, ["a", "verylong", "wordhere", "b"]),
        ("abcdefgh ij", 8, ["abcdefgh", "ij"]),
        ("世界你好再见", 5, ["世界", "你好", "再见"]),
        ("世界，你好", 4, ["世", "界，", "你好"]),
        ("说「世界」", 4, ["说", "「世", "界」"]),
        ("中文mixed文字", 8, ["中文", "mixed文", "字"]),
        ("👩\u200d💻👩\u200d💻👩\u200d💻", 5, ["👩\u200d💻👩\u200d💻", "👩\u200d💻"]),
        ("naïve café", 5, ["naïve", "café"]),
        ("שלום עולם", 5, ["שלום", "עולם"]),
    ],
)
def test_words_stay_whole_where_they_fit(text: str, columns: int, shown: list[str]) -> None:
    assert wrap(text, columns) == shown


def test_code_is_broken_at_the_column_and_keeps_its_spaces() -> None:
    text = "  x = 1  # 注释 here"
    assert [text[a:b] for a, b in break_ranges(text, 12, 6)] == ["  x = 1  # ", "注释 h", "ere"]
    assert break_ranges("", 12, 6) == [(0, 0)]


@given(TEXTS, st.integers(5, 20))
def test_rows_fit_and_hold_everything_but_spaces(text: str, columns: int) -> None:
    shown = wrap(text, columns)
    assert all(width(row) <= columns for row in shown)
    assert "".join(shown).replace(" ", "") == text.replace(" ", "")


@given(TEXTS, st.integers(5, 20))
def test_code_rows_fit_and_hold_everything(text: str, columns: int) -> None:
    shown = [text[a:b] for a, b in break_ranges(text, columns, columns - 2)]
    assert all(width(row) <= columns for row in shown)
    assert "".join(shown) == text


@given(TEXTS, st.integers(9, 20))
def test_what_is_seen_as_one_character_stays_together(text: str, columns: int) -> None:
    edges, at = {0}, 0
    for cluster in iter_graphemes(text):
        at += len(cluster)
        if width(cluster) > columns:  # nothing that anyone writes
            edges.update(range(at - len(cluster), at))
        edges.add(at)
    for row in [*wrap_ranges(text, columns), *break_ranges(text, columns, columns)]:
        if width(text) == sum(width(cluster) for cluster in iter_graphemes(text)):
            assert set(row) <= edges


@given(TEXTS, TEXTS, st.integers(5, 12))
def test_all_but_the_last_two_rows_stay_when_more_follows(
    text: str, more: str, columns: int
) -> None:
    certain = wrap_ranges(text, columns)[:-2]
    assert wrap_ranges(text + more, columns)[: len(certain)] == certain
