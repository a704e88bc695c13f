"""Contents of Matrix events."""

import msgspec

from hermes.sdk.platforms import Media, OutgoingMessage
from hermes_plugins.platforms.matrix.adapter import (
    add_relation,
    edit_content,
    file_content,
    text_content,
    transaction_id,
)


def test_the_same_key_has_the_same_name_and_parts_have_their_own() -> None:
    assert transaction_id("reply:1:0", 0) == transaction_id("reply:1:0", 0)
    names = {transaction_id(key, part) for key in ("a", "a\0", "b") for part in range(3)}
    assert len(names) == 9
    assert all(len(name) <= 64 and name.isalnum() for name in names)


def test_plain_words_need_no_html() -> None:
    content = text_content(OutgoingMessage("hello"))
    assert content == {"msgtype": "m.text", "body": "hello", "m.mentions": {}}


def test_html_has_a_plain_form() -> None:
    content = text_content(OutgoingMessage("<b>1 &lt; 2</b>"))
    assert (content["body"], content["formatted_body"]) == ("1 < 2", "<b>1 &lt; 2</b>")


def test_a_text_that_would_be_too_large_twice_goes_without_html() -> None:
    text = '"\n' * 10_000
    content = text_content(OutgoingMessage(f"<p>{text}</p>", plain=text))
    assert "formatted_body" not in content
    assert len(msgspec.json.encode(content)) * 4 // 3 < 60_000


def test_an_edit_stays_within_an_event() -> None:
    text = "x" * 20_000
    content = edit_content(OutgoingMessage(f"<b>{text}</b>", plain=text), "$1")
    assert content["m.new_content"]["formatted_body"] == f"<b>{text}</b>"
    assert content["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$1"}
    assert len(msgspec.json.encode(content)) * 4 // 3 < 60_000


def test_threads_and_answers() -> None:
    assert "m.relates_to" not in add_relation({}, "", "")
    assert add_relation({}, "", "$1")["m.relates_to"] == {"m.in_reply_to": {"event_id": "$1"}}
    thread = add_relation({}, "$root", "$root")["m.relates_to"]
    assert (thread["event_id"], thread["is_falling_back"]) == ("$root", True)
    answer = add_relation({}, "$root", "$2")["m.relates_to"]
    assert (answer["is_falling_back"], answer["m.in_reply_to"]) == (False, {"event_id": "$2"})


def test_a_voice_message_is_marked_as_one() -> None:
    content = file_content(Media("voice", "v.ogg", "audio/ogg"), 9, {"url": "mxc://h/1"}, {})
    assert (content["msgtype"], content["body"]) == ("m.audio", "v.ogg")
    assert "org.matrix.msc3245.voice" in content
    assert content["info"] == {"mimetype": "audio/ogg", "size": 9}
