"""What people say to us on Matrix, without what their clients put around it."""

from typing import Any

import pytest

from hermes.gateway.platforms.matrix.inbound import (
    MatrixIdentity,
    html_to_plain,
    mentions_us,
    own_text,
    quoted_lines,
    without_quote,
)

ME = MatrixIdentity("@hermes:example.org", "Hermes Bot")
REPLY = {"m.relates_to": {"m.in_reply_to": {"event_id": "$1"}}}


def pill(address: str) -> dict[str, str]:
    return {"body": "Hermes Bot: hi", "formatted_body": f'<a href="{address}">Hermes Bot</a>: hi'}


@pytest.mark.parametrize(
    "content",
    [
        {"body": "hi", "m.mentions": {"user_ids": ["@ann:example.org", "@hermes:example.org"]}},
        pill("https://matrix.to/#/@hermes:example.org"),
        pill("https://matrix.to/#/%40hermes%3Aexample.org"),
        pill("https://matrix.to/#/@hermes:example.org?via=example.org"),
        pill("matrix:u/hermes:example.org"),
        {"body": "@hermes hi"},
        {"body": "hi @Hermes!"},
        {"body": "@hermes: hi"},
        {"body": "hi @hermes:example.org"},
        {"body": "@Hermes Bot, hi"},
    ],
)
def test_we_are_mentioned(content: dict[str, Any]) -> None:
    assert mentions_us(content, ME)


@pytest.mark.parametrize(
    "content",
    [
        {"body": "hi"},
        {"body": "hermes is a god"},
        {"body": "mail@hermes"},
        {"body": "@hermes:other.org hi"},
        {"body": "@hermes2 hi"},
        {"body": "hi", "m.mentions": {"room": True}},
        {"body": "hi", "m.mentions": {"user_ids": "@hermes:example.org"}},
        {"body": "hi", "m.mentions": ["@hermes:example.org"]},
        {"body": "> <@ann:example.org> @hermes\n\nwhat he said", **REPLY},
        pill("https://evil.example/#/@hermes:example.org"),
        pill("https://matrix.to/#/@hermes:other.org"),
        {},
        {"body": 7, "formatted_body": None},
    ],
)
def test_others_are_meant(content: dict[str, Any]) -> None:
    assert not mentions_us(content, ME)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"body": "@hermes: the weather?"}, "the weather?"),
        ({"body": "@hermes:example.org the weather?"}, "the weather?"),
        ({"body": "the weather? @Hermes Bot"}, "the weather?"),
        ({"body": "ask @hermes about it"}, "ask @hermes about it"),
        (pill("https://matrix.to/#/@hermes:example.org"), "hi"),
        ({"body": "Hermes Botany is nice"}, "Hermes Botany is nice"),
        ({"body": "@hermes"}, ""),
    ],
)
def test_our_name_is_left_out_where_it_is_an_address(content: dict[str, Any], said: str) -> None:
    assert own_text(content, ME) == said


def test_a_message_of_blanks_keeps_nobody_waiting() -> None:
    """It once took minutes, in which every chat stood still; the time limit of the tests tells."""
    blanks = " " * 200_000
    assert own_text({"body": f"@hermes hi{blanks}you"}, ME) == f"hi{blanks}you"
    assert own_text({"body": f"hi{blanks}@hermes{blanks}"}, ME) == "hi"


def test_the_quoted_message_is_no_part_of_an_answer() -> None:
    content = {"body": "> <@ann:example.org> one\n> two\n\nmine\n> not quoted", **REPLY}
    assert without_quote(content) == "mine\n> not quoted"
    assert quoted_lines(content) == "one\ntwo"


def test_a_quote_of_ones_own_is_kept() -> None:
    assert without_quote({"body": "> wisdom\n\nso true"}) == "> wisdom\n\nso true"


def test_html_without_plain_text_is_readable() -> None:
    assert html_to_plain("<p>1 &lt; 2</p><ul><li>so</li><li>far</li></ul>a<br>b") == (
        "1 < 2\nso\nfar\na\nb"
    )
