"""Text by columns, and without what would steer a terminal."""

import pytest

from hermes.tui.text import cut, one_line, safe, width


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain", "plain"),
        ("two\r\nlines\rthree", "two\nlines\nthree"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("cut off \x1b[", "cut off "),
        ("bell\x07 back\x08", "bell back"),
        ("a\tb", "a   b"),
        ("evil\u202etxt.exe", "eviltxt.exe"),
        ("👩‍💻 שלום नमस्ते", "👩‍💻 שלום नमस्ते"),
        ("\x9b31mred", "red"),
    ],
)
def test_what_steers_the_terminal_is_gone(given: str, shown: str) -> None:
    assert safe(given) == shown


def test_columns_are_counted_as_terminals_do() -> None:
    assert [width(each) for each in ("abc", "日本", "é", "\x1b[1mb\x1b[0m", "")] == [3, 4, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "columns", "fits"),
    [
        ("short", 10, "short"),
        ("日本語テキスト", 7, "日本語…"),
        ("❤️" * 10, 5, "❤️❤️…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_a_line_is_cut_to_fit(text: str, columns: int, fits: str) -> None:
    assert cut(text, columns) == fits
    assert width(cut(text, columns)) <= max(columns, 0)


def test_a_text_on_one_line() -> None:
    assert one_line("a\n\n  b\x1b[2J", 20) == "a b"
    assert one_line("x" * 100_000, 5) == "xxxx…"
