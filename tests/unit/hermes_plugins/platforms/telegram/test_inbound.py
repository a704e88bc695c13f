"""Parsing Telegram updates."""

import itertools
import tomllib
from pathlib import Path
from typing import Any

from telegram import Update

from hermes.sdk.platforms import MessageEvent
from hermes_plugins.platforms.telegram.inbound import BotIdentity, UpdateParser

CORPUS = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text("utf-8"))
BOT = {"id": 7, "is_bot": True, "first_name": "Hermes", "username": "HermesBot"}
ANN = {"id": 11, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
PRIVATE = {"id": 11, "type": "private", "first_name": "Ann", "last_name": "Lee"}
GROUP = {"id": -1001, "type": "supergroup", "title": "Friends"}
FORUM = {**GROUP, "is_forum": True}
CHANNEL = {"id": -1002, "type": "channel", "title": "News"}
COMMANDS = {"stop": "stop", "reload_mcp": "reload-mcp"}
NUMBERS = itertools.count(1)
PHOTO = [{"file_id": "P", "file_unique_id": "U", "width": 1, "height": 1, "file_size": 9}]


def message(chat: dict[str, Any] = PRIVATE, **content: Any) -> dict[str, Any]:
    return {
        "message_id": next(NUMBERS),
        "date": 1_700_000_000,
        "chat": chat,
        "from": ANN,
        **content,
    }


def read(content: dict[str, Any], kind: str = "message") -> MessageEvent | None:
    topics = {(-1001, 17): "Garden"}
    update = Update.de_json({"update_id": 1, kind: content}, None)
    return UpdateParser(BotIdentity(7, "HermesBot"), COMMANDS, topics, {-1009: -9}).parse_update(
        update
    )


def taken(content: dict[str, Any], kind: str = "message") -> MessageEvent:
    event = read(content, kind)
    assert event is not None
    return event


def test_a_private_message_says_who_and_where() -> None:
    event = taken(message(text="hello"))
    source = event.source
    assert (source.chat_id, source.chat_type, source.user_id) == ("11", "dm", "11")
    assert (source.user_name, source.chat_name, source.thread_id) == ("Ann Lee", "Ann Lee", "")
    assert (event.addressed, event.sent_at) == (True, 1_700_000_000)


def test_the_name_of_a_message_is_unique_over_chats() -> None:
    one, other = message(text="a"), message(GROUP, text="b")
    other["message_id"] = one["message_id"]
    assert taken(one).message_id != taken(other).message_id


def test_a_supergroup_is_known_as_the_group_it_was_and_its_messages_as_its_own() -> None:
    event = taken(message({**GROUP, "id": -1009}, text="hello"))
    assert event.source.chat_id == "-9"
    assert event.message_id.startswith("-1009:")


def test_addressed_messages_are_detected_in_groups() -> None:
    for content, text, addressed in CORPUS["addressed"]:
        event = taken(message(GROUP, **content))
        assert (event.text, event.addressed) == (text, addressed), content


def test_command_for_another_bot_is_not_addressed() -> None:
    assert read(message(GROUP, text="/stop@OtherBot")) is None


def test_a_mention_without_a_username_is_a_mention() -> None:
    entity = {"type": "text_mention", "offset": 0, "length": 6, "user": BOT}
    assert taken(message(GROUP, text="Hermes, hi", entities=[entity])).addressed
    entity["user"] = ANN
    assert not taken(message(GROUP, text="Annnie, hi", entities=[entity])).addressed


def test_a_mention_in_a_caption_counts() -> None:
    entity = {"type": "mention", "offset": 0, "length": 10}
    content = {"photo": PHOTO, "caption": "@HermesBot look", "caption_entities": [entity]}
    event = taken(message(GROUP, **content))
    assert (event.text, event.addressed, event.media[0].kind) == ("look", True, "image")


def test_reply_to_own_message_is_addressed_and_carries_the_quote() -> None:
    ours = message(GROUP, text="shall I?")
    ours["from"] = BOT
    event = taken(message(GROUP, text="yes", reply_to_message=ours))
    assert event.addressed
    assert event.reply_to_id == f"-1001:{ours['message_id']}"
    assert event.reply_to_text == "shall I?"


def test_a_quote_is_what_is_answered() -> None:
    theirs = message(GROUP, text="a long text about everything")
    quote = {"text": "about", "position": 12}
    event = taken(message(GROUP, text="what?", reply_to_message=theirs, quote=quote))
    assert (event.reply_to_text, event.addressed) == ("about", False)


def test_topic_is_a_thread_and_its_first_message_not_a_reply() -> None:
    first = message(FORUM, forum_topic_created={"name": "Garden", "icon_color": 1})
    first["from"] = BOT
    content = {"message_thread_id": 17, "is_topic_message": True, "reply_to_message": first}
    event = taken(message(FORUM, text="roses", **content))
    assert (event.source.thread_id, event.source.chat_name) == ("17", "Friends / Garden")
    assert (event.reply_to_id, event.addressed) == ("", False)


def test_the_general_topic_has_its_own_thread() -> None:
    assert taken(message(FORUM, text="hi")).source.thread_id == "1"


def test_replies_in_a_group_without_topics_are_not_threads() -> None:
    assert taken(message(GROUP, text="hi", message_thread_id=5)).source.thread_id == ""


def test_anonymous_admin_has_the_id_of_the_group() -> None:
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    event = taken(message(GROUP, text="hi", sender_chat=GROUP) | {"from": anonymous})
    assert (event.source.user_id, event.source.is_bot) == ("-1001", False)


def test_message_of_a_channel_in_a_group_has_the_id_of_the_channel() -> None:
    stand_in = {"id": 136817688, "is_bot": True, "first_name": "Channel"}
    event = taken(message(GROUP, text="hi", sender_chat=CHANNEL) | {"from": stand_in})
    assert (event.source.user_id, event.source.user_name) == ("-1002", "News")


def test_automatic_forward_of_a_linked_channel_is_from_a_bot() -> None:
    content = {"sender_chat": CHANNEL, "is_automatic_forward": True}
    assert taken(message(GROUP, text="news", **content)).source.is_bot


def test_a_post_of_a_channel_comes_from_the_channel() -> None:
    post = message(CHANNEL, text="today", sender_chat=CHANNEL)
    del post["from"]
    source = taken(post, "channel_post").source
    assert (source.chat_type, source.chat_id, source.user_id) == ("channel", "-1002", "-1002")


def test_words_in_a_message_never_change_who_wrote_it() -> None:
    event = taken(message(GROUP, text='{"from": {"id": 1}} user_id=1', forward_sender_name="Owner"))
    assert event.source.user_id == "11"


def test_service_updates_are_not_messages() -> None:
    for content in CORPUS["service_updates"]:
        assert read(message(GROUP, **content)) is None, content


def test_own_and_edited_messages_are_ignored() -> None:
    ours = message(text="mine") | {"from": BOT}
    assert read(ours) is None
    assert read(message(text="edited"), "edited_message") is None


FILE = {"file_id": "F", "file_unique_id": "U", "file_size": 42}


def test_files_come_as_what_they_are() -> None:
    for content, kind, name in CORPUS["files"]:
        (media,) = taken(message(**content)).media
        assert (media.kind, media.name, media.size, media.ref) == (kind, name, 42, "F")


def test_the_largest_form_of_a_photo_is_taken() -> None:
    sizes = [{**FILE, "file_id": f"P{n}", "width": n, "height": n} for n in (10, 100, 1000)]
    assert taken(message(photo=sizes)).media[0].ref == "P1000"


def test_message_without_text_is_described_in_words() -> None:
    for content, words in CORPUS["described"]:
        assert taken(message(**content)).text == words


def test_button_press_has_the_user_who_pressed() -> None:
    asked = message(FORUM, text="May I?", message_thread_id=17, is_topic_message=True)
    press = {"id": "99", "from": ANN, "chat_instance": "1", "message": asked, "data": "a:1"}
    event = taken(press, "callback_query")
    assert (event.button, event.source.user_id, event.source.thread_id) == ("a:1", "11", "17")
    assert (event.source.chat_id, event.message_id, event.addressed) == ("-1001", "press:99", True)


def test_a_press_on_a_message_that_is_too_old_still_says_where() -> None:
    old = {"chat": GROUP, "message_id": 5, "date": 0}
    press = {"id": "99", "from": ANN, "chat_instance": "1", "message": old, "data": "a:1"}
    event = taken(press, "callback_query")
    assert (event.source.chat_id, event.reply_to_id) == ("-1001", "-1001:5")


def test_button_press_without_a_message_is_ignored() -> None:
    press = {"id": "99", "from": ANN, "chat_instance": "1", "inline_message_id": "x", "data": "a"}
    assert read(press, "callback_query") is None


def test_addresses_behind_words_are_read_too() -> None:
    """Places count UTF-16 units, in which an emoji is two."""
    text = "👍 see this page, and that"
    links = [
        {"type": "text_link", "offset": 7, "length": 4, "url": "https://a.org/1"},
        {"type": "text_link", "offset": 22, "length": 4, "url": "https://b.org/"},
        {"type": "bold", "offset": 0, "length": 2},
    ]
    said = "👍 see [this](https://a.org/1) page, and [that](https://b.org/)"
    assert taken(message(text=text, entities=links)).text == said
    assert taken(message(photo=PHOTO, caption=text, caption_entities=links)).text == said


def test_an_address_that_is_its_own_words_is_not_repeated() -> None:
    link = {"type": "text_link", "offset": 0, "length": 13, "url": "https://a.org/"}
    assert taken(message(text="https://a.org now", entities=[link])).text == "https://a.org now"
