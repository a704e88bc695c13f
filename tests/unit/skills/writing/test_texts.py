"""Replacing a part of a text."""

import pytest

from hermes.skills.writing.draft import ChangeRefused, replace_text

TEXT = "one\n  two  words\nthree\n\none\n"


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("three", "3", "one\n  two  words\n3\n\none\n"),
        ("two words\nthree\n", "2\n3\n", "one\n2\n3\n\none\n"),
        ("\ttwo words", "2", "one\n2\nthree\n\none\n"),
        ("  two  words\n", "", "one\nthree\n\none\n"),
        ("three\n\none", "x", "one\n  two  words\nx\n"),
        ("two words", "", "one\nthree\n\none\n"),
    ],
)
def test_the_one_place_is_found_exactly_or_but_for_spaces(old, new, result):
    assert replace_text(TEXT, old, new, replace_all=False) == result


def test_line_ends_stay_those_of_the_file():
    assert replace_text("a\r\nb  c\r\nd", "b c", "x\ny", replace_all=False) == "a\r\nx\r\ny\r\nd"
    assert replace_text("a\nb  c", "b c", "x", replace_all=False) == "a\nx"


def test_several_places():
    with pytest.raises(ChangeRefused, match="is in it 2 times"):
        replace_text(TEXT, "one", "1", replace_all=False)
    assert replace_text(TEXT, "one", "1", replace_all=True).count("1\n") == 2
    with pytest.raises(ChangeRefused, match="is in it 2 times"):
        replace_text("a  b\na  b\n", "a b", "x", replace_all=True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [("", "x", "is empty"), (" \n", "x", "is empty"), ("a", "a", "the same"),
     ("four", "4", "is not in it")],
)  # fmt: skip
def test_what_cannot_be_replaced(old, new, problem):
    with pytest.raises(ChangeRefused, match=problem):
        replace_text(TEXT, old, new, replace_all=False)


SEEN = "# Steps\n\n1. Look:\n\n```bash\nls\n```\n2. Go.\n"


@pytest.mark.parametrize(
    "old", ["1. Look:\n\n```bash\nls", "1. Look:\n\n<!--  tried -->\n```bash\nls"]
)
def test_comments_the_agent_was_not_shown_are_no_hindrance(old):
    text = SEEN.replace("```bash", "<!-- tried -->\n```bash")
    assert (
        replace_text(text, old, "1. See", replace_all=False) == "# Steps\n\n1. See\n```\n2. Go.\n"
    )


def test_a_comment_alone_is_replaced_only_as_it_stands():
    with pytest.raises(ChangeRefused, match="is not in it"):
        replace_text(SEEN, "<!-- gone -->", "x", replace_all=False)
