"""A long paste is short in the input and whole in the message."""

import pytest

from hermes.core.errors import UsageError
from hermes.tui.input import MOST_BYTES, MOST_REMEMBERED, Pastes


def lines(count: int) -> str:
    return "\n".join(f"line {number}" for number in range(count))


def test_a_short_paste_is_put_in_as_it_is() -> None:
    assert Pastes().placed("one\ntwo\n\tthree") == "one\ntwo\n\tthree"
    assert Pastes().placed(lines(5)) == lines(5)
    assert Pastes().placed("x" * 1_000) == "x" * 1_000


def test_a_long_paste_is_collapsed_and_sent_whole() -> None:
    pastes = Pastes()
    placed = pastes.placed(lines(5_000))
    assert placed == "[pasted #1: 5,000 lines]"
    assert pastes.placed("y" * 1_001) == "[pasted #2: 1,001 characters]"
    message = f"why does {placed} fail? Also [pasted #2: 1,001 characters]."
    assert pastes.whole(message) == f"why does {lines(5_000)} fail? Also {'y' * 1_001}."


def test_a_last_line_end_is_no_line_of_its_own() -> None:
    assert Pastes().placed("a\nb\nc\nd\ne\n") == "a\nb\nc\nd\ne\n"
    assert Pastes().placed("a\nb\nc\nd\ne\nf\n") == "[pasted #1: 6 lines]"


def test_line_ends_of_other_systems_become_ours() -> None:
    assert Pastes().placed("a\r\nb\rc\nd") == "a\nb\nc\nd"
    pastes = Pastes()
    assert pastes.whole(pastes.placed("a\r\n" * 9)) == "a\n" * 9


def test_nothing_pasted_steers_the_terminal() -> None:
    nasty = "\x1b[31mred\x1b[0m \x1b]52;c;ZWNobw==\x07\x9b2J bell\x07 back\x08 nul\x00 \x1b[201~end"
    assert Pastes().placed(nasty) == "red  bell back nul end"


def test_a_placeholder_that_was_edited_away_is_gone() -> None:
    pastes = Pastes()
    placed = pastes.placed(lines(9))
    assert pastes.whole("nothing of it") == "nothing of it"
    changed = placed.replace("9", "8")
    assert pastes.whole(changed) == changed


def test_what_a_paste_contains_is_not_replaced_again() -> None:
    pastes = Pastes()
    pastes.placed(lines(9))
    second = pastes.placed("[pasted #1: 9 lines]\n" * 6)
    assert pastes.whole(second) == "[pasted #1: 9 lines]\n" * 6


def test_a_huge_paste_is_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match=r"more than 10\.0 MB") as refused:
        Pastes().placed("é" * (MOST_BYTES // 2 + 1))
    assert "file" in refused.value.hint
    assert Pastes().placed("x" * MOST_BYTES) == "[pasted #1: 10,000,000 characters]"


def test_the_history_keeps_what_later_conversations_can_use() -> None:
    pastes = Pastes()
    short = pastes.placed(lines(9))
    long = pastes.placed("z" * (MOST_REMEMBERED + 1))
    assert pastes.remembered(f"{short} and {long}") == f"{lines(9)} and [pasted: 20,001 characters]"
    assert Pastes().whole("[pasted: 20,001 characters]") == "[pasted: 20,001 characters]"


def test_after_the_editor_unchanged_pastes_are_collapsed_again() -> None:
    pastes = Pastes()
    first, second = pastes.placed(lines(9)), pastes.placed(lines(20))
    before = f"a {first} b {second}"
    edited = pastes.whole(before).replace("a line", "A line").replace("line 19", "line nineteen")
    assert pastes.folded(edited, before) == f"A {first} b " + lines(20).replace(
        "line 19", "line nineteen"
    )
