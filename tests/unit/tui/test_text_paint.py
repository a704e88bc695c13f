"""Colours for the terminal at hand."""

import pytest

from hermes.tui.text import Depth, Paint, escape_codes, terminal_depth


@pytest.mark.parametrize(
    ("variables", "depth"),
    [
        ({"TERM": "xterm-256color"}, Depth.INDEXED),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, Depth.TRUE),
        ({"TERM": "linux"}, Depth.NAMED),
        ({"TERM": "xterm", "NO_COLOR": "1"}, Depth.NONE),
        ({"TERM": "dumb"}, Depth.NONE),
        ({"TERM": ""}, Depth.NONE),
    ],
)
def test_the_terminal_says_what_it_can(
    variables: dict[str, str], depth: Depth, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal_depth() is depth


def test_a_look_becomes_what_the_terminal_understands() -> None:
    assert escape_codes("bold #ff8800", Depth.TRUE) == "1;38;2;255;136;0"
    assert escape_codes("#ff8800", Depth.INDEXED) == "38;5;208"
    assert escape_codes("#f80", Depth.NAMED) == "93"
    assert escape_codes("underline bright_blue", Depth.NAMED) == "4;94"
    assert escape_codes("bold red", Depth.NONE) == ""


@pytest.mark.parametrize("look", ["#12345", "#xyzxyz", "reddish", "bright_nothing"])
def test_invalid_colour_is_reported(look: str) -> None:
    with pytest.raises(ValueError, match="not a colour"):
        escape_codes(look, Depth.TRUE)


def test_without_colours_a_text_is_left_alone() -> None:
    assert Paint()("error", "text") == "text"
    painted = Paint({"error": "bold red"}, Depth.NAMED)
    assert painted("error", "text") == "\x1b[1;31mtext\x1b[0m"
    assert painted("error", "") == ""
    assert painted("unheard of", "text") == "text"
