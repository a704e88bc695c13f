"""Pastes are read the same however they come in pieces."""

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from hermes.tui.input import PasteParser

BEGIN, END = "\x1b[200~", "\x1b[201~"
PARTS = st.lists(
    st.sampled_from([BEGIN, END, "a", "漢\r", "\x1b[A", "\x1b[20", "text"]), max_size=12
)


def keys(parser_class: type[Vt100Parser], pieces: list[str]) -> list[tuple[object, str]]:
    pressed: list[KeyPress] = []
    parser = parser_class(pressed.append)
    for piece in pieces:
        parser.feed(piece)
    return [(each.key, each.data) for each in pressed]


@given(PARTS, st.integers(1, 9))
def test_keys_and_pastes_are_those_of_prompt_toolkit(parts: list[str], size: int) -> None:
    text = "".join(parts)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert keys(PasteParser, pieces) == keys(Vt100Parser, pieces)


def test_a_paste_of_ten_megabytes_is_one_key() -> None:
    content = "0123456789abcdef\r" * 600_000
    text = f"x{BEGIN}{content}{END}y"
    pieces = [text[at : at + 1024] for at in range(0, len(text), 1024)]
    assert keys(PasteParser, pieces) == [("x", "x"), (Keys.BracketedPaste, content), ("y", "y")]


def test_a_paste_that_was_broken_off_leaves_nothing_behind() -> None:
    pressed: list[KeyPress] = []
    parser = PasteParser(pressed.append)
    parser.feed(f"{BEGIN}lost")
    parser.reset()
    parser.feed(f"{BEGIN}kept{END}")
    assert [each.data for each in pressed] == ["kept"]
