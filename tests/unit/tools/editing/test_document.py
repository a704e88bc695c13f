"""What an edit leaves alone: line ends, the byte order mark, odd bytes."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermes.tools.editing.document import Edit, TextDocument, TextLines, new_syntax_problem
from tests.cases import cases

CASES = cases(__file__)


def edited(data: bytes, old: str, new: str) -> bytes:
    document = TextDocument(data)
    start = document.text.index(old)
    return document.apply([Edit(start, start + len(old), new)])


def test_each_line_of_a_mixed_file_keeps_its_end():
    data = b"a\r\nb\nc\r\nd\ne\n"
    assert edited(data, "b\nc", "x\ny") == b"a\r\nx\ny\r\nd\ne\n"
    assert edited(b"a\r\nb\r\nc\n", "b", "x\ny") == b"a\r\nx\r\ny\r\nc\n"


@given(
    some.lists(some.sampled_from(["a", "bb", "", "\r"]), max_size=8),
    some.lists(some.sampled_from(["\n", "\r\n"]), min_size=8, max_size=8),
    some.data(),
)
def test_only_the_edit_changes(lines, ends, data):
    raw = "".join(line + end for line, end in zip(lines, ends, strict=False))
    document = TextDocument(raw.encode())
    assert document.apply([]) == raw.encode()
    start = data.draw(some.integers(0, len(document.text)))
    end = data.draw(some.integers(start, len(document.text)))
    result = TextDocument(document.apply([Edit(start, end, "Z")])).text
    assert result == document.text[:start] + "Z" + document.text[end:]


@given(
    some.text("ab\n", max_size=12),
    some.lists(some.sampled_from(["x", "y"]), max_size=3),
    some.data(),
)
def test_replacing_lines_equals_replacing_list_items(text, new, data):
    target = TextLines(text)
    first = data.draw(some.integers(0, len(target.lines)))
    last = data.draw(some.integers(first, len(target.lines)))
    edit = target.replace_lines(first, last, new)
    result = TextLines(text[: edit.start] + edit.new + text[edit.end :])
    expected = [*target.lines[:first], *new, *target.lines[last:]]
    # An unended last line that is blank cannot be distinguished from an ended line before it.
    assert result.lines == expected or (not target.ended and expected[-1:] == [""])
    if expected and expected[-1]:
        assert result.ended == target.ended or not target.text


GOOD = {**CASES["good"], "deep.json": "[" * 100 + "]" * 100}
BAD = {**CASES["bad"], "deep.json": ("[" * 100_000, 0)}


@pytest.mark.parametrize("name", GOOD)
def test_valid_files_pass(name):
    assert new_syntax_problem(name, None, GOOD[name].encode("latin-1")) is None


@pytest.mark.parametrize("name", BAD)
def test_syntax_problem_names_its_line(name):
    data, line = BAD[name]
    problem = new_syntax_problem(name, None, data.encode("latin-1"))
    assert problem is not None
    assert problem.text
    assert not line or problem.line == line


def test_only_new_problems_are_reported():
    assert new_syntax_problem("a.py", b"def f(:\n", b"x = 1\ndef f(:\n") is None
    assert new_syntax_problem("a.py", b"x = 1\n", b"def f(:\n") is not None
    assert new_syntax_problem("a.json", b"{", b'{"a" 1}') is not None, "another problem"


def test_huge_file_is_left_out_and_no_warning_escapes():
    assert new_syntax_problem("a.json", None, b"{" * 600_000) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new_syntax_problem("a.py", None, b"x = '\\d'\n") is None
    deep = b"-" * 200_000 + b"1\n"
    assert new_syntax_problem("a.py", None, b"x = " + deep) is not None
