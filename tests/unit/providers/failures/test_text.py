"""What an endpoint said is fit to be shown."""

import pytest

from hermes.providers.failures.body import printable


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefGHIJKL0123456789",
        "sk-or-v1-0123456789abcdef0123456789abcdef",
        "sk-ant-api03-aaaaBBBBcccc1111-_dd",
        "sk-proj-********************abcd",
        "sk***YA",
        "na***ys",
        "gsk_abcdefgh12345678",
        "xai-abcdefgh12345678",
        "hf_abcdefghijklmnop",
        "nvapi-abcdefgh-12345678",
        "ghu_16C7e42F292c6912E7710c838347Ae178B4a",
        "AIzaSyA-1234567890abcdefghijk",
        "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp",
        "ak-f1abcdefgh2ijk",
    ],
)
@pytest.mark.parametrize(
    "sentence", ["Incorrect API key provided: {}. See there.", "key <{}> is bad", "Bearer {}"]
)
def test_a_key_the_endpoint_echoes_is_hidden(key, sentence):
    shown = printable(sentence.format(key), 300)
    assert key not in shown
    assert key[-6:] not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "words",
    [
        "The model `gpt-4o-mini-2024-07-18` does not exist",
        "anthropic/claude-sonnet-4.5 is not a valid model ID",
        "16f2151a-40f4-4a80-8ad0-cae00c27e8dd",
        "exceed_context_size_error: 14429 tokens",
        "余额不足或无可用资源包,请充值。",
        "ask-me and task-list-item-number-one",
    ],
)
def test_ordinary_words_are_left_alone(words):
    assert printable(words, 300) == words


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\n\tc", "a b c"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("nul\x00byte", "nul byte"),
        ("turned \u202earound", "turned around"),
        ("half \ud83d of it", "half of it"),
        ("line\u2028break", "line break"),
    ],
)
def test_it_is_one_line_without_control_characters(text, shown):
    assert printable(text, 300) == shown


def test_it_is_cut_to_length():
    assert printable("word " * 100, 20) == "word word word word…"
