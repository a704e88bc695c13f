"""The input field: pastes, cursor steps, glyphs and the editor."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Transformation, TransformationInput

from hermes.core.errors import HermesError, UsageError
from hermes.tui.input import (
    MAX_HISTORY_CHARS,
    MAX_PASTE_BYTES,
    CursorSteps,
    GlyphProcessor,
    KeyParser,
    PasteStore,
    edit_in_editor,
    legacy_keys,
)
from tests.cases import cases

CASES = cases(__file__)


def lines(count: int) -> str:
    return "\n".join(f"line {number}" for number in range(count))


NASTY = "\x1b[31mred\x1b[0m \x1b]52;c;ZWNobw==\x07\x9b2J bell\x07 back\x08 nul\x00 \x1b[201~end"


@pytest.mark.parametrize(
    ("pasted", "placed"),
    [
        ("one\ntwo\n\tthree", "one\ntwo\n\tthree"),
        (lines(5), lines(5)),
        ("x" * 1_000, "x" * 1_000),
        ("a\nb\nc\nd\ne\n", "a\nb\nc\nd\ne\n"),  # a line end at the end is not a line
        ("a\nb\nc\nd\ne\nf\n", "[pasted #1: 6 lines]"),
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        (NASTY, "red  bell back nul end"),
    ],
)
def test_a_short_paste_is_cleaned_and_put_in_as_it_is(pasted: str, placed: str) -> None:
    assert PasteStore().collapse(pasted) == placed


def test_a_long_paste_is_collapsed_and_sent_whole() -> None:
    pastes = PasteStore()
    placed = pastes.collapse(lines(5_000))
    assert placed == "[pasted #1: 5,000 lines]"
    assert pastes.collapse("y" * 1_001) == "[pasted #2: 1,001 characters]"
    message = f"why does {placed} fail? Also [pasted #2: 1,001 characters]."
    assert pastes.expand(message) == f"why does {lines(5_000)} fail? Also {'y' * 1_001}."
    assert pastes.expand(pastes.collapse("a\r\n" * 9)) == "a\n" * 9


def test_a_placeholder_that_was_edited_away_is_gone() -> None:
    pastes = PasteStore()
    placed = pastes.collapse(lines(9))
    assert pastes.expand("nothing of it") == "nothing of it"
    changed = placed.replace("9", "8")
    assert pastes.expand(changed) == changed


def test_placeholder_inside_a_paste_is_not_expanded() -> None:
    pastes = PasteStore()
    pastes.collapse(lines(9))
    second = pastes.collapse("[pasted #1: 9 lines]\n" * 6)
    assert pastes.expand(second) == "[pasted #1: 9 lines]\n" * 6


def test_a_huge_paste_is_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match=r"more than 10\.0 MB") as refused:
        PasteStore().collapse("é" * (MAX_PASTE_BYTES // 2 + 1))
    assert "file" in refused.value.hint
    assert PasteStore().collapse("x" * MAX_PASTE_BYTES) == "[pasted #1: 10,000,000 characters]"


def test_the_history_keeps_what_later_conversations_can_use() -> None:
    pastes = PasteStore()
    short = pastes.collapse(lines(9))
    long = pastes.collapse("z" * (MAX_HISTORY_CHARS + 1))
    assert (
        pastes.for_history(f"{short} and {long}") == f"{lines(9)} and [pasted: 20,001 characters]"
    )
    assert PasteStore().expand("[pasted: 20,001 characters]") == "[pasted: 20,001 characters]"


def test_after_the_editor_unchanged_pastes_are_collapsed_again() -> None:
    pastes = PasteStore()
    first, second = pastes.collapse(lines(9)), pastes.collapse(lines(20))
    before = f"a {first} b {second}"
    edited = pastes.expand(before).replace("a line", "A line").replace("line 19", "line nineteen")
    assert pastes.restore_placeholders(edited, before) == f"A {first} b " + lines(20).replace(
        "line 19", "line nineteen"
    )


BEGIN, END = "\x1b[200~", "\x1b[201~"
PARTS = st.lists(
    st.sampled_from([BEGIN, END, "a", "漢\r", "\x1b[A", "\x1b[20", "text"]), max_size=12
)


def keys(parser_class: type[Vt100Parser], pieces: list[str]) -> list[tuple[object, str]]:
    pressed: list[KeyPress] = []
    parser = parser_class(pressed.append)
    for piece in pieces:
        parser.feed(piece)
    parser.flush()
    return [(each.key, each.data) for each in pressed]


@given(PARTS, st.integers(1, 9))
def test_keys_and_pastes_are_those_of_prompt_toolkit(parts: list[str], size: int) -> None:
    text = "".join(parts)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert keys(KeyParser, pieces) == keys(Vt100Parser, pieces)


def test_a_paste_of_ten_megabytes_is_one_key() -> None:
    content = "0123456789abcdef\r" * 600_000
    text = f"x{BEGIN}{content}{END}y"
    pieces = [text[at : at + 1024] for at in range(0, len(text), 1024)]
    assert keys(KeyParser, pieces) == [("x", "x"), (Keys.BracketedPaste, content), ("y", "y")]


def test_a_paste_that_was_broken_off_leaves_nothing_behind() -> None:
    pressed: list[KeyPress] = []
    parser = KeyParser(pressed.append)
    parser.feed(f"{BEGIN}lost")
    parser.reset()
    parser.feed(f"{BEGIN}kept{END}")
    assert [each.data for each in pressed] == ["kept"]


FAMILY, FLAGS, ACCENT, HAND = "👨‍👩‍👧", "🇩🇪🇫🇷", "e\u0301", "👍🏽"


def places(text: str, steps: CursorSteps) -> list[int]:
    found = [0]
    while found[-1] < len(text):
        found.append(steps.after(text, found[-1]))
    return found


@pytest.mark.parametrize(("text", "signs"), CASES["cursor step is one character"])
def test_cursor_step_is_one_character(text: str, signs: list[str]) -> None:
    steps = CursorSteps(PasteStore())
    at = places(text, steps)
    assert [text[start:end] for start, end in pairwise(at)] == signs
    assert [steps.before(text, each) for each in at[1:]] == at[:-1]


@given(st.text(alphabet="ab\n漢👨\u200d👩🇩\u0301שमी्", max_size=40))
def test_there_and_back_is_the_same_way(text: str) -> None:
    steps = CursorSteps(PasteStore())
    at = places(text, steps)
    for start, end in pairwise(at):
        assert steps.before(text, end) == start
        for inside in range(start + 1, end):
            assert steps.snap(text, inside, came_from=0) == end
            assert steps.snap(text, inside, came_from=len(text)) == start
        assert steps.snap(text, start, came_from=0) == start


def test_a_placeholder_is_one_step() -> None:
    pastes = PasteStore()
    steps, mark = CursorSteps(pastes), pastes.collapse("line\n" * 9)
    text = f"a{mark}b"
    end = 1 + len(mark)
    assert places(text, steps) == [0, 1, end, end + 1]
    assert steps.before(text, end) == 1
    assert steps.snap(text, 5, came_from=0) == end
    assert steps.snap(text, 5, came_from=end) == 1


def test_deleting_a_part_of_a_placeholder_deletes_it() -> None:
    pastes = PasteStore()
    steps, mark = CursorSteps(pastes), pastes.collapse("line\n" * 9)
    text = f"see {mark}now"
    assert steps.widen(text, len(text) - 9, len(text)) == (4, len(text))
    assert steps.widen(text, 0, 3) == (0, 3)


def test_unknown_placeholder_is_plain_text() -> None:
    steps = CursorSteps(PasteStore())
    assert steps.after("[pasted #1: 9 lines]", 0) == 1


def shown(text: str, suggestion: str = "", width: int = 20) -> Transformation:
    fragments: StyleAndTextTuples = [("", text), ("class:auto-suggestion", suggestion)]
    control, document = BufferControl(Buffer()), Document(text)
    given = TransformationInput(control, document, 0, lambda at: at, fragments, width, 1)
    return GlyphProcessor(lambda: 2).apply_transformation(given)


def text_of(transformation: Transformation) -> str:
    return "".join(each[1] for each in transformation.fragments)


@pytest.mark.parametrize(("typed", "seen"), CASES["typed text is rendered"])
def test_typed_text_is_rendered(typed: str, seen: str) -> None:
    assert text_of(shown(typed)) == seen


def test_the_cursor_stands_where_its_sign_is_seen() -> None:
    it = shown("a👨‍👩‍👧b")
    assert [it.source_to_display(at) for at in range(9)] == [0, 1, 2, 2, 3, 3, 4, 5, 6]
    assert [it.display_to_source(at) for at in (0, 1, 4, 5)] == [0, 1, 6, 7]


def test_a_suggestion_takes_no_further_row() -> None:
    assert text_of(shown("git", " commit", width=30)) == "git commit"
    assert text_of(shown("git", " commit -m 'a long message'")) == "git commit -m 'a…"
    second_row = text_of(shown("x" * 18 + "git", " commit -m 'a long message'"))[18:]
    assert second_row == "git commit -m 'a…"


def rows(text: str, width: int = 12) -> list[str]:
    """Return the rows that a window of `width` columns shows, without the prompt."""
    seen, row = text_of(shown(text, width=width)), width - 2
    return [seen[at : at + row].rstrip() for at in range(0, len(seen), row)]


def test_typed_text_is_wrapped_between_words() -> None:
    assert rows("one two three four") == ["one two", "three four"]
    assert rows("0123456789 next") == ["0123456789", "next"], "no space begins a row"
    assert rows("ab 0123456789abcdef x") == ["ab 0123456", "789abcdef", "x"]
    assert text_of(shown("漢字 x " + "é" * 6, width=12)) == "漢字 x    " + "é" * 6
    it = shown("one two three", width=12)
    assert it.source_to_display(8) == 10, "the cursor is at the beginning of the next row"
    assert it.display_to_source(10) == 8


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script; what it is to do is written into it."""
    path = tmp_path / "my editor"
    path.touch(mode=0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{path}' --wait")
    return path


def script(path: Path, commands: str) -> None:
    path.write_text(f"#!/bin/sh\ncd {path.parent}\n{commands}\n")


async def test_saved_text_of_the_editor_is_the_message(editor: Path) -> None:
    script(
        editor, 'cp "$2" before; stat -c %a "$2" > mode; echo "$1 $2" > given; echo more >> "$2"'
    )
    assert await edit_in_editor("draft ü\n") == "draft ü\nmore"
    folder = editor.parent
    assert (folder / "before").read_text() == "draft ü\n"
    assert (folder / "mode").read_text() == "600\n"
    option, file = (folder / "given").read_text().split()
    assert (option, Path(file).name) == ("--wait", "message.md")
    assert not Path(file).parent.exists()


async def test_an_editor_that_fails_changes_nothing(editor: Path) -> None:
    script(editor, 'echo "$2" > given; echo lost > "$2"; exit 3')
    with pytest.raises(HermesError, match="ended with code 3; the message is unchanged"):
        await edit_in_editor("draft")
    assert not Path((editor.parent / "given").read_text().strip()).exists()


async def test_an_editor_that_removes_the_file(editor: Path) -> None:
    script(editor, 'rm "$2"')
    with pytest.raises(HermesError, match="cannot be read"):
        await edit_in_editor("draft")


async def test_missing_editor_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor-here")
    with pytest.raises(UsageError, match="cannot find the editor 'no-such-editor-here'"):
        await edit_in_editor("draft")
    monkeypatch.setenv("EDITOR", "'unfinished")
    with pytest.raises(UsageError, match="EDITOR cannot be read"):
        await edit_in_editor("draft")


EXTENDED = {
    "\x1b[13;2u": "\n",  # Shift-Enter
    "\x1b[27;2;13~": "\n",  # the same of xterm
    "\x1b[13;5u": "\n",
    "\x1b[13;3u": "\x1b\r",
    "\x1b[13u": "\r",
    "\x1b[57414;129u": "\r",  # Enter of the number pad, with NumLock
    "\x1b[27u": "\x1b",
    "\x1b[99;5u": "\x03",
    "\x1b[99;133u": "\x03",
    "\x1b[27;5;99~": "\x03",
    "\x1b[9;2u": "\x1b[Z",
    "\x1b[118;3u": "\x1bv",
    "\x1b[97;4u": "\x1bA",
    "\x1b[127;3u": "\x1b\x7f",
    "\x1b[127;5u": "\x17",
    "\x1b[32;5u": "\0",
    "\x1b[47;5u": "\x1f",
    "\x1b[57441;2u": "",  # the Shift key itself
    "\x1b[57404u": "5",
    "\x1b[1;129A": "\x1b[A",  # an arrow with NumLock
    "\x1b[1;133D": "\x1b[1;5D",
    "\x1b[3;129~": "\x1b[3~",
    "\x1b[1;5C": "\x1b[1;5C",
    "\x1b[5~": "\x1b[5~",
    "\x1b[200~": "\x1b[200~",
}
"""Sequences of the keyboard protocols, and what other terminals send for the same key."""


@pytest.mark.parametrize("sent", EXTENDED)
def test_extended_keys_are_those_of_other_terminals(sent: str) -> None:
    usual = EXTENDED[sent]
    assert legacy_keys(f"a{sent}b") == f"a{usual}b"
    for cut in range(1, len(sent)):  # wherever the terminal splits the sequence
        assert keys(KeyParser, ["x", sent[:cut], sent[cut:], "y"]) == keys(
            Vt100Parser, ["x", usual, "y"]
        )


def test_a_paste_keeps_the_sequences_in_it() -> None:
    content = "a\x1b[13;2ub"
    assert keys(KeyParser, [f"\x1b[200~{content}\x1b[201~"]) == [(Keys.BracketedPaste, content)]
