"""Parsing Matrix events."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.sdk.platforms import MessageEvent
from hermes_plugins.platforms.matrix.client import MatrixRoom
from hermes_plugins.platforms.matrix.inbound import (
    MatrixIdentity,
    QuotedMessage,
    html_to_plain,
    is_user_message,
    mentions_us,
    own_text,
    parse_event,
    quoted_lines,
    without_quote,
)

CORPUS = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text("utf-8"))
ME = MatrixIdentity("@hermes:example.org", "Hermes")


def event(content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": "$1",
        "sender": "@ann:example.org",
        "origin_server_ts": 1_700_000_000_500,
        "content": content,
        **more,
    }


def group() -> MatrixRoom:
    room = MatrixRoom("!r:example.org", ME.user_id)
    room.name = "Garden"
    return room


def read(content: Any, **more: Any) -> MessageEvent:
    given = event(content)
    assert is_user_message(given, ME.user_id)
    return parse_event(given, group(), ME, **more)


@pytest.mark.parametrize(
    "heard",
    [
        event({"msgtype": "m.text", "body": "x"}, sender=ME.user_id),
        event({"body": "x", "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}}),
        event({}),
        event(None),
        event({"body": "x"}, type="m.reaction"),
        event({"body": "x"}, type="m.room.topic", state_key=""),
        event({"body": "x"}, state_key=""),
        event({"body": "x"}, event_id=7),
    ],
    ids=["ours", "edit", "redacted", "broken", "reaction", "state", "forged state", "no id"],
)
def test_events_that_are_not_user_messages_are_ignored(heard: dict[str, Any]) -> None:
    assert not is_user_message(heard, ME.user_id)


def test_a_message_says_who_wrote_it_when() -> None:
    found = read({"msgtype": "m.text", "body": "hi"})
    assert (found.source.user_id, found.source.user_name) == ("@ann:example.org", "ann")
    assert (found.source.chat_name, found.source.chat_type) == ("Garden", "group")
    assert (found.sent_at, found.addressed) == (1_700_000_000.5, False)


def test_kinds_of_messages_become_words() -> None:
    assert [each for each, text in CORPUS["kinds"] if read(each).text != text] == []


def test_a_sticker_is_named() -> None:
    sticker = event({"body": "a cat", "url": "mxc://h/1"}, type="m.sticker")
    assert is_user_message(sticker, ME.user_id)
    assert parse_event(sticker, group(), ME).text == "[sticker: a cat]"


def test_a_notice_is_of_a_program() -> None:
    assert read({"msgtype": "m.notice", "body": "beep"}).source.is_bot


def test_an_encrypted_file_brings_what_opens_it() -> None:
    file = {"url": "mxc://h/1", "key": {"k": "secret"}, "iv": "i", "hashes": {"sha256": "s"}}
    (media,) = read({"msgtype": "m.file", "body": "a.pdf", "file": file}).media
    assert msgspec.json.decode(media.ref) == file
    assert (media.kind, media.name) == ("document", "a.pdf")


def test_a_size_that_cannot_be_counts_for_nothing() -> None:
    content = {"msgtype": "m.file", "body": "a", "url": "mxc://h/1", "info": {"size": -5}}
    assert read(content).media[0].size == 0


def test_reply_to_own_message_is_addressed() -> None:
    content = {"body": "yes", "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}
    ours = read(content, reply=QuotedMessage(ME.user_id, "shall I?"))
    assert (ours.reply_to_id, ours.reply_to_text, ours.addressed) == ("$0", "shall I?", True)
    assert not read(content, reply=QuotedMessage("@bob:example.org", "shall I?")).addressed


def test_thread_fallback_for_older_clients_is_not_a_reply() -> None:
    relation = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$last"},
    }
    found = read({"body": "go on", "m.relates_to": relation}, in_talk=True)
    assert (found.source.thread_id, found.reply_to_id, found.addressed) == ("$root", "", True)
    real = read({"body": "go on", "m.relates_to": relation | {"is_falling_back": False}})
    assert (real.source.thread_id, real.reply_to_id, real.addressed) == ("$root", "$last", False)


@pytest.mark.parametrize("relation", [7, {"rel_type": 7}, {"m.in_reply_to": "$1"}, []])
def test_broken_relations_are_none(relation: object) -> None:
    found = read({"body": "x", "m.relates_to": relation})
    assert (found.source.thread_id, found.reply_to_id) == ("", "")


ME_WORDS = MatrixIdentity("@hermes:example.org", "Hermes Bot")
REPLY = {"m.relates_to": {"m.in_reply_to": {"event_id": "$1"}}}


def test_mention_is_detected() -> None:
    for kind in ("mentions", "others"):
        found = [each for each in CORPUS[kind] if mentions_us(each, ME_WORDS)]
        assert found == (CORPUS[kind] if kind == "mentions" else [])


def test_our_name_is_left_out_where_it_is_an_address() -> None:
    assert [each for each, said in CORPUS["own_text"] if own_text(each, ME_WORDS) != said] == []


def test_message_of_blanks_is_parsed_quickly() -> None:
    """It once took minutes, in which every chat stood still; the time limit of the tests tells."""
    blanks = " " * 200_000
    assert own_text({"body": f"@hermes hi{blanks}you"}, ME_WORDS) == f"hi{blanks}you"
    assert own_text({"body": f"hi{blanks}@hermes{blanks}"}, ME_WORDS) == "hi"


def test_quoted_message_is_not_part_of_a_reply() -> None:
    content = {"body": "> <@ann:example.org> one\n> two\n\nmine\n> not quoted", **REPLY}
    assert without_quote(content) == "mine\n> not quoted"
    assert quoted_lines(content) == "one\ntwo"


def test_a_quote_of_ones_own_is_kept() -> None:
    assert without_quote({"body": "> wisdom\n\nso true"}) == "> wisdom\n\nso true"


def test_html_without_plain_text_is_readable() -> None:
    assert html_to_plain("<p>1 &lt; 2</p><ul><li>so</li><li>far</li></ul>a<br>b") == (
        "1 < 2\nso\nfar\na\nb"
    )
