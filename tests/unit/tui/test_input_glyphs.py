"""Signs that terminals disagree about are shown by parts they agree about."""

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import Transformation, TransformationInput

from hermes.tui.input import GlyphProcessor


def shown(text: str, suggestion: str = "", width: int = 20) -> Transformation:
    fragments: StyleAndTextTuples = [("", text), ("class:auto-suggestion", suggestion)]
    control, document = BufferControl(Buffer()), Document(text)
    given = TransformationInput(control, document, 0, lambda at: at, fragments, width, 1)
    return GlyphProcessor(lambda: 2).apply_transformation(given)


def text_of(transformation: Transformation) -> str:
    return "".join(each[1] for each in transformation.fragments)


@pytest.mark.parametrize(
    ("typed", "seen"),
    [
        ("plain", "plain"),
        ("漢字 שלום e\u0301", "漢字 שלום e\u0301"),
        ("👨‍👩‍👧", "👨👩👧"),
        ("👍🏽!", "👍!"),
        ("🇩🇪", "DE"),
        ("❤️", "❤"),
        ("❤️‍🔥", "❤🔥"),
        ("1️⃣", "1"),
        ("क्\u200dष", "क्\u200dष"),  # a joiner that shapes letters
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("a\u202eb", "ab"),
    ],
)
def test_what_is_seen(typed: str, seen: str) -> None:
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
