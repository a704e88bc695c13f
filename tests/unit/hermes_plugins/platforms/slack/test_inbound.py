"""Parsing Slack messages."""

from typing import Any

import msgspec
import pytest
from slack_sdk.web.async_client import AsyncWebClient

from hermes_plugins.platforms.slack import inbound
from hermes_plugins.platforms.slack.client import SlackWorkspace
from tests.cases import cases

CASES = cases(__file__)


@pytest.fixture
def home() -> SlackWorkspace:
    return workspace()


def workspace(*, home: bool = True) -> SlackWorkspace:
    made = SlackWorkspace(AsyncWebClient("xoxb-1"), home=home)
    made.team, made.me, made.bot_id = "T1", "UME", "BME"
    return made


def said(**more: Any) -> inbound.SlackMessage:
    data = {"type": "message", "ts": "1700000000.000100", "channel": "C1", "user": "U1"}
    return inbound.parse_message({**data, "channel_type": "channel", **more})


def test_empty_fields_are_accepted() -> None:
    message = said(text="hi", files=None, thread_ts=None, edited={"user": None}, blocks=[{"x": 1}])
    assert (message.text, message.files, message.thread) == ("hi", (), "")


@pytest.mark.parametrize("data", [{}, {"ts": 5}, {"ts": "1.000000", "text": ["no"]}])
def test_invalid_message_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        inbound.parse_message(data)


@pytest.mark.parametrize(("channel", "kind", "private"), CASES["chats"])
def test_only_a_chat_of_two_is_private(home, channel, kind, private):
    event = inbound.make_event(said(channel=channel, channel_type=kind, text="x"), home)
    assert (event.source.chat_type == "dm", event.addressed) == (private, private)


def test_a_message_is_named_by_its_chat_and_its_time(home: SlackWorkspace) -> None:
    assert inbound.make_event(said(), home).message_id == "C1:1700000000.000100"
    away = inbound.make_event(said(), workspace(home=False))
    assert away.message_id == "T1/C1:1700000000.000100"
    assert away.source.user_id == "T1/U1"


def test_the_first_message_of_a_thread_is_in_the_channel(home: SlackWorkspace) -> None:
    first = said(thread_ts="1700000000.000100", text="x")
    assert inbound.make_event(first, home).source.thread_id == ""
    assert inbound.make_event(first, home, in_threads=True).source.thread_id == first.ts
    private = said(channel="D1", channel_type="im", text="x")
    assert inbound.make_event(private, home, in_threads=True).source.thread_id == ""


def test_reply_to_own_message_is_addressed(home: SlackWorkspace) -> None:
    inside = {"thread_ts": "1600000000.000100", "text": "x"}
    assert inbound.make_event(said(**inside, parent_user_id="UME"), home).addressed
    assert not inbound.make_event(said(**inside, parent_user_id="U2"), home).addressed
    assert inbound.make_event(said(**inside), home, in_talk=True).addressed


@pytest.mark.parametrize(
    "more",
    [{"bot_id": "B2"}, {"subtype": "bot_message", "bot_id": "B2", "user": "", "username": "ci"}],
)
def test_programs_are_known_as_such(home: SlackWorkspace, more: dict[str, Any]) -> None:
    event = inbound.make_event(said(text="beep", **more), home)
    assert event.source.is_bot
    assert event.source.user_id in {"U1", "B2"}


def test_attachments_of_bots_are_read(home: SlackWorkspace) -> None:
    attachments = [{"title": "Build 7", "text": "failed &amp; gone", "fallback": "no"}]
    event = inbound.make_event(said(bot_id="B2", attachments=attachments), home)
    assert event.text == "Build 7\nfailed & gone"
    assert inbound.make_event(
        said(text="see <https://e.org>", attachments=attachments), home
    ).text == ("see https://e.org")


def test_forwarded_message_is_included(home: SlackWorkspace) -> None:
    shared = [{"is_share": True, "author_name": "Bob", "text": "the &lt;news&gt;"}]
    event = inbound.make_event(said(text="look", attachments=shared), home)
    assert event.text == "look\n[forwarded from Bob] the <news>"


def test_files_are_what_they_are(home: SlackWorkspace) -> None:
    files = CASES["files"]
    event = inbound.make_event(said(subtype="file_share", files=files), home)
    assert [(media.kind, media.ref) for media in event.media] == [
        ("image", "F1"),
        ("voice", "F2"),
        ("document", "F4"),
    ]
    assert event.text == "[file: Plan] https://e.org/plan"


def test_a_press_without_a_value_is_none(home: SlackWorkspace) -> None:
    payload = CASES["press"]
    (press,) = inbound.button_events(payload, home)
    assert (press.button, press.source.thread_id) == ("yes", "1600000000.000100")
    assert press.source.user_id == "T9/U1"
    assert press.reply_to_id == "C1:1700000000.000100"
