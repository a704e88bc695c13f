"""The spinner and the status line at every width."""

import random
from pathlib import Path

import pytest

from hermes.config.settings import DisplaySettings
from hermes.core.events import UsageReported
from hermes.core.model import Usage
from hermes.tui.skins import DisplayState, Skin, Spinner
from hermes.tui.text import Depth, Paint, format_duration, width
from hermes.tui.view import (
    EventView,
    FolderLabel,
    SpinnerLine,
    SpinnerPhase,
    StatusInfo,
    format_cost,
    format_total,
    git_branch,
    status_line,
)

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


FULL = StatusInfo(
    "vendor/some-model-4", 0.123, 0.97, "$0.1234", 83.0, ("2 in background",),
    "~/shop (main)", "ask", "steer",
)  # fmt: skip


def test_status_line_drops_the_least_important_parts_to_fit_the_width() -> None:
    assert status_line(FULL, 130, Paint()) == (
        "some-model-4 │ ~/shop (main) │ 12% context │ cache 97% │ $0.1234 │ 1 min 23 s │ ask"
        " │ Enter: steer │ 2 in background"
    )
    assert status_line(FULL, 82, Paint()) == (
        "some-model-4 │ ~/shop (main) │ 12% context │ ask │ Enter: steer │ 2 in background"
    )
    assert status_line(FULL, 50, Paint()) == "some-model-4 │ 12% │ ask │ Enter: steer"
    assert status_line(FULL, 20, Paint()) == "some-mode… │ ask"
    assert status_line(StatusInfo("m"), 100, Paint()) == "m"


def test_the_context_is_a_number_until_half_of_it_is_used() -> None:
    assert status_line(StatusInfo("m", 0.49), 100, Paint()) == "m │ 49% context"
    assert status_line(StatusInfo("m", 0.5), 100, Paint()) == "m │ ████░░░░ 50%"
    assert status_line(StatusInfo("m", 0.5), 60, Paint()) == "m │ 50%"


def test_a_long_folder_keeps_its_end() -> None:
    place = StatusInfo("m", folder="~/a/very/long/path/to/the/shop (main)")
    assert status_line(place, 45, Paint()) == "m │ …he/shop (main)"


def test_unknown_prices_are_not_zero() -> None:
    assert format_total(0.0, 0) == "$0"
    assert format_total(0.25, 0) == "$0.2500"
    assert format_total(0.0, 3) == "price unknown"
    assert format_total(0.25, 3) == "over $0.2500"


class Sink:
    def lines(self, _lines: list[str]) -> None: ...

    def refresh(self, *, at_once: bool = False) -> None: ...


def test_free_calls_show_no_cost() -> None:
    display = DisplayState(DisplaySettings(), Skin(), Depth.NONE)
    view = EventView(display, Sink(), lambda: 80)
    assert view.cost == ""
    view.show(UsageReported(Usage(input=10, output=1), 0.0))
    assert view.cost == ""
    view.show(UsageReported(Usage(input=10, output=1), 0.5))
    assert view.cost == "$0.5000"


def test_the_branch_is_read_from_the_repository(tmp_path: Path) -> None:
    work, tree = tmp_path / "work" / "src", tmp_path / "tree"
    work.mkdir(parents=True)
    tree.mkdir()
    assert git_branch(work) == ""
    git = tmp_path / "work" / ".git"
    (git / "worktrees" / "tree").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    assert git_branch(work) == "feature/x"
    (git / "HEAD").write_text("0123456789abcdef\n")
    assert git_branch(work) == "01234567"
    (git / "worktrees" / "tree" / "HEAD").write_text("ref: refs/heads/y\n")
    (tree / ".git").write_text(f"gitdir: {git}/worktrees/tree\n")
    assert git_branch(tree) == "y"
    (tree / ".git").write_bytes(b"\xff")
    assert git_branch(tree) == ""
    label = str(FolderLabel(work))
    assert label.endswith("work/src (01234567)")


@pytest.mark.parametrize("columns", range(12, 120, 3))
def test_the_status_line_always_fits(columns: int) -> None:
    long = StatusInfo(
        "日本語の長い名前" * 5,
        0.5,
        1.0,
        "$12.50",
        7200.0,
        ("2 in background",) * 3,
        "~/日本語" * 9,
        "accept edits",
        "interrupt",
    )
    assert width(status_line(long, columns, Paint())) <= columns


@pytest.mark.parametrize(("share", "code"), [(0.4, "2"), (0.5, "36"), (0.8, "33"), (0.95, "31")])
def test_the_colour_tells_how_full_the_context_is(share: float, code: str) -> None:
    line = status_line(StatusInfo("m", share), 60, Paint(depth=Depth.NAMED))
    assert f"\x1b[{code}m{share:.0%}" in line


def test_times_and_money() -> None:
    assert [format_duration(each) for each in (0.24, 12, 61, 3700)] == [
        "0.2 s", "12 s", "1 min 01 s", "1 h 01 min",
    ]  # fmt: skip
    assert [format_cost(each) for each in (0, 0.0123, 3.456)] == ["$0", "$0.0123", "$3.46"]
