"""Pages of strangers: odd ones are read, broken ones cost no time and raise nothing."""

import pytest

from hermes.tools.web_pages import plain_text, sanitize_html


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<div class="[&>svg]:w-4">shown</div>', "shown"),
        ("""<p data-x='{"a": "<b>"}'>shown</p>""", "shown"),
        (
            '<a title="a > b" href="https://x.example/?a=1&amp;b=2">link</a>',
            "link (https://x.example/?a=1&b=2)",
        ),
        ("<p title=don't>it's</p>", "it's"),
        ("1 < 2 and <b>bold</b>", "1 < 2 and bold"),
        ("a<!-- <p>no</p> -->b<!-- never closed", "ab"),
        ("<!DOCTYPE html><?xml version='1.0'?><![CDATA[x]]>shown", "shown"),
        ("""<script>if (a < b) { x = "</div><p>no</p>" }</script>after""", "after"),
        ("<p>open <", "open <"),
    ],
)
def test_what_is_shown(html: str, text: str) -> None:
    assert plain_text(html).text == text


@pytest.mark.parametrize(
    "unit",
    ["<a ", "</", "</a ", "<!--", "<![", "<!", "<?", "&#", "<a b='", '<a ="<a ="x', "<script>"],
)
def test_broken_pages_are_read_to_the_end(unit: str) -> None:
    """Each took the parser alone from minutes to hours, or it raised."""
    plain_text((unit * 100_000)[:200_000])


def test_only_what_is_looked_at_is_kept_of_a_tag() -> None:
    assert sanitize_html('<p onclick="x()" CLASS=a hidden>') == '<p CLASS="a" hidden="">'
