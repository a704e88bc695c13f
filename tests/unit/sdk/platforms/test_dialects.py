"""The agent's Markdown, as people see it on each platform."""

import html.parser
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sdk.platforms.kinds import DIALECTS, convert

TELEGRAM_TAGS = {"b", "i", "s", "code", "pre", "a", "blockquote"}
MATRIX_TAGS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "strong", "em", "del", "code", "pre", "a", "br"),
    *("blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "hr"),
}


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        ("plain", "bold italic gone code"),
        ("telegram", "<b>bold</b> <i>italic</i> <s>gone</s> <code>code</code>"),
        ("slack", "*bold* _italic_ ~gone~ `code`"),
        ("discord", "**bold** *italic* ~~gone~~ `code`"),
        ("matrix", "<strong>bold</strong> <em>italic</em> <del>gone</del> <code>code</code>"),
        ("markdown", "**bold** *italic* ~~gone~~ `code`"),
        ("email", "bold italic gone code"),
    ],
)
def test_emphasis(dialect, written) -> None:
    assert convert("**bold** *italic* ~~gone~~ `code`", dialect) == written


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        ("plain", "see here (https://e.com/a_b)"),
        ("telegram", 'see <a href="https://e.com/a_b">here</a>'),
        ("slack", "see <https://e.com/a_b|here>"),
        ("discord", "see [here](https://e.com/a_b)"),
        ("matrix", 'see <a href="https://e.com/a_b">here</a>'),
        ("email", "see here <https://e.com/a_b>"),
    ],
)
def test_links(dialect, written) -> None:
    assert convert("see [here](https://e.com/a_b)", dialect) == written


@pytest.mark.parametrize(
    ("dialect", "written"),
    [
        ("telegram", "a &lt; b &amp; c &gt; d"),
        ("slack", "a &lt; b &amp; c &gt; d"),
        ("matrix", "a &lt; b &amp; c &gt; d"),
        ("discord", "a < b & c > d"),
        ("plain", "a < b & c > d"),
    ],
)
def test_signs_of_markup_are_text(dialect, written) -> None:
    assert convert("a < b & c > d", dialect) == written


def test_markup_of_the_text_cannot_become_markup_of_the_platform() -> None:
    hostile = '<script>alert(1)</script> <a href="x" onclick="y">z</a>'
    for dialect in ("telegram", "matrix", "slack"):
        assert "<" not in convert(hostile, dialect)
    assert "<!channel>" not in convert("<!channel> and <@U123>", "slack")


def test_a_link_can_only_lead_to_an_address() -> None:
    for dialect in ("telegram", "matrix", "slack", "discord"):
        assert convert("[click](javascript:alert(1))", dialect) == "click (javascript:alert(1))"
    assert convert('[x](https://e.com/"onclick="y)', "telegram").count('"') == 2


def test_an_address_in_the_text_stays_whole() -> None:
    text = "see https://e.com/a_b_c*d. Then (https://e.com/x_(y)) and go."
    assert "https://e.com/a_b_c*d" in convert(text, "discord")
    assert "(https://e.com/x_(y))" in convert(text, "plain")
    assert "<https://e.com/a_b_c*d>." in convert(text, "slack")


def test_code_keeps_its_signs_and_its_language() -> None:
    text = "```python\nif a < b:\n    print('**x**')\n```"
    assert convert(text, "telegram") == (
        "<pre><code class=\"language-python\">if a &lt; b:\n    print('**x**')</code></pre>"
    )
    assert convert(text, "slack") == "```\nif a &lt; b:\n    print('**x**')\n```"
    assert convert(text, "discord") == text
    assert convert(text, "plain") == "if a < b:\n    print('**x**')"


@pytest.mark.parametrize("dialect", ["telegram", "slack", "discord", "matrix", "markdown"])
def test_code_that_is_still_being_written_is_closed(dialect) -> None:
    half = convert("look:\n```sh\necho one\necho", dialect)
    whole = convert("look:\n```sh\necho one\necho\n```", dialect)
    assert half == whole


def test_a_table_is_aligned_where_there_are_no_tables() -> None:
    table = "| name | n |\n|:-----|--:|\n| 日本語 | 1 |\n| **bold** | 22 |"
    lines = "name   | n\n-------+---\n日本語 | 1\nbold   | 22"
    assert convert(table, "plain") == lines
    assert convert(table, "slack") == convert(table, "discord") == f"```\n{lines}\n```"
    assert "<td><strong>bold</strong></td><td>22</td>" in convert(table, "matrix")


