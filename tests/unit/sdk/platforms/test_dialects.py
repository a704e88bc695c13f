"""The agent's Markdown, as people see it on each platform."""

import html.parser
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sdk.platforms.kinds import DIALECTS, convert

CASES = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
TELEGRAM_TAGS = {"b", "i", "s", "code", "pre", "a", "blockquote"}
MATRIX_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "strong", "em", "del", "code", "pre", "a", "br"),
    *("blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "hr"),
}


@pytest.mark.parametrize("what", CASES)
def test_each_dialect_writes(what: str) -> None:
    for markdown, expected in CASES[what]:
        written = {dialect: convert(markdown, dialect) for dialect in expected}
        assert written == expected


def test_markup_of_the_text_cannot_become_markup_of_the_platform() -> None:
    hostile = '<script>alert(1)</script> <a href="x" onclick="y">z</a>'
    for dialect in ("telegram", "matrix", "slack"):
        assert "<" not in convert(hostile, dialect)
    assert "<!channel>" not in convert("<!channel> and <@U123>", "slack")


def test_an_address_cannot_leave_its_attribute() -> None:
    assert convert('[x](https://e.com/"onclick="y)', "telegram").count('"') == 2


def test_an_address_in_the_text_stays_whole() -> None:
    text = "see https://e.com/a_b_c*d. Then (https://e.com/x_(y)) and go."
    assert "https://e.com/a_b_c*d" in convert(text, "discord")
    assert "(https://e.com/x_(y))" in convert(text, "plain")
    assert "<https://e.com/a_b_c*d>." in convert(text, "slack")


@pytest.mark.parametrize("dialect", ["telegram", "slack", "discord", "matrix", "markdown"])
def test_code_that_is_still_being_written_is_closed(dialect) -> None:
    half = convert("look:\n```sh\necho one\necho", dialect)
    whole = convert("look:\n```sh\necho one\necho\n```", dialect)
    assert half == whole


def test_a_table_is_one_where_there_are_tables() -> None:
    table = "| name | n |\n|:-----|--:|\n| **bold** | 22 |"
    assert "<td><strong>bold</strong></td><td>22</td>" in convert(table, "matrix")
    assert "3" in convert("|a|b|\n|-|-|\n|1|2|3|", "plain")


def test_marks_are_made_harmless_where_they_cannot_be_escaped() -> None:
    assert convert(r"\*not bold\*", "slack").replace("\u200b", "") == "*not bold*"
    assert "*n" not in convert(r"\*not bold\*", "slack")
    assert "\u200b&gt;" in convert("\\> no quote", "slack")


class Tags(html.parser.HTMLParser):
    """Checks that every tag is allowed, and closed in the right order."""

    def __init__(self, allowed: set[str]) -> None:
        super().__init__()
        self.allowed, self.open, self.text = allowed, [], ""

    def handle_starttag(self, tag, attrs) -> None:
        assert tag in self.allowed
        assert {name for name, _ in attrs} <= {"href", "class", "start"}
        if tag not in {"br", "hr"}:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


PIECES = st.lists(
    st.sampled_from(
        [
            *("*", "**", "_", "__", "~~", "`", "```", "```py\n", "\n", "\n\n", "- ", "1. ", "  "),
            *("> ", "# ", "[", "](", ")", "http://a.b/c_d", "|", "|---|\n", "\\", "<", "&", "x"),
            "ä",
            *("word", "😀", "!", "\t", "---\n", '"', "</b>", "&amp;"),
        ]
    ),
    max_size=40,
).map("".join)


@given(PIECES)
def test_any_text_gives_tidy_html(text) -> None:
    for dialect, allowed in (("telegram", TELEGRAM_TAGS), ("matrix", MATRIX_TAGS)):
        tags = Tags(allowed)
        tags.feed(convert(text, dialect))
        tags.close()
        assert tags.open == []


@given(PIECES)
def test_no_word_is_lost(text) -> None:
    text = re.sub("```|~~~", "", text)  # what follows is the name of a language
    said = set(re.findall(r"word|ä|😀", text))
    for dialect in DIALECTS:
        assert said <= set(re.findall(r"word|ä|😀", convert(text, dialect)))


@pytest.mark.parametrize(
    "sign",
    ["*", "[", "`a", "**a ", "_a*b", "> ", "- ", "[a](", "[[a](b)]", "~~", "\\", "-\n", "|a"],
)
@pytest.mark.timeout(20)
def test_hostile_text_is_converted_quickly(sign) -> None:
    for dialect in ("telegram", "matrix"):
        assert convert(sign * 4_000, dialect) is not None


def test_text_nested_too_deeply_is_shown_as_it_was_written() -> None:
    text = "> " * 2_000 + "~~~ end"
    assert convert(text, "plain") == text
    assert convert(text, "telegram").startswith("<pre>&gt; &gt;")


def test_text_of_blanks_is_nothing() -> None:
    for dialect in DIALECTS:
        assert convert(" \n\n ", dialect).strip() == ""
    assert convert("a\x00b\ud800c", "telegram") == "abc"
