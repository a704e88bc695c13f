"""Which part of a long conversation is looked at."""

from hypothesis import given
from hypothesis import strategies as st

from hermes.tools.builtin.session_search import GAP, select_around

PIECES = [f"message {number}" for number in range(10)]


def test_a_short_conversation_is_there_whole() -> None:
    assert select_around(PIECES, [4], 1000) == "\n".join(PIECES)
    assert select_around([], [], 10) == ""


def test_of_a_long_one_what_is_nearest_to_the_matches() -> None:
    shown = select_around(PIECES, [2, 7], 6 * len("message 0\n"))
    assert shown.splitlines() == [
        GAP, "message 1", "message 2", "message 3",
        GAP, "message 6", "message 7", "message 8", GAP,
    ]  # fmt: skip


def test_without_a_match_the_beginning_is_shown() -> None:
    assert select_around(PIECES, [], 25).splitlines() == ["message 0", "message 1", GAP]


def test_a_huge_match_is_there_all_the_same() -> None:
    assert select_around(["a", "b" * 50, "c"], [1], 10).splitlines() == [GAP, "b" * 50, GAP]


@given(
    st.lists(st.text("ab", max_size=8), max_size=12),
    st.sets(st.integers(0, 11)),
    st.integers(0, 60),
)
def test_it_keeps_the_order_and_the_size(pieces: list[str], centres: set[int], room: int) -> None:
    pieces = [f"{number}:{piece}" for number, piece in enumerate(pieces)]
    lines = select_around(pieces, centres, room).splitlines()
    kept = [line for line in lines if line != GAP]
    assert kept == [piece for piece in pieces if piece in kept]
    assert len(kept) <= 1 or sum(len(line) + 1 for line in kept) <= room
    assert (GAP in lines) == (len(kept) < len(pieces))
