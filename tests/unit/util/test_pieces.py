"""Text in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.util.text import LONGEST_HELD, LineBuffer


def through(*pieces: str) -> tuple[list[str], str]:
    """What came out before the end, and what the end brought."""
    given_on: list[str] = []
    lines = LineBuffer(given_on.append)
    for piece in pieces:
        lines.add(piece)
    before = list(given_on)
    lines.flush()
    return before, "".join(given_on[len(before) :])


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("one\ntw", "o\nthree"), (["one\n", "two\n"], "three")),
        (("10 %\r20", " %\r"), (["10 %\r", "20 %\r"], "")),
        (("no end",), ([], "no end")),
        (("a\n", ""), (["a\n"], "")),
    ],
)
def test_lines_come_whole(pieces, expected):
    assert through(*pieces) == expected


def test_a_key_of_many_lines_comes_in_one_piece():
    key = ["-----BEGIN PRIVATE KEY-----\n", "abc\n", "def\n", "-----END PRIVATE KEY-----\n"]
    assert through("x\n", *key) == (["x\n", "".join(key)], "")


def test_an_endless_line_is_cut_between_words():
    word = "word " * (LONGEST_HELD // 5 + 10)
    before, rest = through(word)
    assert all(piece.endswith(" ") for piece in before)
    assert "".join(before) + rest == word
    assert len(through("x" * (LONGEST_HELD * 3))[0]) >= 1


@given(st.lists(st.text()))
def test_nothing_is_lost_or_changed(pieces):
    before, rest = through(*pieces)
    assert "".join(before) + rest == "".join(pieces)
