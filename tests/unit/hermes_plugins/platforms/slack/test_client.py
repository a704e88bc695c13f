"""Slack markup as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_plugins.platforms.slack.client import SlackNames, ids_in, mentions, readable_text
from hermes_plugins.platforms.slack.manifest import escape_text
from tests.cases import cases

CASES = cases(__file__)

NAMES = SlackNames({"U1": "Ann", "UME": "hermes"}, {"C1": "garden"})


@pytest.mark.parametrize(("raw", "read"), CASES["marks"])
def test_marks_become_words(raw: str, read: str) -> None:
    assert readable_text(raw, NAMES, "UME") == read


@given(st.text(max_size=60))
def test_escaped_text_reads_back_unchanged(text: str) -> None:
    assert readable_text(escape_text(text)) == text


@given(st.text(alphabet="<>@#!|&;^ab:/", max_size=40))
def test_no_marks_break_it(text: str) -> None:
    readable_text(text, NAMES, "UME")
    ids_in(text)


def test_a_mention_cannot_be_made_by_writing_it() -> None:
    """Slack escapes what people write; only its own mentions have the signs."""
    assert mentions("<@UME> hi", "UME")
    assert mentions("<@UME|hermes> hi", "UME")
    assert not mentions("&lt;@UME&gt; hi", "UME")
    assert not mentions("<@UMEX> hi", "UME")


def test_only_ids_without_names_are_looked_up() -> None:
    assert ids_in("<@U1> <@U2|bob> <#C1> <#C2|x> <https://e.org>") == ({"U1"}, {"C1"})
