"""What holds for any markdown, however it is cut into pieces."""

import re

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hermes.tui.markdown import MarkdownStream
from hermes.tui.text import COLOUR, Depth, Paint, width

CHARACTERS = [
    *"ab1 世界。é,;?%&$=\"'{}", *"**__~~``#>-+.)[]()!<>|:\\", *"  \n\t", "e\u0301", "👩\u200d💻",
    "👍🏽", "❤\ufe0f", "ש", "\u200d", "\u202e", "\xa0", "\u200b", "\ud800", "https://a.b", "word ",
    "\r\n", "\r", "\x85", "\x1b[31m", "\x1b]0;t\x07", "\x1b", "\x07", "\x9b1m", "\x9d", "another ",
]  # fmt: skip
MARKED = [
    "some", "words", "**bold**", "*it", "em*", "`code`", "世界", "~~x~~", "**", "`", "[l](u)", "[a",
    "b](c)", "longlonglonglonglong", "👩\u200d💻", "\\*", "snake_case",
]  # fmt: skip
BLOCKS = [
    "", "    code", "```python", "```", "~~~", "---", "| - | - |", "|---|", "/* open", "*/ x = 1",
    '"""', "x = '''", "> ```js", ">",
]  # fmt: skip
LEADS = ["# ", "### ", "- ", "  - ", "1. ", "> ", "> > - ", "- [x] ", "    ", "| "]
NOISE = st.lists(st.sampled_from(CHARACTERS), max_size=30).map("".join)
WORDS = st.lists(st.sampled_from(MARKED), max_size=40).map(" ".join)
LINES = st.one_of(
    NOISE,
    WORDS,
    st.sampled_from(BLOCKS),
    st.tuples(st.sampled_from(LEADS), WORDS).map("".join),
    st.lists(WORDS, min_size=1, max_size=4).map(lambda cells: f"| {' | '.join(cells)} |"),
    st.integers(1, 30).map(lambda count: "**bold words that go on** and `code` on " * count),
    st.tuples(NOISE, st.integers(100, 400)).map(lambda both: (both[0] * both[1])[:1500]),
)
DOCUMENTS = st.lists(LINES, max_size=12).map("\n".join)
PAINTS = st.sampled_from([Paint(), Paint(depth=Depth.NAMED)])
WIDTHS = st.one_of(st.integers(10, 24), st.integers(25, 100))


def shown(text: str, paint: Paint, columns: int) -> list[str]:
    stream = MarkdownStream(paint, columns)
    return stream.feed(text) + stream.finish()


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, PAINTS, WIDTHS, st.lists(st.integers(1, 300), min_size=1, max_size=20), st.data())
def test_the_lines_do_not_depend_on_how_the_text_was_cut(text, paint, columns, sizes, data):
    if data.draw(st.booleans()):
        sizes = [data.draw(st.integers(1, 4))]
    stream = MarkdownStream(paint, columns)
    lines: list[str] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        lines += stream.feed(text[at : at + size])
        at, turn = at + size, turn + 1
        if turn % 7 == 0:
            stream.pending(5)
    assert lines + stream.finish() == shown(text, paint, columns)


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS, PAINTS, WIDTHS, st.integers(0, 12))
def test_every_line_fits_and_only_colours_steer_the_terminal(text, paint, columns, rows):
    stream = MarkdownStream(paint, columns)
    half = len(text) // 2
    lines = stream.feed(text[:half])
    pending = stream.pending(rows)
    assert len(pending) <= rows
    for line in [*lines, *pending, *stream.feed(text[half:]), *stream.finish()]:
        assert width(line) <= columns
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", COLOUR.sub("", line))


def letters(text: str) -> str:
    return "".join(re.findall(r"[^\W_]|[,;?/%&$=。\"'{}]", text))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(NOISE, WORDS), max_size=10).map("\n".join), WIDTHS)
def test_no_letter_of_the_model_is_lost(text: str, columns: int) -> None:
    text = re.sub("[\x1b\x9b\x9d]", "", text)
    # Named otherwise: the language of a block of code. In a different order: tables.
    assume("```" not in text and "~~~" not in text and "|" not in text)
    # Said once: a link whose text is its target.
    assume(not re.search(r"\[([^]\n]*)\]\(<?\s*\1", text.replace("\\", "")))
    assert letters("".join(shown(text, Paint(), columns))) == letters(text)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(["x = 1", "  y", "", "世界" * 20, "`a` **b**", "# no", "| a | b |"]))
)
def test_no_character_of_code_is_lost(code: list[str]) -> None:
    for paint in (Paint(), Paint(depth=Depth.TRUE)):
        lines = shown("\n".join(["```python", *code, "```"]), paint, 30)
        bare = "".join(COLOUR.sub("", line) for line in lines)
        assert bare.replace(" ", "") == "".join(code).replace(" ", "")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(WORDS.filter(bool), min_size=2, max_size=5), min_size=1, max_size=6), WIDTHS
)
def test_no_word_of_a_table_is_lost(rows: list[list[str]], columns: int) -> None:
    source = ["| " + " | ".join(row) + " |" for row in rows]
    delimiter = "|" + "---|" * len(rows[0])
    lines = shown("\n".join([source[0], delimiter, *source[1:]]), Paint(), columns)
    out = letters("".join(lines))
    for row in rows[1:]:
        for word in row:
            assert set(letters(word)) <= set(out)
    assert len(out) >= len(letters("".join(map("".join, rows))))


def test_a_stream_is_as_new_after_the_end_of_a_message() -> None:
    stream = MarkdownStream(Paint(), 40)
    first = stream.feed("> - a\n\n```python\nx = '''") + stream.finish()
    assert stream.pending(5) == []
    assert stream.feed("> - a\n\n```python\nx = '''") + stream.finish() == first
