"""What each kind of markdown looks like, without colours and with them."""

from textwrap import dedent

import pytest

from hermes.tui.markdown import MarkdownStream
from hermes.tui.text import Depth, Paint
from tests.cases import cases

CASES = cases(__file__)


def shown(text: str, columns: int = 40, depth: Depth = Depth.NONE) -> list[str]:
    stream = MarkdownStream(Paint(depth=depth), columns)
    return stream.feed(dedent(text)) + stream.finish()


@pytest.mark.parametrize(("text", "lines"), CASES["prose"])
def test_prose(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


def test_lists_hang_their_rows_under_their_text() -> None:
    text = CASES["lists hang their rows under their"]
    assert shown(text) == CASES["lists hang their rows under their again"]


def test_quotes_keep_their_bars_on_every_row() -> None:
    text = CASES["quotes keep their bars on every"]
    assert shown(text) == CASES["quotes keep their bars on every again"]


def test_a_fence_ends_with_the_quote_it_is_in() -> None:
    assert shown("> ```\n> a\n**b**") == ["│     a", "b"]


def test_marks_too_wide_for_the_window_become_text() -> None:
    assert shown("123456789. x", 10) == ["123456789.", "x"]
    assert shown("> > > > deep words", 12) == ["│ │ │ │ deep", "words"]
    assert shown("- a\n         - item", 12) == ["• a", "    • item"]


def test_bold_is_closed_and_opened_again_on_every_row() -> None:
    lines = shown("**some bold words over rows** x", 11, Depth.NAMED)
    assert lines == ["\x1b[1msome bold\x1b[0m", "\x1b[1mwords over\x1b[0m", "\x1b[1mrows\x1b[0m x"]


def test_colours_of_inline_markup() -> None:
    assert shown("`c` ~~s~~ [l](u)", 40, Depth.NAMED) == [
        "\x1b[33mc\x1b[0m \x1b[9ms\x1b[0m \x1b[4;34ml\x1b[0m\x1b[2m (u)\x1b[0m"
    ]
    assert shown("***b***", 40, Depth.NAMED) == ["\x1b[1m\x1b[3mb\x1b[0m\x1b[0m"]
    assert shown("# A `b`\n### C", 40, Depth.NAMED) == [
        "\x1b[1;36mA \x1b[0m\x1b[1;36m\x1b[33mb\x1b[0m\x1b[0m",
        "\x1b[1mC\x1b[0m",
    ]


def test_a_line_is_out_as_soon_as_its_end_is_there() -> None:
    stream = MarkdownStream(Paint(), 40)
    assert stream.feed("a line") == []
    assert stream.feed("\nnext") == ["a line"]
    assert stream.feed("\n\n- item\n```\n") == ["next", "", "• item"]
    assert stream.feed("code\nmo") == ["    code"]
    assert stream.feed("re\n") == ["    more"]
    assert stream.finish() == []


def test_a_long_paragraph_comes_out_row_by_row() -> None:
    stream = MarkdownStream(Paint(), 40)
    lines: list[str] = []
    most = 0
    for _ in range(400):
        lines += stream.feed("words **that** go on ")
        most = max(most, len(stream.pending(100)))
    assert len(lines) > 150
    assert most <= 7
    lines += stream.finish()
    assert " ".join(lines) == " ".join(["words that go on"] * 400)


def test_markup_that_is_never_closed_holds_a_paragraph_back_only_so_long() -> None:
    stream = MarkdownStream(Paint(), 40)
    lines = stream.feed("**never closed " + "and more words " * 200)
    assert lines[0].startswith("**never closed and")
    assert len(stream.pending(100)) < 40


def test_lines_that_are_out_stay_and_the_rest_follows_the_new_width() -> None:
    stream = MarkdownStream(Paint(), 40)
    assert stream.feed("- some words that fill one row of it\n- and") == [
        "• some words that fill one row of it"
    ]
    stream.width = 12
    assert stream.pending(5) == ["• and"]
    assert stream.feed(" some more words\n") == ["• and some", "  more words"]
