"""Operations on text."""

import asyncio
import json
import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hermes.util.concurrency import current_session, in_session
from hermes.util.text import (
    LONGEST_HELD,
    LineBuffer,
    clean,
    cut_middle,
    escape_controls,
    escaped_json,
    human_duration,
    human_size,
    new_session_id,
    parse_duration,
    plain,
    plain_line,
    terminal_text,
    visible,
    wrap_lines,
)


def test_clean_drops_only_what_cannot_be_stored():
    assert clean("a\x00b\ud800c\n🙂\x7f") == "abc\n🙂\x7f"


def test_cut_middle_keeps_head_and_tail_and_says_how_much_is_missing():
    text = "H" * 50 + "T" * 50
    cut = cut_middle(text, 10)
    assert cut == "HHHHH\n[... 90 characters left out ...]\nTTTTT"
    assert cut_middle("short", 5) == "short"
    assert cut_middle("abc", 1) == "a\n[... 2 characters left out ...]\n"


def test_sizes_are_readable():
    shown = {0: "0 B", 999: "999 B", 1500: "1.5 kB", 491_000_000: "491.0 MB"}
    assert {count: human_size(count) for count in shown} == shown


def test_durations_show_two_units_at_most():
    shown = {0.4: "0s", 42: "42s", 303: "5m 3s", 3600: "1h", 7805: "2h 10m", 273_600: "3d 4h"}
    assert {seconds: human_duration(seconds) for seconds in shown} == shown


def test_durations_are_understood():
    known = {"30s": 30, "5m": 300, "2h": 7200, "1D": 86400, "5": None, "": None, "h2": None}
    assert {text: parse_duration(text) for text in known} == known


def test_session_ids_sort_by_time_and_differ():
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    first, second = new_session_id(moment), new_session_id(moment)
    assert re.fullmatch(r"20260304_050607_[0-9a-f]{8}", first)
    assert first != second


async def test_tasks_started_in_a_session_know_it_and_others_do_not():
    async def seen() -> str:
        await asyncio.sleep(0)
        return current_session()

    with in_session("one"):
        inside = asyncio.create_task(seen())
    assert (await inside, await seen()) == ("one", "")


HEBREW = "\u05e9\u05dc\u05d5\u05dd \u200f world \U0001f469\u200d\U0001f4bb"
PLAIN = {
    "\x1b[1;31mred\x1b[0m and \x9b2Jmore": "red and more",
    "\x1b]0;new title\x07text": "text",
    "\x1b]52;c;c3RvbGVu\x1b\\text": "text",
    "\x1bP1$r0m\x1b\\a\x1b(0b\x1bcc": "abc",
    # A sequence without an end swallows no other line.
    "\x1b]0;open\nnext": "\nnext",
    "end\x1b": "end",
    "end\x1b[": "end",
    # Every line end is a newline, and tabs stay.
    "a\r\nb\rc\u2028d\x0be\tf": "a\nb\nc\nd\ne\tf",
    # Text cannot be turned around.
    "gnp\u202e.exe\u2066": "gnp.exe",
    HEBREW: HEBREW,
}


def test_escape_sequences_go_and_the_text_stays():
    assert {text: plain(text) for text in PLAIN} == PLAIN


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


def through(*pieces: str) -> tuple[list[str], str]:
    """What came out before the end, and what the end brought."""
    given_on: list[str] = []
    lines = LineBuffer(given_on.append)
    for piece in pieces:
        lines.add(piece)
    before = list(given_on)
    lines.flush()
    return before, "".join(given_on[len(before) :])


def test_lines_come_whole_and_a_key_of_many_lines_in_one_piece():
    assert through("one\ntw", "o\nthree") == (["one\n", "two\n"], "three")
    assert through("10 %\r20", " %\r") == (["10 %\r", "20 %\r"], "")
    assert through("no end") == ([], "no end")
    assert through("a\n", "") == (["a\n"], "")
    key = ["-----BEGIN PRIVATE KEY-----\n", "abc\n", "def\n", "-----END PRIVATE KEY-----\n"]
    assert through("x\n", *key) == (["x\n", "".join(key)], "")


def test_an_endless_line_is_cut_between_words():
    word = "word " * (LONGEST_HELD // 5 + 10)
    before, rest = through(word)
    assert all(piece.endswith(" ") for piece in before)
    assert "".join(before) + rest == word
    assert len(through("x" * (LONGEST_HELD * 3))[0]) >= 1


@given(st.lists(st.text()))
def test_nothing_is_lost_or_changed(pieces):
    before, rest = through(*pieces)
    assert "".join(before) + rest == "".join(pieces)


def test_escape_controls_keeps_text_newlines_and_tabs() -> None:
    assert escape_controls("a\tb\r\nc é 👨\u200d👩 \xa0") == "a\tb\nc é 👨\u200d👩 \xa0"
    assert escape_controls("\x1b]0;x\x07\x9b\r\u202e\u2028") == r"\x1b]0;x\x07\x9b\r\u202e\u2028"


def test_terminal_text_lets_marked_colours_through_and_no_others() -> None:
    own = "\x1b[77;31mred\x1b[77;0m"
    assert terminal_text(f"{own} \x1b[8mx", "77;") == "\x1b[31mred\x1b[0m \\x1b[8mx"
    assert terminal_text("\x1b[77;2J", "77;") == r"\x1b[2J"
    assert terminal_text("\x1b[1mx\x1b[0m\x1b[2K\x1b[") == "\x1b[1mx\x1b[0m\\x1b[2K\\x1b["


def test_visible_escapes_what_cannot_be_seen() -> None:
    assert visible("plain é 日本\n") == "plain é 日本\n"
    assert visible("\x00\t\u200b\ufeff\u3164\ufe0f\U000e0041\ud800") == (
        r"\x00\t\u200b\ufeff\u3164\ufe0f\U000e0041\ud800"
    )


def test_long_lines_are_broken_between_words() -> None:
    assert wrap_lines("one two three four", 9) == "one two\nthree\nfour"
    assert wrap_lines("  - one two three", 9) == "  - one\n    two\n    three"
    assert wrap_lines("name  one two three four", 16) == "name  one two\n      three four"
    assert wrap_lines("\x1b[1mone two\x1b[0m three\nx", 9) == "\x1b[1mone two\x1b[0m\nthree\nx"
    assert wrap_lines("https://example.com/a/b is long", 9) == "https://example.com/a/b\nis long"
    assert wrap_lines("日本 日本 日本", 9) == "日本 日本\n日本"
