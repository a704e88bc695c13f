import json

from hypothesis import given
from hypothesis import strategies as st

from hermes.util.text import escaped_json, plain, plain_line


def test_escape_sequences_go_and_the_text_stays():
    assert plain("\x1b[1;31mred\x1b[0m and \x9b2Jmore") == "red and more"
    assert plain("\x1b]0;new title\x07text") == "text"
    assert plain("\x1b]52;c;c3RvbGVu\x1b\\text") == "text"
    assert plain("\x1bP1$r0m\x1b\\a\x1b(0b\x1bcc") == "abc"


def test_a_sequence_without_an_end_swallows_no_other_line():
    assert plain("\x1b]0;open\nnext") == "\nnext"
    assert plain("end\x1b") == "end"
    assert plain("end\x1b[") == "end"


def test_every_line_end_is_a_newline_and_tabs_stay():
    assert plain("a\r\nb\rc\u2028d\x0be\tf") == "a\nb\nc\nd\ne\tf"


def test_text_cannot_be_turned_around():
    assert plain("gnp\u202e.exe\u2066") == "gnp.exe"
    said = "\u05e9\u05dc\u05d5\u05dd \u200f world \U0001f469\u200d\U0001f4bb"
    assert plain(said) == said


@given(st.text())
def test_nothing_a_terminal_obeys_is_left(text):
    cleaned = plain(text)
    assert not [c for c in cleaned if (ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]
    assert "\n" not in plain_line(text)
    assert plain(cleaned) == cleaned


@given(st.text())
def test_json_says_the_same_on_one_line(text):
    document = escaped_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(document) == text
    assert len(document.splitlines()) == 1
