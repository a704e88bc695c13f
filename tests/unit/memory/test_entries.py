"""Memory files as people and programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.memory.entries import holds_separator, join, split, tidy


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("one", ("one",)),
        ("one\n§\ntwo\n", ("one", "two")),
        ("\n§\none\n  § \t\n\n§\n two\nlines \n§", ("one", "two\nlines")),
        ("\ufeffone\r\n§\r\ntwo\r\nlines", ("one", "two\nlines")),
        ("same\n§\nsame\n§\nother", ("same", "other")),
        ("see § 5 of the law\n§ 6 too", ("see § 5 of the law\n§ 6 too",)),
        ("- a list\n- by hand", ("- a list\n- by hand",)),
        ("one\u00a0\n§\u00a0\ntwo", ("one", "two")),
    ],
)
def test_what_people_write_is_read(text: str, found: tuple[str, ...]) -> None:
    assert split(text) == found


@given(st.lists(st.text(st.sampled_from("ab §\n\r\t\x00\ufeff\u2028é"), max_size=12)))
def test_what_is_written_is_read_back(texts: list[str]) -> None:
    kept = [text for each in texts if (text := tidy(each)) and not holds_separator(text)]
    entries = tuple(dict.fromkeys(kept))
    assert split(join(entries)) == entries
    assert split(join(entries) + "\n") == entries


@given(st.text(st.characters()))
def test_reading_never_fails_and_settles_at_once(text: str) -> None:
    entries = split(text)
    assert split(join(entries)) == entries
    assert not any(holds_separator(entry) for entry in entries)
    join(entries).encode()
