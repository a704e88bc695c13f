"""Typing in a real pseudo-terminal: editing, pastes, history, search, menus, pictures, editor."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from tests.cases import cases
from tests.screens.emulated import Emulated
from tests.screens.tmux import Tmux

CASES = cases(__file__)

PROGRAM = Path(__file__).with_name("entry_program.py")
FAMILY = "👨‍👩‍👧"
PNG = b"\x89PNG\r\n\x1a\n" + b"p" * 20


class Typed(Emulated):
    """The program, with a history of its own."""

    def __init__(self, folder: Path, slow: float = 0.0, **more: object) -> None:
        command = [sys.executable, str(PROGRAM), str(folder / "history"), str(slow)]
        super().__init__(command, folder, **more)  # type: ignore[arg-type]
        self._folder = folder
        self.sees("❯")
        self.settled()  # the history is there

    @property
    def input(self) -> list[str]:
        """The rows of the input and of what is below it."""
        lines = self.settled().lines
        start = max(at for at, line in enumerate(lines) if "❯" in line)
        return [line for line in lines[start:] if line]

    @property
    def cursor(self) -> int:
        column: int = self.settled().screen.cursor.x
        return column

    def sent(self, text: str, *pictures: str) -> Self:
        """Send what is there; that is what must come out."""
        return self.press("enter").has_sent(text, *pictures)

    def has_sent(self, *wanted: str) -> Self:
        return self.wait(lambda _: self.messages()[-1:] == [[*wanted]], f"sending {wanted}")

    def messages(self) -> list[list[str]]:
        file = self._folder / "history.sent"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def it(tmp_path: Path) -> Iterator[Typed]:
    it = Typed(tmp_path)
    yield it
    it.close()


def test_a_message_is_sent_and_the_input_is_empty_again(it: Typed) -> None:
    it.say("hello there").has_sent("hello there")
    assert it.input == ["❯"]
    it.press("enter")  # nothing is not sent
    assert it.input == ["❯"]
    assert len(it.messages()) == 1


def test_several_lines_are_aligned_under_each_other(it: Typed) -> None:
    it.type("one\\").press("enter").type("two").press("alt-enter")
    it.type("three").press("ctrl-j").type("four")
    assert it.input == ["❯ one", "  two", "  three", "  four"]
    it.press("up", "up", "ctrl-a").type("> ")
    assert it.input == ["❯ one", "  > two", "  three", "  four"]
    it.sent("one\n> two\nthree\nfour")


def test_a_long_line_is_broken_and_aligned(tmp_path: Path) -> None:
    it = Typed(tmp_path, columns=40)
    it.type("x" * 50)
    assert it.input == ["❯ " + "x" * 38, "  " + "x" * 12]
    it.sent("x" * 50)
    it.close()


def test_the_input_grows_to_a_third_of_the_screen_and_scrolls_then(tmp_path: Path) -> None:
    it = Typed(tmp_path, rows=24)
    for number in range(20):
        it.type(f"row {number}").press("ctrl-j")
    it.type("end")
    lines = [line for line in it.settled().lines if line]
    assert lines == [f"  row {number}" for number in range(13, 20)] + ["  end"]
    it.press(*["up"] * 20)
    assert it.input == ["❯ row 0", *(f"  row {number}" for number in range(1, 8))]
    it.sent("\n".join([*(f"row {number}" for number in range(20)), "end"]))
    it.close()


@pytest.mark.parametrize(("typed", "lefts", "columns", "after_deleting"), CASES["signs of all"])
def test_signs_of_all_scripts_are_edited_as_they_are_seen(
    it, typed, lefts, columns, after_deleting
):
    it.type(typed)
    for column in columns:
        it.press("left")
        assert it.cursor == column
    if lefts > 1:  # and back again: what is behind the cursor goes
        it.press("right")
    it.press("backspace").sent(after_deleting)


def test_a_wide_sign_at_the_edge_goes_to_the_next_row(tmp_path: Path) -> None:
    it = Typed(tmp_path, columns=40)
    it.type("x" * 37 + "漢字")
    assert it.input == ["❯ " + "x" * 37, "  漢字"]
    it.press("left", "left", "backspace")
    assert it.input == ["❯ " + "x" * 36 + "漢", "  字"]
    it.close()


def test_the_usual_keys(it: Typed) -> None:
    it.type("one two three").press("ctrl-w")
    assert it.input == ["❯ one two"]
    it.press("ctrl-a").type("zero ").press("ctrl-e").type("2")
    assert it.input == ["❯ zero one two 2"]
    it.press("ctrl-u")
    assert it.input == ["❯"]
    it.press("ctrl-l").sees("repainted")


def test_a_long_paste_is_collapsed_and_sent_whole(it: Typed) -> None:
    it.type("look at ").paste("\n".join(f"line {number}" for number in range(5_000)))
    it.type(" please")
    assert it.input == ["❯ look at [pasted #1: 5,000 lines] please"]
    lines = "\n".join(f"line {number}" for number in range(5_000))
    it.sent(f"look at {lines} please")


def test_a_placeholder_is_passed_and_deleted_as_one(it: Typed) -> None:
    it.type("a").paste("line\n" * 9).type("b").press("left", "left")
    assert it.cursor == 3
    it.press("right", "ctrl-w")
    assert it.input == ["❯ ab"]
    it.paste("line\n" * 9)
    assert it.input == ["❯ a[pasted #2: 9 lines]b"]
    it.press("backspace").sent("ab")


def test_windows_line_ends_in_a_paste(it: Typed) -> None:
    it.type("\x1b[200~one\r\ntwo\r\nthree\x1b[201~")
    assert it.input == ["❯ one", "  two", "  three"]
    it.sent("one\ntwo\nthree")


def test_a_pasted_path_attaches_the_picture(it: Typed, tmp_path: Path) -> None:
    (tmp_path / "my cat.png").write_bytes(PNG)
    it.paste(f"'{tmp_path}/my cat.png'").sees("#1 my cat.png 28 B")
    assert it.input == ["❯"]
    it.type("who is this?").sent("who is this?", "data:image/png;base64,").gone("#1 my cat")
    it.paste(f"{tmp_path}/missing.png").sent(f"{tmp_path}/missing.png")


def test_the_clipboard_gives_pictures_or_says_why_not(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "xclip").write_text(
        '#!/bin/sh\ncase "$*" in *TARGETS*) echo image/png;; *image/png*) cat picture;;'
        " *) exit 1;; esac\n"
    )
    (programs / "xclip").chmod(0o755)
    it = Typed(tmp_path, PATH=f"{programs}:/usr/bin:/bin", DISPLAY=":0", WAYLAND_DISPLAY="")
    it.press("alt-v").sees("told: there is no image in the clipboard")
    (tmp_path / "picture").write_bytes(PNG)
    it.press("alt-v").sees_last("#1 clipboard 28 B")
    it.close()


def test_history_over_restarts(tmp_path: Path) -> None:
    it = Typed(tmp_path)
    it.say("the first").type("two").press("ctrl-j").type("lines")
    it.sent("two\nlines").say("my key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789")
    it.press("ctrl-d")
    assert it.ended() == 0
    again = Typed(tmp_path)
    again.type("a draft").press("up").sees_last("[redacted]").press("up")
    assert again.input == ["❯ two", "  lines"]
    again.press("up", "up")
    assert again.input == ["❯ the first"]
    again.press("down", "down", "down", "down")
    assert again.input == ["❯ a draft"]
    again.close()


def test_two_processes_share_a_history(tmp_path: Path) -> None:
    one, two = Typed(tmp_path), Typed(tmp_path)
    one.say("from one").has_sent("from one")
    two.say("from two").has_sent("from two")
    one.say("again one").has_sent("again one")
    one.close()
    two.close()
    third = Typed(tmp_path)
    for text in ("again one", "from two", "from one"):
        third.press("up")
        assert third.input == [f"❯ {text}"]
    third.close()


def test_earlier_input_is_suggested(it: Typed) -> None:
    it.say("explain the parser").type("expl")
    assert it.input == ["❯ explain the parser"]
    assert it.cursor == 6
    it.press("right").sent("explain the parser")


def test_history_search(it: Typed) -> None:
    for text in ("fix the parser", "write tests", "fix the docs"):
        it.say(text)
    it.type("a draft").press("ctrl-r").type("fix")
    assert it.input == ["search: fix ❯ fix the docs"]
    it.press("ctrl-r")
    assert it.input == ["search: fix ❯ fix the parser"]
    it.type("x")
    assert it.input == ["no match: fixx ❯ fix the parser"]
    it.type("\x07")  # Ctrl-G
    assert it.input == ["❯ a draft"]
    it.press("ctrl-r").type("tests").press("enter")
    assert it.input == ["❯ write tests"]
    it.press("ctrl-e").type("!").sent("write tests!")


def test_the_menu_at_forty_columns(tmp_path: Path) -> None:
    it = Typed(tmp_path, columns=40)
    it.type("/rel")
    assert it.input == [
        "❯ /rel",
        " /reload         read keys and sett...",
        " /reload-mcp     restart the MCP se...",
        " /release-notes  write the notes of...",
    ]
    it.press("down", "down", "down")
    assert it.input[0] == "❯ /release-notes"
    it.press("escape").gone("/reload-mcp")
    assert it.input == ["❯ /rel"]
    it.press("backspace").sees_last("/retry").press("ctrl-u")
    assert it.input == ["❯"]
    it.close()


def test_tab_takes_a_command_and_then_its_argument(it: Typed) -> None:
    it.type("/mode").press("tab")
    assert it.input == ["❯ /model", " gpt-large  a large one", " small-one"]
    it.press("down", "down", "enter")
    assert it.input == ["❯ /model small-one"]
    it.sent("/model small-one")


def test_a_slow_list_comes_into_the_open_menu(tmp_path: Path) -> None:
    it = Typed(tmp_path, slow=1.0)
    it.type("/model g").sees_last("❯ /model g").sees_last("gpt-large  a large one").press("tab")
    it.sent("/model gpt-large")
    it.close()


def test_files_are_offered_behind_an_at_sign(it: Typed, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "today.md").touch()
    it.type("read @no")
    assert it.input == ["❯ read @no", " notes/  folder"]
    it.press("tab")
    assert it.input == ["❯ read @notes/", " today.md  file"]
    it.press("tab").sent("read @notes/today.md")


def test_the_editor_gets_the_terminal_and_gives_it_back(tmp_path: Path) -> None:
    """In a real terminal, with Ctrl-C pressed in the editor."""
    editor = tmp_path / "editor"
    editor.write_text(
        "#!/bin/sh\ntrap 'echo caught it' INT\necho EDITING\n"
        'while [ -z "$answer" ]; do read answer < /dev/tty; done\n'
        'sed -i "s/HERE/$answer/" "$1"\n'
    )
    editor.chmod(0o755)
    command = [sys.executable, str(PROGRAM), str(tmp_path / "history")]
    it = Tmux(command, tmp_path, EDITOR=str(editor), VISUAL="", TMPDIR=str(tmp_path))
    try:
        it.sees("❯").type("look HERE").press("C-x", "C-e").sees("EDITING")
        it.press("C-c").say("there").sees("❯ look there").type(" and go on")
        it.press("C-x", "C-e").settled().say("now").sees("❯ look there and go on")
        it.press("Enter").sees("sent 20 characters")
        assert json.loads((tmp_path / "history.sent").read_text()) == ["look there and go on"]
        assert not list(tmp_path.glob("hermes-*"))
    finally:
        it.close()


def test_the_editor_has_what_was_pasted(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nwc -l < "$1" > counted\necho " and more" >> "$1"\n')
    editor.chmod(0o755)
    it = Typed(tmp_path, EDITOR=str(editor), VISUAL="")
    it.type("see ").paste("line\n" * 9 + "end").type("\x18\x05")
    it.sees_last("[pasted #1: 10 lines] and more")
    assert (tmp_path / "counted").read_text() == "9\n"
    it.sent("see " + "line\n" * 9 + "end and more")
    it.close()


def test_an_editor_that_fails_leaves_the_message(tmp_path: Path) -> None:
    it = Typed(tmp_path, EDITOR="false", VISUAL="")
    it.type("a message").type("\x18\x05")
    it.sees("told: false ended with code 1; the message is unchanged")
    assert it.input == ["❯ a message"]
    it.sent("a message")
    it.close()
