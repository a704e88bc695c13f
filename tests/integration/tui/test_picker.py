"""The picker in a terminal of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screens.emulated import Emulated

PROGRAM = [sys.executable, str(Path(__file__).with_name("picker_program.py"))]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Emulated]:
    it = Emulated(PROGRAM, tmp_path, columns=110, rows=24)
    yield it.sees("Esc cancels")
    it.close()


def test_arrows_pages_and_filter_choose_an_item(screen: Emulated) -> None:
    screen.sees_last("▸ item 5").sees_last("│ line 5 of 5")
    screen.press("down").sees_last("▸ item 6").sees_last("line 6 of 6")
    screen.type("\x1b[6~").sees_last("▸ item 20")
    screen.type("ite4").sees_last("▸ item 4 ").press("down", "enter")
    assert screen.ended() == 0
    assert screen.text == "chosen: 14"
    assert screen.is_restored


@pytest.mark.parametrize(
    ("key", "end"), [("escape", "chosen: None"), ("ctrl-c", "chosen: interrupted")]
)
def test_escape_and_ctrl_c_end_it(screen: Emulated, key: str, end: str) -> None:
    screen.press(key)
    assert screen.ended() == 0
    assert screen.text == end


def test_it_fits_after_a_resize(screen: Emulated) -> None:
    screen.resize(40, 20).sees_last("──────").sees_last("line 0 of 5").sees_last("Enter · Esc")
    assert len(screen.text.split("\n")) <= 20
    assert screen.text.count("Choose one") == 1
    screen.resize(40, 9).gone("line 0 of 5").sees_last("▸ item 5").sees_last("Enter · Esc")
    screen.resize(120, 24).sees_last("│ line 0 of 5")
    assert screen.text.count("▸") == 1
    screen.press("enter")
    assert screen.ended() == 0
