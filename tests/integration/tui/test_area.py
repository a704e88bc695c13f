"""Finished output is printed once; only the area below it is painted again."""

import random
import sys
import time
from pathlib import Path

from tests.screens.emulated import Emulated
from tests.screens.tmux import Tmux

PROGRAM = Path(__file__).with_name("area_program.py")
BAR = "the status bar at"


def command(lines: int, pause: float = 0.01) -> list[str]:
    return [sys.executable, str(PROGRAM), str(lines), str(pause)]


def numbers(lines: list[str]) -> list[int]:
    return [int(line[5:9]) for line in lines if line.startswith("line ")]


def test_lines_are_printed_once_and_the_area_stays_below(tmp_path: Path) -> None:
    it = Emulated(command(200, 0.005), tmp_path)
    it.type("typed meanwhile").sees("all lines printed").settled()
    assert numbers(it.everything) == list(range(200))
    assert it.lines[-3:] == ["all lines printed", f"{BAR} 80", "> typed meanwhile"]
    assert sum(BAR in line for line in it.everything) == 1
    it.close()


def test_the_area_gives_rows_back(tmp_path: Path) -> None:
    it = Emulated(command(3), tmp_path)
    it.sees("all lines printed").type("x" * 200).sees_last("x" * 78).type("\x7f" * 200)
    it.gone("xx")
    assert [line for line in it.settled().lines if line][-2:] == [f"{BAR} 80", ">"]
    it.close()


def test_a_storm_of_resizes_neither_doubles_nor_loses_a_line(tmp_path: Path) -> None:
    """In a terminal that cuts long lines."""
    it = Emulated(command(90, 0.02), tmp_path, columns=100)
    chance = random.Random(7)
    it.type("a text that is being typed")
    for _ in range(30):
        it.resize(chance.randint(40, 140), 24)
        it.look(0.05)
    it.resize(100, 24).sees("all lines printed").settled()
    assert sum(BAR in line for line in it.everything) == 1
    assert it.lines[-1] == "> a text that is being typed"
    shown = numbers(it.everything)
    assert shown == sorted(set(shown))
    it.close()


def test_a_storm_of_resizes_in_tmux(tmp_path: Path) -> None:
    """In a terminal that breaks long lines anew."""
    it = Tmux(command(90, 0.02), tmp_path, columns=100, rows=30)
    try:
        chance = random.Random(1)
        it.sees("line 0001").type("a text that is being typed")
        for _ in range(25):
            it.resize(chance.randint(40, 140), 30)
            time.sleep(chance.random() / 10)
        it.sees("all lines printed")
        lines = it.settled().everything
        assert numbers(lines) == list(range(90))
        assert sum(BAR in line for line in lines) == 1
        assert lines[-1] == "> a text that is being typed"
    finally:
        it.close()


def test_a_long_line_being_typed_survives_a_narrower_window(tmp_path: Path) -> None:
    it = Tmux(command(20, 0.0), tmp_path, columns=120, rows=30)
    try:
        it.sees("all lines printed")
        typed = " ".join(f"word{number}" for number in range(30))
        it.type(typed).settled()
        for columns in (70, 45, 90, 41, 120):
            it.resize(columns, 30).sees(f"{BAR} {columns}").settled()
        lines = it.everything
        assert numbers(lines) == list(range(20))
        assert sum(BAR in line for line in lines) == 1
        shown = "".join(lines[lines.index(f"{BAR} 120") + 1 :])
        assert shown.replace(" ", "") == ("> " + typed).replace(" ", "")
    finally:
        it.close()
