"""What is read out of texts without a model: statements, claims, entities."""

import pytest

from hermes_plugins.memory.holographic.extraction import (
    extract_entities,
    extract_statements,
    normalize,
    parse_claim,
    significant_words,
)
from tests.cases import table_test


@table_test
def test_statements_about_the_user_and_requested_facts_are_extracted(message, kept):
    assert [statement.text for statement in extract_statements(message)] == kept


@pytest.mark.parametrize(
    "message",
    [
        "Do you remember when we did that?",
        "Remember when the server broke?",
        "My test is failing. Can you look?",
        "I'm a bit confused by this",
        "I like this",
        "I like the second option better",
        "I love it!",
        "I always get an error here",
        "If I prefer tabs, what changes?",
        "I would prefer tea",
        "Do I live in Berlin?",
        "Fix the bug in parser.py and run the tests",
        "> my name is quoted",
        "```\n# remember that this is code\nmy name is code\n```",
        "I use this function to read the file and then it crashes in the parser",
        "I prefer " + "x" * 400,
        "",
    ],
)
def test_anything_else_is_not(message: str) -> None:
    assert extract_statements(message) == ()


def test_requested_fact_is_trusted_more_than_a_mentioned_one() -> None:
    asked, said = extract_statements("Remember that I like tea. My editor is vim.")
    assert asked.trust > said.trust


@table_test
def test_facts_are_linked_by_names_paths_and_quoted_terms(text, found):
    assert sorted(set(extract_entities(text))) == found


@table_test
def test_same_claim_in_other_words_is_equal(one: str, other: str) -> None:
    assert parse_claim(one) == parse_claim(other) is not None


@table_test
def test_claims_that_contradict_each_other(older: str, newer: str) -> None:
    one, other = parse_claim(older), parse_claim(newer)
    assert one is not None and other is not None
    assert (one.subject, one.attribute) == (other.subject, other.attribute)
    assert one.value != other.value


@pytest.mark.parametrize("text", ["The tests are slow.", "make test", "", "x" * 5000])
def test_texts_that_claim_nothing(text: str) -> None:
    assert parse_claim(text) is None


def test_words_are_compared_without_case_signs_and_empty_words() -> None:
    assert normalize("The  Server's “Name”!") == normalize("the server name")
    assert significant_words("What is the name of my server?") == ("name", "server")
    assert significant_words("他住在北京") == ("他住", "住在", "在北", "北京")
