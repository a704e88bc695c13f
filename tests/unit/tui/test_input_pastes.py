"""A long paste is short in the input and whole in the message."""

import pytest

from hermes.core.errors import UsageError
from hermes.tui.input import MAX_HISTORY_CHARS, MAX_PASTE_BYTES, PasteStore


def lines(count: int) -> str:
    return "\n".join(f"line {number}" for number in range(count))


def test_a_short_paste_is_put_in_as_it_is() -> None:
    assert PasteStore().collapse("one\ntwo\n\tthree") == "one\ntwo\n\tthree"
    assert PasteStore().collapse(lines(5)) == lines(5)
    assert PasteStore().collapse("x" * 1_000) == "x" * 1_000


def test_a_long_paste_is_collapsed_and_sent_whole() -> None:
    pastes = PasteStore()
    placed = pastes.collapse(lines(5_000))
    assert placed == "[pasted #1: 5,000 lines]"
    assert pastes.collapse("y" * 1_001) == "[pasted #2: 1,001 characters]"
    message = f"why does {placed} fail? Also [pasted #2: 1,001 characters]."
    assert pastes.expand(message) == f"why does {lines(5_000)} fail? Also {'y' * 1_001}."


def test_a_last_line_end_is_no_line_of_its_own() -> None:
    assert PasteStore().collapse("a\nb\nc\nd\ne\n") == "a\nb\nc\nd\ne\n"
    assert PasteStore().collapse("a\nb\nc\nd\ne\nf\n") == "[pasted #1: 6 lines]"


def test_line_ends_of_other_systems_become_ours() -> None:
    assert PasteStore().collapse("a\r\nb\rc\nd") == "a\nb\nc\nd"
    pastes = PasteStore()
    assert pastes.expand(pastes.collapse("a\r\n" * 9)) == "a\n" * 9


def test_nothing_pasted_steers_the_terminal() -> None:
    nasty = "\x1b[31mred\x1b[0m \x1b]52;c;ZWNobw==\x07\x9b2J bell\x07 back\x08 nul\x00 \x1b[201~end"
    assert PasteStore().collapse(nasty) == "red  bell back nul end"


def test_a_placeholder_that_was_edited_away_is_gone() -> None:
    pastes = PasteStore()
    placed = pastes.collapse(lines(9))
    assert pastes.expand("nothing of it") == "nothing of it"
    changed = placed.replace("9", "8")
    assert pastes.expand(changed) == changed


def test_what_a_paste_contains_is_not_replaced_again() -> None:
    pastes = PasteStore()
    pastes.collapse(lines(9))
    second = pastes.collapse("[pasted #1: 9 lines]\n" * 6)
    assert pastes.expand(second) == "[pasted #1: 9 lines]\n" * 6


def test_a_huge_paste_is_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match=r"more than 10\.0 MB") as refused:
        PasteStore().collapse("é" * (MAX_PASTE_BYTES // 2 + 1))
    assert "file" in refused.value.hint
    assert PasteStore().collapse("x" * MAX_PASTE_BYTES) == "[pasted #1: 10,000,000 characters]"


def test_the_history_keeps_what_later_conversations_can_use() -> None:
    pastes = PasteStore()
    short = pastes.collapse(lines(9))
    long = pastes.collapse("z" * (MAX_HISTORY_CHARS + 1))
    assert (
        pastes.for_history(f"{short} and {long}") == f"{lines(9)} and [pasted: 20,001 characters]"
    )
    assert PasteStore().expand("[pasted: 20,001 characters]") == "[pasted: 20,001 characters]"


def test_after_the_editor_unchanged_pastes_are_collapsed_again() -> None:
    pastes = PasteStore()
    first, second = pastes.collapse(lines(9)), pastes.collapse(lines(20))
    before = f"a {first} b {second}"
    edited = pastes.expand(before).replace("a line", "A line").replace("line 19", "line nineteen")
    assert pastes.restore_placeholders(edited, before) == f"A {first} b " + lines(20).replace(
        "line 19", "line nineteen"
    )
