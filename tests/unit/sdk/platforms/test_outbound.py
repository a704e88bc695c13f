"""Splitting answers into messages that fit the platform."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.sdk.platforms import Capabilities, Media, OutgoingMessage, compose, measure, split_text
from tests.unit.sdk.platforms.kinds import DIALECTS, convert

FAMILY = "👩‍👩‍👧‍👦"


def test_text_that_fits_stays_as_it_is() -> None:
    assert split_text("one\n\ntwo", 100) == ["one\n\ntwo"]


def test_blank_text_has_no_parts() -> None:
    assert split_text(" \n\n ", 100) == []
    assert split_text("", 100) == []


def test_a_cut_is_made_between_paragraphs_if_possible() -> None:
    first, second = "First. " * 8, "Second. " * 8
    assert split_text(f"{first}\n\n{second}", 80) == [first.strip(), second.strip()]


def test_then_between_lines_sentences_and_words() -> None:
    for limit, *parts in (
        (25, "a line of words\n", "another line of words"),
        (30, "This is one sentence. ", "This is another one"),
        (16, "some words ", "without an end ", "to them"),
    ):
        assert split_text("".join(parts), limit) == [part.strip() for part in parts]


def test_code_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(12))
    parts = split_text(f"See:\n\n```python\n{code}\n```\n\nThat is all.", 90)
    assert len(parts) > 2
    for part in parts:
        assert part.count("```") % 2 == 0
        assert len(part) <= 90
    inside = [part for part in parts if "line_" in part]
    assert all("```python\n" in part for part in inside)
    assert re.findall(r"line_\d+ = \d+", "\n".join(parts)) == code.split("\n")


def test_an_end_of_code_that_falls_on_the_cut_leaves_no_empty_code() -> None:
    for limit in range(40, 70):
        for part in split_text("```py\n" + "x = 1\n" * 12 + "```\nafter it", limit):
            assert not re.search(r"```py\n+```", part)
            assert convert(part, "telegram")


def test_the_name_of_a_language_is_not_cut() -> None:
    for limit in range(30, 60):
        parts = split_text(
            "some words before it all\n```javascript\nlet a = 1\nlet b = 2\n```", limit
        )
        assert not any(re.search(r"```javascrip\b", part) for part in parts)


@pytest.mark.parametrize(("counts", "limit"), [("characters", 50), ("utf16", 80), ("bytes", 150)])
def test_no_sign_is_parted(counts, limit) -> None:
    parts = split_text(FAMILY * 30, limit, counts)
    assert "".join(parts) == FAMILY * 30
    assert all(part == FAMILY * (len(part) // len(FAMILY)) for part in parts)
    assert all(measure(part, counts) <= limit for part in parts)


def test_length_is_counted_as_the_platform_counts() -> None:
    assert measure("a😀ü", "characters") == 3
    assert measure("a😀ü", "utf16") == 4
    assert measure("a😀ü", "bytes") == 7


def test_a_sign_longer_than_the_limit_is_cut_rather_than_lost() -> None:
    monster = "z" + "\u0300" * 500
    assert "".join(split_text(monster, 100)) == monster


TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *("```py\n", "```\n", "\n```\n", "~~~\n", "\n", "\n\n", "- item ", "  - deeper "),
                *("**bold** ", "`code` ", "# Head\n", "> quote ", "| a | b |\n|---|---|\n", FAMILY),
                *("<tag> & ", "A sentence. ", "é", "𝒳", "x" * 90, "[l](https://e.com/x)", "    "),
            ]
        ),
        st.text(alphabet="abc äö€.\n", max_size=30),
    ),
    max_size=30,
).map("".join)


def words(text: str) -> str:
    """Without blanks, and without what is put around code that was cut."""
    return re.sub(r"\s|```py|```|~~~", "", text)


@given(
    TEXTS,
    st.integers(80, 300),
    st.sampled_from(["characters", "utf16", "bytes"]),
    st.sampled_from(["plain", "telegram", "slack", "discord", "matrix", "markdown"]),
)
def test_every_part_fits_and_nothing_is_lost(text, limit, counts, dialect) -> None:
    parts = split_text(text, limit, counts, lambda part: convert(part, dialect))
    for part in parts:
        assert part.strip()
        assert convert(part, dialect).strip()
        assert measure(convert(part, dialect), counts) <= limit
    as_written = split_text(text, limit, counts)
    assert words("".join(as_written)) == words(text)


@given(TEXTS, st.integers(80, 300))
def test_code_of_every_part_is_closed(text, limit) -> None:
    for part in split_text(text, limit)[:-1]:
        assert convert(part, "markdown") == part.strip("\n")


TELEGRAM = Capabilities(4096, "utf16", DIALECTS["telegram"], media_out=("image", "document"))


def test_an_answer_is_in_the_dialect_and_also_plain() -> None:
    assert compose("**yes** & no", TELEGRAM) == [
        OutgoingMessage("<b>yes</b> &amp; no", plain="yes & no")
    ]


def test_a_long_answer_is_several_messages() -> None:
    parts = compose("word " * 2000, TELEGRAM)
    assert len(parts) == 3
    assert all(len(part.text) <= 4096 and part.plain for part in parts)


def test_blank_answer_makes_no_message() -> None:
    assert compose("  \n ", TELEGRAM) == []


def test_a_file_becomes_a_message_of_its_own() -> None:
    picture = Media("image", "a.png", "image/png", 3, path="/copies/a.png")
    text, file = compose("Here:", TELEGRAM, [picture])
    assert (text.text, text.media) == ("Here:", ())
    assert file == OutgoingMessage(media=(picture,))
