"""Columns, wrapping and colours of text on a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from hermes.tui.text import (
    Depth,
    Paint,
    break_ranges,
    cut,
    escape_codes,
    one_line,
    safe,
    terminal_depth,
    width,
    wrap,
    wrap_ranges,
)
from tests.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize(("given", "shown"), CASES["terminal sequences are removed"])
def test_terminal_sequences_are_removed(given: str, shown: str) -> None:
    assert safe(given) == shown


def test_columns_are_counted_as_terminals_do() -> None:
    assert [width(each) for each in ("abc", "日本", "é", "\x1b[1mb\x1b[0m", "")] == [3, 4, 1, 1, 0]


@pytest.mark.parametrize(("text", "columns", "fits"), CASES["line is cut to fit"])
def test_a_line_is_cut_to_fit(text: str, columns: int, fits: str) -> None:
    assert cut(text, columns) == fits
    assert width(cut(text, columns)) <= max(columns, 0)


def test_a_text_on_one_line() -> None:
    assert one_line("a\n\n  b\x1b[2J", 20) == "a b"
    assert one_line("x" * 100_000, 5) == "xxxx…"


CHARACTERS = [
    "a", "b", " ", "-", ".", "世", "界", "。", "「", "é", "e\u0301", "👩\u200d💻", "👍🏽", "🇩🇪",
    "❤\ufe0f", "ש", "न", "\u094d", "\u0600", "\u200d", "\ufe0f", "\u0301",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(CHARACTERS), max_size=60).map("".join).map(safe)


@pytest.mark.parametrize(("text", "columns", "shown"), CASES["words stay whole where they fit"])
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
def test_grapheme_clusters_are_not_split(text: str, columns: int) -> None:
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
def test_all_but_the_last_two_rows_stay_when_more_follows(text, more, columns):
    certain = wrap_ranges(text, columns)[:-2]
    assert wrap_ranges(text + more, columns)[: len(certain)] == certain


@pytest.mark.parametrize(
    ("variables", "depth"),
    [
        ({"TERM": "xterm-256color"}, Depth.INDEXED),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, Depth.TRUE),
        ({"TERM": "linux"}, Depth.NAMED),
        ({"TERM": "xterm", "NO_COLOR": "1"}, Depth.NONE),
        ({"TERM": "dumb"}, Depth.NONE),
        ({"TERM": ""}, Depth.NONE),
    ],
)
def test_the_terminal_says_what_it_can(variables, depth, monkeypatch):
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal_depth() is depth


def test_a_look_becomes_what_the_terminal_understands() -> None:
    assert escape_codes("bold #ff8800", Depth.TRUE) == "1;38;2;255;136;0"
    assert escape_codes("#ff8800", Depth.INDEXED) == "38;5;208"
    assert escape_codes("#f80", Depth.NAMED) == "93"
    assert escape_codes("underline bright_blue", Depth.NAMED) == "4;94"
    assert escape_codes("bold red", Depth.NONE) == ""


@pytest.mark.parametrize("look", ["#12345", "#xyzxyz", "reddish", "bright_nothing"])
def test_invalid_colour_is_reported(look: str) -> None:
    with pytest.raises(ValueError, match="not a colour"):
        escape_codes(look, Depth.TRUE)


def test_without_colours_a_text_is_left_alone() -> None:
    assert Paint()("error", "text") == "text"
    painted = Paint({"error": "bold red"}, Depth.NAMED)
    assert painted("error", "text") == "\x1b[1;31mtext\x1b[0m"
    assert painted("error", "") == ""
    assert painted("unheard of", "text") == "text"
