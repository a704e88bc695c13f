"""The line that tells that the agent is at work."""

import random

import pytest

from hermes.tui.skins import Skin, Spinner
from hermes.tui.text import Depth, Paint, width
from hermes.tui.view import SpinnerLine, SpinnerPhase

FACES = Skin(
    spinner=Spinner(
        waiting_faces=("(o_o)", "(日)"),
        thinking_faces=("(-_-)zzz",),
        thinking_verbs=("pondering", "musing"),
        wings=(("<", ">"), ("<<", ">>")),
    )
)


def line(skin: Skin = FACES, seed: int = 1, depth: Depth = Depth.NONE) -> SpinnerLine:
    return SpinnerLine(skin, Paint(skin.colors, depth), random.Random(seed))


def test_what_it_says() -> None:
    spinner = line(Skin())
    assert spinner.text(0.0, 0.0, "waiting", 0, 80) == "⠋ thinking… 0 s · ctrl-c stops"
    assert spinner.text(12.7, 0.0, "writing", 1234, 80) == (
        "⠦ writing… 12 s · 1,234 tokens · ctrl-c stops"
    )
    assert spinner.text(3700.0, 0.0, "tools", 0, 80) == "⠋ working… 1 h 01 min · ctrl-c stops"


def test_nothing_moves_but_the_frames() -> None:
    spinner = line()
    phases: tuple[SpinnerPhase, ...] = ("waiting", "thinking")
    texts = [spinner.text(at / 10, 0.0, phase, 0, 80) for at in range(99) for phase in phases]
    assert len({text.partition(" ")[0] for text in texts}) == 3
    assert len({width(text.partition(" s ")[0]) for text in texts}) == 1


def test_each_turn_has_a_verb_of_its_own() -> None:
    spinner = line()
    verbs = {
        word
        for began in range(20)
        for word in ("pondering", "musing")
        if word in spinner.text(began + 5.0, float(began), "waiting", 0, 80)
    }
    assert verbs == {"pondering", "musing"}
    first = spinner.text(100.0, 100.0, "thinking", 0, 80)
    later = spinner.text(101.3, 100.0, "thinking", 0, 80)
    assert ("pondering" in first) == ("pondering" in later)


@pytest.mark.parametrize("columns", [1, 5, 12, 20, 30, 40, 80])
def test_it_always_fits(columns: int) -> None:
    for at in range(30):
        text = line(depth=Depth.TRUE).text(at * 40.0, 0.0, "thinking", 123_456, columns)
        assert width(text) <= columns
    assert "ctrl-c stops" in line().text(9.0, 0.0, "waiting", 9999, 40)


def test_a_skin_without_faces() -> None:
    bare = Skin(spinner=Spinner(waiting_faces=(), thinking_verbs=()))
    assert line(bare).text(1.0, 0.0, "waiting", 0, 80) == "thinking… 1 s · ctrl-c stops"
