"""The status line at every width."""

import pytest

from hermes.tui.text import Depth, Paint, format_duration, width
from hermes.tui.view import StatusInfo, format_cost, status_line

FULL = StatusInfo("vendor/some-model-4", 0.123, 0.97, 0.1234, 83.0, ("2 queued",))


def test_what_there_is_room_for() -> None:
    assert status_line(FULL, 100, Paint()) == (
        "some-model-4 │ █░░░░░░░ 12% │ cache 97% │ $0.1234 │ 1 min 23 s │ 2 queued"
    )
    assert status_line(FULL, 60, Paint()) == "some-model-4 │ 12% │ cache 97% │ $0.1234 │ 2 queued"
    assert status_line(FULL, 40, Paint()) == "some-model-4 │ 12% │ 2 queued"
    assert status_line(StatusInfo("m"), 100, Paint()) == "m"


@pytest.mark.parametrize("columns", range(12, 120, 3))
def test_it_always_fits(columns: int) -> None:
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
