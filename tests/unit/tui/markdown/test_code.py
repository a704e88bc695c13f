"""Blocks of code: every character kept, coloured while they arrive."""

from collections.abc import Iterable

import pytest
from pygments.lexers import get_lexer_by_name

from hermes.tui.markdown import MarkdownStream
from hermes.tui.markdown.code import _roles, find_highlighter
from hermes.tui.markdown.parser import Run
from hermes.tui.text import COLOUR, Depth, Paint
from tests.cases import cases

CASES = cases(__file__)

STRING, COMMENT, KEYWORD = "\x1b[32m", "\x1b[2m", "\x1b[35m"


def shown(text: str, columns: int = 40, depth: Depth = Depth.NONE) -> list[str]:
    stream = MarkdownStream(Paint(depth=depth), columns)
    return stream.feed(text) + stream.finish()


def test_code_is_indented_and_nothing_in_it_is_markup() -> None:
    text = "```\n**a** `b`\n\n# c | d\n\te\n| - |\n```\n**after**"
    assert shown(text) == [
        "    **a** `b`", "", "    # c | d", "        e", "    | - |", "after"
    ]  # fmt: skip


@pytest.mark.parametrize("text", CASES["block ends where its fence does"])
def test_a_block_ends_where_its_fence_does(text: str) -> None:
    lines = [line.strip() for line in shown(text)]
    assert [line for line in lines if line != "```"] == ["a", "b"]


def test_a_fence_that_is_never_closed_ends_with_the_message() -> None:
    assert shown("```python\nx = 1\n\ny") == ["    x = 1", "", "    y"]


def test_code_in_a_list_stands_under_its_text() -> None:
    text = "1. a\n   ```\n   x\n     y\n   ```\n2. b\n\n       indented\n"
    assert shown(text) == ["1. a", "       x", "         y", "2. b", "", "       indented"]


def test_indented_code_keeps_its_blank_lines() -> None:
    assert shown("a\n\n    x\n\n\n      y\n\nb") == ["a", "", "    x", "", "", "      y", "", "b"]


def test_long_lines_are_broken_at_the_column_without_loss() -> None:
    line = "call(" + ", ".join(f"argument_{number}" for number in range(9)) + ")"
    lines = shown(f"```\n{line}\n```")
    assert all(len(each) <= 40 for each in lines)
    assert lines[0] == "    " + line[:36]
    assert lines[1] == "      " + line[36:70]
    assert "".join([lines[0][4:], *(each[6:] for each in lines[1:])]) == line


def test_a_string_over_lines_stays_a_string() -> None:
    lines = shown('```python\nx = """a\ndef b\n"""\ndef c(): pass\n```', 40, Depth.NAMED)
    assert lines[0].endswith(f'{STRING}"""a\x1b[0m')
    assert lines[1] == f"  {STRING}def b\x1b[0m"
    assert lines[2] == f'  {STRING}"""\x1b[0m'
    assert lines[3].startswith(f"  {KEYWORD}def\x1b[0m")


@pytest.mark.parametrize("language", ["js", "ts", "c", "c++", "java", "go", "css", "rust", "sql"])
def test_a_comment_over_lines_stays_a_comment(language: str) -> None:
    lines = shown(f"```{language}\n/* if\nfor `x\n*/ y\n```", 40, Depth.NAMED)
    assert lines[0] == f"  {COMMENT}/* if\x1b[0m"
    assert lines[1] == f"  {COMMENT}for `x\x1b[0m"
    assert lines[2].startswith(f"  {COMMENT}*/\x1b[0m")
    assert COMMENT not in lines[2].removeprefix(f"  {COMMENT}*/\x1b[0m")


@pytest.mark.parametrize(("language", "code"), CASES["line by line looks as pygments reads it"])
def test_line_by_line_looks_as_pygments_reads_it_whole(language: str, code: str) -> None:
    by_line = find_highlighter(language)
    assert by_line is not None
    tokens = get_lexer_by_name(language).get_tokens_unprocessed(code + "\n")
    whole = [(text, _roles(kind)) for _, kind, text in tokens]
    assert letters(run for line in code.split("\n") for run in by_line.line(line)) == letters(whole)


def letters(runs: Iterable[Run]) -> list[Run]:
    return [(letter, roles) for text, roles in runs for letter in text if letter.strip()]


@pytest.mark.parametrize("info", ["nosuchlanguage", "", "text", "mermaid-x {a}", "{}", "***"])
def test_an_unknown_language_is_plain(info: str) -> None:
    assert shown(f"```{info}\nif x: y\n```", 40, Depth.TRUE) == ["  if x: y"]


@pytest.mark.parametrize("info", ["python", "Python", "py title=x", "{.python}", "python,ignore"])
def test_a_language_is_known_by_any_of_its_names(info: str) -> None:
    assert shown(f"```{info}\nimport x\n```", 40, Depth.NAMED)[0].startswith(f"  {KEYWORD}")


def test_diffs_are_coloured_by_line() -> None:
    text = "```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n```"
    lines = shown(text, 40, Depth.NAMED)
    assert [COLOUR.sub("", line)[2:] for line in lines] == text.split("\n")[1:-1]
    assert lines[2:] == [
        "  \x1b[36m@@ -1 +1 @@\x1b[0m", "  \x1b[31m-old\x1b[0m", "  \x1b[32m+new\x1b[0m", "   same"
    ]  # fmt: skip


def test_a_skin_may_name_the_colours_of_code() -> None:
    paint = Paint({"syntax.keyword": "red"}, Depth.NAMED)
    assert MarkdownStream(paint, 40).feed("```python\nimport x\n")[0].startswith("  \x1b[31mimport")
