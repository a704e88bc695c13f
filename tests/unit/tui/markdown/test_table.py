"""Tables: in a box that fits, as records where none does."""

import pytest

from hermes.tui.markdown import MarkdownStream
from hermes.tui.text import Depth, Paint
from tests.cases import cases

CASES = cases(__file__)

TABLE = """\
| Name | Count | What it is |
|:-----|------:|:----------:|
| a `b` | 1 | short |
| 世界 | 22 | **longer** text that may need rows |
"""


def shown(text: str, columns: int, depth: Depth = Depth.NONE) -> list[str]:
    stream = MarkdownStream(Paint(depth=depth), columns)
    return stream.feed(text) + stream.finish()


def test_a_table_that_fits_is_as_wide_as_its_text() -> None:
    assert shown(TABLE, 80) == CASES["table that fits is as wide"]


def test_cells_wrap_where_the_window_is_too_narrow() -> None:
    assert shown(TABLE, 40) == CASES["cells wrap where the window is"]


def test_records_where_cells_would_be_too_narrow() -> None:
    assert shown(TABLE, 20) == CASES["records where cells would be too"]


def test_a_table_waits_until_it_is_complete() -> None:
    stream = MarkdownStream(Paint(), 40)
    assert stream.feed("before\n\n| a | b |\n|---|---|\n| 1 | 2 |\n") == ["before", ""]
    assert stream.pending(10)[3] == "│ 1 │ 2 │"
    assert stream.pending(2) == stream.pending(10)[-2:]
    assert stream.feed("| 3 | 4 |\n") == []
    lines = stream.feed("\nafter\n")
    assert lines[-3:] == ["└───┴───┘", "", "after"]
    assert "│ 3 │ 4 │" in lines


@pytest.mark.parametrize(("text", "row"), CASES["rows of all kinds"])
def test_rows_of_all_kinds(text: str, row: str) -> None:
    assert row in shown(text, 40)


@pytest.mark.parametrize(
    "text", ["a | b", "a | b\nc | d", "| a | b |\n\n|---|---|", "x\n|---|", "- a | b\n  --|--"]
)
def test_bars_alone_make_no_table(text: str) -> None:
    assert "┌" not in "".join(shown(text, 40))


def test_line_after_a_table_is_not_part_of_it() -> None:
    lines = shown("| a |\n|---|\n| 1 |\ntext after\n- item", 40)
    assert lines[-3:] == ["└───┘", "text after", "• item"]


def test_the_header_is_bold_and_borders_are_dim() -> None:
    lines = shown("| a |\n|---|\n| **b** |", 40, Depth.NAMED)
    assert lines[1] == "\x1b[2m│\x1b[0m \x1b[1ma\x1b[0m \x1b[2m│\x1b[0m"
    assert lines[3] == lines[1].replace("ma", "mb")
