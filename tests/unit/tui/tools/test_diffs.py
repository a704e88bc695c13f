"""Diffs: what is read from results and arguments, and how it is painted."""

import re
from pathlib import Path

import pytest

from hermes.tui.skins import find_skin
from hermes.tui.text import COLOUR, Depth, Paint, contrast, width
from hermes.tui.tool_results import CallInfo
from hermes.tui.tool_view import (
    DiffLine,
    changed_ranges,
    changed_words,
    diff_rows,
    diff_texts,
    file_changes,
    number_lines,
    question_diff_rows,
)
from tests.cases import cases

CASES = cases(__file__)

PLAIN = Paint()


def signs(lines: list[DiffLine]) -> str:
    return "".join(line.kind[0] for line in lines)


def test_a_hunk_ends_where_its_head_says() -> None:
    """What a file or a project's instructions hold is not taken for the diff, or the other way."""
    result = (
        "changed a.md\n@@ -3,2 +3,2 @@\n-changed x\n+deleted y\n @@ -1,1 +1,1 @@\n"
        "[syntax error: line 1: no]\n\n- a list\n+ of the instructions in AGENTS.md"
    )
    lines = file_changes(CallInfo("patch", {"path": "a.md"}), result)
    assert [(line.kind, line.text, line.number) for line in lines] == [
        ("removed", "changed x", 3),
        ("added", "deleted y", 3),
        ("same", "@@ -1,1 +1,1 @@", 4),
        ("note", "syntax error: line 1: no", 0),
    ]


def test_lines_that_the_tool_left_out_are_counted() -> None:
    result = "changed a\n@@ -1,50 +1,50 @@\n-x\n+y\n[… 98 more lines of the diff]"
    rows = diff_rows(
        file_changes(CallInfo("patch", {"path": "a"}), result), 80, PLAIN, 16, whole=False
    )
    assert rows == ["   1 - x", "   1 + y", "   … 98 more lines"]


def test_without_a_diff_the_arguments_are_compared() -> None:
    arguments = {"path": "a", "old_string": "a\r\nb\nc", "new_string": "a\r\nB\nc\nd"}
    for result in ("done", "changed a\n[90000 lines became 3]"):
        rows = diff_rows(
            file_changes(CallInfo("patch", arguments), result), 80, PLAIN, 16, whole=False
        )
        assert rows[-5:] == ["     a", "   - b", "   + B", "     c", "   + d"]
    skill = {"action": "patch", "old_string": "x", "new_string": "y"}
    assert signs(file_changes(CallInfo("skill_manage", skill), "done")) == "ra"
    assert file_changes(CallInfo("skill_manage", {"action": "delete", "name": "x"}), "done") == []


def test_long_texts_are_compared_at_bounded_cost() -> None:
    old, new = ("\n".join(f"{word} {n % 7}" for n in range(5_000)) for word in ("a", "b"))
    lines = diff_texts(old, new)
    assert lines[-1].kind == "more"
    rows = diff_rows(lines, 80, PLAIN, 60, whole=False)
    assert len(rows) == 61
    assert rows[-1] == "   … 9,940 more lines · ctrl-o shows all"


@pytest.mark.parametrize(("most", "rows"), [(16, 17), (60, 61)])
def test_a_long_diff_is_cut(most: int, rows: int) -> None:
    content = "".join(f"line {n}\n" for n in range(1, 101))
    shown = diff_rows(number_lines("added", content), 80, PLAIN, most, whole=False)
    assert len(shown) == rows
    assert shown[0] == "    1 + line 1"
    assert shown[-1] == f"   … {100 - most} more lines · ctrl-o shows all"


def test_long_lines_are_cut_or_broken() -> None:
    lines = number_lines("added", "日本語" * 20)
    (short,) = diff_rows(lines, 40, PLAIN, 16, whole=False)
    assert short.startswith("   1 + 日本語")
    assert short.endswith("…")
    rows = diff_rows(lines, 40, PLAIN, 16, whole=True)
    assert "".join(row[7:] for row in rows) == "日本語" * 20
    assert rows[1].startswith("       本")
    assert all(width(row) <= 40 for row in [short, *rows])


