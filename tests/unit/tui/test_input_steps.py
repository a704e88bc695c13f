"""The cursor goes over whole signs and whole placeholders."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.tui.input import CursorSteps, PasteStore

FAMILY, FLAGS, ACCENT, HAND = "👨‍👩‍👧", "🇩🇪🇫🇷", "e\u0301", "👍🏽"


def places(text: str, steps: CursorSteps) -> list[int]:
    found = [0]
    while found[-1] < len(text):
        found.append(steps.after(text, found[-1]))
    return found


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("abc", ["a", "b", "c"]),
        ("漢字", ["漢", "字"]),
        (f"a{FAMILY}b", ["a", FAMILY, "b"]),
        (FLAGS, ["🇩🇪", "🇫🇷"]),
        (f"{ACCENT}x{HAND}", [ACCENT, "x", HAND]),
        ("שלום", list("שלום")),
        ("مَرْ", ["مَ", "رْ"]),
        ("한국", ["한", "국"]),
    ],
)
def test_one_step_is_one_sign(text: str, signs: list[str]) -> None:
    steps = CursorSteps(PasteStore())
    at = places(text, steps)
    assert [text[start:end] for start, end in pairwise(at)] == signs
    assert [steps.before(text, each) for each in at[1:]] == at[:-1]


@given(st.text(alphabet="ab\n漢👨\u200d👩🇩\u0301שमी्", max_size=40))
def test_there_and_back_is_the_same_way(text: str) -> None:
    steps = CursorSteps(PasteStore())
    at = places(text, steps)
    for start, end in pairwise(at):
        assert steps.before(text, end) == start
        for inside in range(start + 1, end):
            assert steps.snap(text, inside, came_from=0) == end
            assert steps.snap(text, inside, came_from=len(text)) == start
        assert steps.snap(text, start, came_from=0) == start


def test_a_placeholder_is_one_step() -> None:
    pastes = PasteStore()
    steps, mark = CursorSteps(pastes), pastes.collapse("line\n" * 9)
    text = f"a{mark}b"
    end = 1 + len(mark)
    assert places(text, steps) == [0, 1, end, end + 1]
    assert steps.before(text, end) == 1
    assert steps.snap(text, 5, came_from=0) == end
    assert steps.snap(text, 5, came_from=end) == 1


def test_deleting_a_part_of_a_placeholder_deletes_it() -> None:
    pastes = PasteStore()
    steps, mark = CursorSteps(pastes), pastes.collapse("line\n" * 9)
    text = f"see {mark}now"
    assert steps.widen(text, len(text) - 9, len(text)) == (4, len(text))
    assert steps.widen(text, 0, 3) == (0, 3)


def test_what_only_looks_like_a_placeholder_is_text() -> None:
    steps = CursorSteps(PasteStore())
    assert steps.after("[pasted #1: 9 lines]", 0) == 1
