"""What is shown of text that is not finished."""

import cProfile
import pstats

import pytest

from hermes.tui.markdown import MarkdownStream
from hermes.tui.text import Depth, Paint
from tests.cases import cases

CASES = cases(__file__)


def pending(text: str, rows: int = 10, depth: Depth = Depth.NONE) -> list[str]:
    stream = MarkdownStream(Paint(depth=depth), 40)
    stream.feed(text)
    return stream.pending(rows)


BARE = [
    "", "#", "##", "-", "- ", "* ", "**", "`", "```", "```py", "1.", "> ", "---", "~~", "- [", "|",
    "- [x]", "```py\n", "```py\n`", "```py\n``", "done\n",
]  # fmt: skip


@pytest.mark.parametrize("text", BARE)
def test_markup_without_text_is_not_shown(text: str) -> None:
    assert pending(text) == []


@pytest.mark.parametrize(("text", "lines"), CASES["open markup looks as it will"])
def test_open_markup_looks_as_it_will(text: str, lines: list[str]) -> None:
    assert pending(text) == lines


def test_open_markup_has_its_colour() -> None:
    assert pending("a **b", depth=Depth.NAMED) == ["a \x1b[1mb\x1b[0m"]
    assert pending("a `b", depth=Depth.NAMED) == ["a \x1b[33mb\x1b[0m"]
    assert pending("```python\nimport x", depth=Depth.NAMED) == [
        "  \x1b[35mimport\x1b[0m \x1b[34mx\x1b[0m"
    ]
    assert pending('```python\n"""a\nb', depth=Depth.NAMED) == ["  \x1b[32mb\x1b[0m"]


def test_a_look_changes_nothing() -> None:
    stream, other = MarkdownStream(Paint(), 40), MarkdownStream(Paint(), 40)
    lines: list[str] = []
    text = "# a\n\n- **b\n```js\n/* c\n\n*/ d\n```\n| e |\n|---|\n| f |\n"
    for character in text:
        lines += stream.feed(character)
        assert stream.pending(3) == stream.pending(3)
    assert lines + stream.finish() == other.feed(text) + other.finish()


@pytest.mark.parametrize("start", ["", "```\n", "| ", "- ", "> "])
def test_only_the_last_rows_of_something_long_are_shown(start: str) -> None:
    lines = pending(start + "word " * 2000 + "end", 3)
    assert 2 <= len(lines) <= 3
    assert lines[-1].endswith("end")
    assert pending(start + "word " * 2000, 0) == []


def calls(text: str) -> int:
    """How many functions are called to show a text that comes in pieces."""
    stream = MarkdownStream(Paint(depth=Depth.NAMED), 80)
    profile = cProfile.Profile()
    with profile:
        for at in range(0, len(text), 4):
            stream.feed(text[at : at + 4])
            if at % 400 == 0:
                stream.pending(8)
        stream.finish()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("start", "part"), CASES["twice the text costs twice the work"])
def test_twice_the_text_costs_twice_the_work(start: str, part: str) -> None:
    calls(start + part)  # what is loaded on first use
    once, twice = calls(start + part * 150), calls(start + part * 300)
    assert twice < 2.4 * once
