"""The reply appears while it is written, and exactly as it is meant."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.providers.small_model import ReplyTextReader


def fed(pieces: list[str]) -> list[str]:
    decoder = ReplyTextReader()
    return [decoder.feed(piece) for piece in pieces]


def test_text_comes_out_as_it_goes_in():
    assert fed(['{"re', 'ply":"Hel', "lo wor", 'ld"}']) == ["", "Hel", "lo wor", "ld"]


def test_a_call_of_a_tool_shows_nothing():
    assert fed(['{"terminal":', '{"command":"echo \\"reply\\""}}']) == ["", ""]


@pytest.mark.parametrize(
    ("json_text", "text"),
    [
        (r'{"reply":"a\nb"}', "a\nb"),
        (r'{"reply":"say \"hi\" \\ \/"}', 'say "hi" \\ /'),
        (r'{"reply":"caf\u00e9"}', "café"),
        (r'{"reply":"\ud83d\ude00!"}', "😀!"),
        ('{ "reply" : "spaced" }', "spaced"),
        ('{"reply":""}', ""),
    ],
)
def test_escapes_are_decoded_even_when_they_arrive_letter_by_letter(json_text: str, text: str):
    decoder = ReplyTextReader()
    assert "".join(decoder.feed(letter) for letter in json_text) == text
    assert decoder.text == text


def test_an_unfinished_escape_waits():
    assert fed(['{"reply":"a\\', "n", "b\\u00", 'e9"}']) == ["a", "\n", "b", "é"]


@given(st.text(), st.booleans(), st.integers(min_value=1, max_value=7))
def test_any_text_survives_any_cutting(text: str, ascii_only: bool, size: int):
    written = json.dumps({"reply": text}, ensure_ascii=ascii_only)
    pieces = [written[start : start + size] for start in range(0, len(written), size)]
    assert "".join(fed(pieces)) == text