@pytest.mark.parametrize(("before", "after", "old", "new"), CASES["words that changed"])
def test_the_words_that_changed(before: str, after: str, old: list[str], new: list[str]) -> None:
    found = changed_ranges(before, after)
    assert found is not None
    assert [before[a:b] for a, b in found[0]] == old
    assert [after[a:b] for a, b in found[1]] == new


def test_lines_that_have_nothing_in_common_have_no_changed_words() -> None:
    assert changed_ranges("import os", "def totally_different() -> None:") is None
    lines = [DiffLine("removed", "a b c"), DiffLine("removed", "gone"), DiffLine("added", "a b d")]
    assert changed_words(lines) == {0: [(4, 5)], 2: [(4, 5)]}


def test_even_lines_made_to_be_slow_are_compared_at_once() -> None:
    before, after = "a b " * 500, "b a " * 500 + "c"
    assert changed_ranges(before, after) is None
    for n in range(100):
        changed_ranges("a b " * 12 + str(n), "b a " * 12)


def test_changed_words_are_painted_the_other_way_round() -> None:
    lines = [DiffLine("removed", "x = call(a)", 9), DiffLine("added", "x = call(b)", 9)]
    paint = Paint({"removed": "red", "added": "green", "dim": ""}, Depth.NAMED)
    old, new = diff_rows(lines, 80, paint, 16, whole=False)
    assert old == (
        "   9 \x1b[31m- \x1b[0m\x1b[31mx = call(\x1b[0m\x1b[31;7ma\x1b[0m\x1b[31m)\x1b[0m"
    )
    assert "\x1b[32;7mb\x1b[0m" in new
    narrow = diff_rows(lines, 13, paint, 16, whole=False)
    assert [COLOUR.sub("", row) for row in narrow] == ["   - x = cal…", "   + x = cal…"]


CHANGE = [
    DiffLine("same", "def total(prices):", 1),
    DiffLine("removed", "    return sum(prices) / 1  # wrong", 2),
    DiffLine("added", "    return sum(prices) * 0.9  # right", 2),
]
SKIN = find_skin("default", Path("nowhere"))
CELLS = re.compile(r"\x1b\[(?P<code>[\d;]*)m(?P<text>[^\x1b]*)")
"""A text and the parameters of the escape sequence before it."""


def behind(row: str) -> dict[str, str]:
    """Return the background of each painted text; "" for none."""
    return {
        found["text"].strip(): "".join(re.findall(r"48;2;(\d+;\d+;\d+)", found["code"]))
        for found in CELLS.finditer(row)
        if found["text"].strip()
    }


def test_changed_lines_have_a_band_syntax_colours_and_marked_words() -> None:
    paint = Paint(SKIN.colors, Depth.TRUE)
    same, old, new = diff_rows(CHANGE, 80, paint, 16, whole=False, path="shop/prices.py")
    assert "48;2" not in same
    assert behind(old)["return"] == behind(old)["-"] == behind(old)["2"]
    assert behind(new)["return"] == behind(new)["+"]
    assert behind(old)["wrong"] not in ("", behind(old)["return"]), "a changed word stands out"
    assert behind(new)["right"] not in ("", behind(new)["return"], behind(old)["wrong"])
    keyword = next(found["code"] for found in CELLS.finditer(new) if found["text"] == "return")
    number = next(found["code"] for found in CELLS.finditer(new) if "0.9" in found["text"])
    assert keyword.partition(";48")[0] != number.partition(";48")[0]
    assert len({width(row) for row in (old, new)}) == 1, "the bands are a rectangle"
    assert [COLOUR.sub("", row).rstrip() for row in (same, old, new)] == [
        "   1   def total(prices):",
        "   2 -     return sum(prices) / 1  # wrong",
        "   2 +     return sum(prices) * 0.9  # right",
    ]


