"""What the area adds to finished output, and what it takes out of what is typed."""

from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from hermes.tui.area import (
    ASK_BACKGROUND,
    Area,
    BackgroundQuery,
    add_links,
    background_of_variable,
    terminal_links,
)
from hermes.tui.text import COLOUR

WHITE = (255, 255, 255)


class RecordingOutput(DummyOutput):
    def __init__(self) -> None:
        self.written: list[str] = []

    def write_raw(self, data: str) -> None:
        self.written.append(data)


@pytest.fixture
def typed():
    """Return a function that feeds pieces to a query, and what reached the keys and the answer."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        output = RecordingOutput()
        area = Area(output=output, input=pipe)  # type: ignore[arg-type]
        keys: list[str] = []
        answers: list[tuple[int, int, int]] = []
        pipe.vt100_parser.feed = keys.append
        query = BackgroundQuery(area, answers.append)
        area.after_render.fire()
        assert output.written == [ASK_BACKGROUND]

        def feed(*pieces: str) -> tuple[str, list[tuple[int, int, int]]]:
            for piece in pieces:
                query.feed(piece)
            return "".join(keys), answers

        yield feed


@pytest.mark.parametrize(
    "pieces",
    [
        ("\x1b]11;rgb:ffff/ffff/ffff\x1b\\",),
        ("\x1b]11;rgb:ff/ff/ff\x07",),
        ("\x1b]", "11;rgb:ffff/", "ffff/ffff\x1b", "\\"),
        ("\x1b]11;rgba:ffff/ffff/ffff/ffff\x1b\\",),
    ],
)
def test_the_answer_of_the_terminal_is_not_typed(typed, pieces: tuple[str, ...]) -> None:
    assert typed("ab", *pieces, "cd") == ("abcd", [WHITE])


def test_keys_around_the_answer_are_kept(typed) -> None:
    assert typed("a\x1b]11;rgb:0000/0000/0000\x07b", "\x1b") == ("ab\x1b", [(0, 0, 0)])


def test_keys_that_are_no_answer_are_not_held_back(typed) -> None:
    assert typed("\x1b") == ("\x1b", [])
    assert typed("\x1b[A", "\x1b]x") == ("\x1b\x1b[A\x1b]x", [])


@pytest.mark.parametrize(
    ("value", "colour"),
    [("0;15", WHITE), ("15;0", (0, 0, 0)), ("0;default;7", WHITE), ("", None), ("x;y", None)],
)
def test_the_background_of_a_variable(monkeypatch, value: str, colour: object) -> None:
    monkeypatch.setenv("COLORFGBG", value)
    assert background_of_variable() == colour


def targets(text: str, folder: Path, columns: int = 80) -> list[tuple[str, str]]:
    """Return the links of a text: address and shown text."""
    linked = add_links(text, folder, columns)
    found = []
    for piece in linked.split("\x1b]8;;")[1:]:
        address, _, shown = piece.partition("\x1b\\")
        if address:
            found.append((address, COLOUR.sub("", shown)))
    return found


def test_urls_and_existing_files_are_links(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    file = tmp_path / "src" / "my file.py"
    file.write_text("")
    (tmp_path / "src" / "a.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    text = f"see src/a.py:12, notes.txt, {tmp_path}/src/a.py and nope.txt and src/nope.py\n"
    assert [shown for _, shown in targets(text, tmp_path)] == [
        "src/a.py", "notes.txt", f"{tmp_path}/src/a.py",
    ]  # fmt: skip
    assert targets(text, tmp_path)[0][0] == (tmp_path / "src" / "a.py").as_uri()
    assert targets("\x1b[36mhttps://a.example/x?y=1#z\x1b[0m.", tmp_path) == [
        ("https://a.example/x?y=1#z", "https://a.example/x?y=1#z")
    ]
    assert COLOUR.sub("", add_links("plain words / only. 3.5", tmp_path, 80)) == (
        "plain words / only. 3.5"
    )


def test_a_url_that_may_go_on_in_the_next_row_is_no_link(tmp_path: Path) -> None:
    url = "https://a.example/" + "x" * 62
    assert targets(f"{url}\nyyyy", tmp_path) == []
    assert targets("https://a.example/abc…", tmp_path) == []


@pytest.mark.parametrize(
    ("variables", "links"),
    [
        ({}, False),
        ({"VTE_VERSION": "6800"}, True),
        ({"VTE_VERSION": "4200"}, False),
        ({"KITTY_WINDOW_ID": "1"}, True),
        ({"KITTY_WINDOW_ID": "1", "TMUX": "x"}, False),
        ({"TMUX": "x", "TERM_PROGRAM_VERSION": "3.3a"}, False),
        ({"TMUX": "x", "TERM_PROGRAM_VERSION": "3.4"}, True),
        ({"TERM": "foot"}, True),
    ],
)
def test_links_are_used_where_the_terminal_shows_them(monkeypatch, variables, links) -> None:
    names = ("TMUX", "TERM_PROGRAM_VERSION", "VTE_VERSION", "KITTY_WINDOW_ID", "WEZTERM_PANE",
        "KONSOLE_VERSION", "WT_SESSION", "ITERM_SESSION_ID", "GHOSTTY_RESOURCES_DIR",
        "ALACRITTY_WINDOW_ID")  # fmt: skip
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert terminal_links() is links
