"""Memory files as people and programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.memory.notes import contains_separator, join_entries, normalize_entry, split_entries


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
    assert split_entries(text) == found


@given(st.lists(st.text(st.sampled_from("ab §\n\r\t\x00\ufeff\u2028é"), max_size=12)))
def test_what_is_written_is_read_back(texts: list[str]) -> None:
    kept = [
        text for each in texts if (text := normalize_entry(each)) and not contains_separator(text)
    ]
    entries = tuple(dict.fromkeys(kept))
    assert split_entries(join_entries(entries)) == entries
    assert split_entries(join_entries(entries) + "\n") == entries


@given(st.text(st.characters()))
def test_reading_never_fails_and_settles_at_once(text: str) -> None:
    entries = split_entries(text)
    assert split_entries(join_entries(entries)) == entries
    assert not any(contains_separator(entry) for entry in entries)
    join_entries(entries).encode()