@pytest.mark.parametrize("background", [None, (255, 255, 255), (20, 20, 30)])
@pytest.mark.parametrize("skin", ["default", "kawaii", "daylight", "poseidon"])
def test_every_text_on_a_band_is_readable(skin: str, background) -> None:
    colours = find_skin(skin, Path("nowhere")).colors
    rows = diff_rows(
        CHANGE, 80, Paint(colours, Depth.TRUE, background=background), 16, whole=False, path="a.py"
    )
    for found in CELLS.finditer("".join(rows)):
        parts = dict(re.findall(r"([34]8);2;(\d+;\d+;\d+)", found["code"]))
        if "48" in parts and found["text"].strip():
            ink, band = (tuple(map(int, parts[each].split(";"))) for each in ("38", "48"))
            assert contrast(ink, band) >= 4.5, found["text"]


@pytest.mark.parametrize("depth", [Depth.NAMED, Depth.NONE])
def test_few_colours_show_a_diff_by_its_signs(depth: Depth) -> None:
    rows = diff_rows(CHANGE, 80, Paint(SKIN.colors, depth), 16, whole=False, path="a.py")
    assert not any("48;" in row for row in rows)
    assert [COLOUR.sub("", row)[5] for row in rows] == [" ", "-", "+"]


def test_a_skin_without_colours_has_no_bands() -> None:
    paint = Paint(find_skin("mono", Path("nowhere")).colors, Depth.TRUE)
    assert "48;" not in "".join(diff_rows(CHANGE, 80, paint, 16, whole=False, path="a.py"))


def test_each_file_of_a_patch_has_its_own_syntax() -> None:
    lines = [DiffLine("title", "changed a.py"), CHANGE[0], DiffLine("title", "changed a.txt")]
    rows = diff_rows([*lines, CHANGE[0]], 80, Paint(SKIN.colors, Depth.TRUE), 16, whole=False)
    assert rows[1].count("\x1b") > rows[3].count("\x1b")


def question(diff: str, columns: int = 60, most: int = 12) -> list[str]:
    rows, _hidden = question_diff_rows(diff, columns, PLAIN, most)
    return [row.rstrip() for row in rows]


def test_question_about_an_edit_shows_everything_with_a_margin() -> None:
    text = "a\N{ZERO WIDTH SPACE}b" + " " * 200 + "rm -rf /\x1b[2K"
    assert question(f"--- x.py\n+++ x.py\n@@ -1,2 +1,2 @@\n \tsame\n-old\n+{text}") == [
        "│ change x.py",
        "│ 1       same",
        "│ 2 - old",
        '│ 2 + a\\u200bb[… 200 × " " …]rm -rf /\\x1b[2K',
    ]


def test_question_about_several_files_names_each() -> None:
    diff = (
        "--- /dev/null\n+++ a\n@@ -1,0 +1,1 @@\n+--- b\n--- b\n+++ /dev/null\n@@ -1,1 +1,0 @@\n-x"
    )
    assert question(diff) == ["│ create a", "│ 1 + --- b", "│ delete b", "│ 1 - x"]


def test_question_about_a_long_edit_shows_its_beginning_and_end() -> None:
    added = "\n".join(f"+line {number}" for number in range(1, 101))
    diff = f"--- /dev/null\n+++ a\n@@ -1,0 +1,100 @@\n{added}"
    rows, hidden = question_diff_rows(diff, 60, PLAIN, 8)
    assert hidden
    assert [row.rstrip() for row in rows] == [
        "│ create a",
        *(f"│   {number} + line {number}" for number in (1, 2, 3, 4)),
        "│ … 94 lines not shown …",
        "│  99 + line 99",
        "│ 100 + line 100",
    ]
    wide = f"--- /dev/null\n+++ a\n@@ -1,0 +1,1 @@\n+{'ab ' * 400}"
    rows, hidden = question_diff_rows(wide, 60, PLAIN, 8)
    assert (len(rows), hidden) == (8, True)


def test_text_that_is_no_diff_is_not_shown_as_one() -> None:
    hidden = "--- a\n+++ a\nhidden\n@@ -1,1 +1,1 @@\n-x\n+y"
    assert question_diff_rows(hidden, 60, PLAIN, 8) is None