def test_lists_keep_their_levels_and_numbers() -> None:
    text = "- one\n  - two\n    1. three\n    2. four\n- five\n\n  more of five\n3. six\n4. seven"
    assert convert(text, "telegram") == (
        "• one\n  • two\n    1. three\n    2. four\n• five\n  more of five\n\n3. six\n4. seven"
    )
    assert convert("* a\n* b", "matrix") == "<ul><li>a</li><li>b</li></ul>"
    assert convert("7. a\n8. b", "matrix") == '<ol start="7"><li>a</li><li>b</li></ol>'


def test_code_in_a_list_is_code() -> None:
    text = "1. run\n   ```sh\n   ls -l\n   ```\n2. done"
    assert convert(text, "discord") == "1. run\n   ```sh\nls -l\n```\n2. done"


def test_headings() -> None:
    assert convert("# One\n\n#### Four #", "discord") == "# One\n\n**Four**"
    assert convert("## Two", "telegram") == "<b>Two</b>"
    assert convert("## Two", "matrix") == "<h2>Two</h2>"
    assert convert("# One", "email") == "One\n==="
    assert convert("#hashtag", "plain") == "#hashtag"


def test_quotes() -> None:
    text = "> said\n> > before\n\nafter"
    assert convert(text, "telegram") == "<blockquote>said\nbefore</blockquote>\n\nafter"
    assert convert(text, "slack") == "> said\n> > before\n\nafter"


def test_underscores_in_words_and_sums_are_not_emphasis() -> None:
    for dialect in ("plain", "telegram", "matrix"):
        assert convert("snake_case_name and 2 * 3 * 4", dialect) == "snake_case_name and 2 * 3 * 4"
    assert convert("snake_case", "discord") == "snake\\_case"


@pytest.mark.parametrize(
    ("markdown", "written"),
    [
        ("2*3*4 = 24, 2**3**2", "2*3*4 = 24, 2**3**2"),
        ("第**3**章 un*believ*able", "第<b>3</b>章 un<i>believ</i>able"),
        ("**bold*in*bold**", "<b>bold<i>in</i>bold</b>"),
        ("***both** one*", "<i><b>both</b> one</i>"),
        ("one\\\ntwo  \nthree", "one\ntwo\nthree"),
        ("[a](http://e.com/b(c(d)e))", '<a href="http://e.com/b(c(d)e)">a</a>'),
        ("[a](<http://e.com/b c>)", '<a href="http://e.com/b%20c">a</a>'),
    ],
)
def test_ambiguous_markdown_is_converted_correctly(markdown, written) -> None:
    assert convert(markdown, "telegram") == written


def test_escaped_characters_are_not_emphasis() -> None:
    assert convert(r"\*not bold\* \_nor this\_", "telegram") == "*not bold* _nor this_"
    assert convert(r"\*not bold\*", "discord") == r"\*not bold\*"
    assert convert(r"\*not bold\*", "slack").replace("\u200b", "") == "*not bold*"
    assert "*n" not in convert(r"\*not bold\*", "slack")


def test_the_beginning_of_a_line_is_escaped_where_it_would_count() -> None:
    assert convert("2024\\. was", "discord") == "2024\\. was"
    assert convert("\\# no heading", "discord") == "\\# no heading"
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


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_any_text_gives_tidy_html(text) -> None:
    for dialect, allowed in (("telegram", TELEGRAM_TAGS), ("matrix", MATRIX_TAGS)):
        tags = Tags(allowed)
        tags.feed(convert(text, dialect))
        tags.close()
        assert tags.open == []


@settings(max_examples=150, deadline=None)
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


def test_no_cell_of_a_table_is_lost() -> None:
    assert convert("a | b\n-|-\n1\n", "plain") == "a | b\n--+--\n\n1"
    assert "3" in convert("|a|b|\n|-|-|\n|1|2|3|", "plain")


def test_text_of_blanks_is_nothing() -> None:
    for dialect in DIALECTS:
        assert convert(" \n\n ", dialect).strip() == ""
    assert convert("a\x00b\ud800c", "telegram") == "abc"
