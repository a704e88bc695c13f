"""The spinner and the status line at every width."""

import random

import pytest

from hermes.tui.skins import Skin, Spinner
from hermes.tui.text import Depth, Paint, format_duration, width
from hermes.tui.view import SpinnerLine, SpinnerPhase, StatusInfo, format_cost, status_line

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


def test_spinner_shows_state_time_and_tokens() -> None:
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
def test_the_spinner_line_always_fits(columns: int) -> None:
    for at in range(30):
        text = line(depth=Depth.TRUE).text(at * 40.0, 0.0, "thinking", 123_456, columns)
        assert width(text) <= columns
    assert "ctrl-c stops" in line().text(9.0, 0.0, "waiting", 9999, 40)


def test_a_skin_without_faces() -> None:
    bare = Skin(spinner=Spinner(waiting_faces=(), thinking_verbs=()))
    assert line(bare).text(1.0, 0.0, "waiting", 0, 80) == "thinking… 1 s · ctrl-c stops"


FULL = StatusInfo("vendor/some-model-4", 0.123, 0.97, 0.1234, 83.0, ("2 queued",))


def test_status_line_drops_fields_to_fit_the_width() -> None:
    assert status_line(FULL, 100, Paint()) == (
        "some-model-4 │ █░░░░░░░ 12% │ cache 97% │ $0.1234 │ 1 min 23 s │ 2 queued"
    )
    assert status_line(FULL, 60, Paint()) == "some-model-4 │ 12% │ cache 97% │ $0.1234 │ 2 queued"
    assert status_line(FULL, 40, Paint()) == "some-model-4 │ 12% │ 2 queued"
    assert status_line(StatusInfo("m"), 100, Paint()) == "m"


@pytest.mark.parametrize("columns", range(12, 120, 3))
def test_the_status_line_always_fits(columns: int) -> None:
    long = StatusInfo(
        "日本語の長い名前" * 5, 0.5, 1.0, 12.5, 7200.0, ("everything is allowed",) * 3
    )
    assert width(status_line(long, columns, Paint())) <= columns


@pytest.mark.parametrize(("share", "code"), [(0.4, "32"), (0.5, "36"), (0.8, "33"), (0.95, "31")])
def test_the_colour_tells_how_full_the_context_is(share: float, code: str) -> None:
    line = status_line(StatusInfo("m", share), 60, Paint(depth=Depth.NAMED))
    assert f"\x1b[{code}m{share:.0%}" in line


def test_times_and_money() -> None:
    assert [format_duration(each) for each in (0.24, 12, 61, 3700)] == [
        "0.2 s", "12 s", "1 min 01 s", "1 h 01 min",
    ]  # fmt: skip
    assert [format_cost(each) for each in (0, 0.0123, 3.456)] == ["$0", "$0.0123", "$3.46"]
