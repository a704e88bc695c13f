"""Message bodies for Slack."""

from pathlib import Path

import pytest

from hermes.sdk.platforms import (
    AdapterContext,
    Button,
    CredentialsRefused,
    OutgoingMessage,
    SendRefused,
)
from hermes_plugins.platforms.slack import outbound
from hermes_plugins.platforms.slack.client import (
    SlackOptions,
    check_tokens,
    micros,
    read_options,
    split_chat,
    timestamp_of,
)
from hermes_plugins.platforms.slack.inbound import _is_slack_url
from hermes_plugins.platforms.slack.manifest import (
    MANIFEST,
    SlackExtra,
    SlackPlatform,
    SlackSettings,
)
from hermes_plugins.platforms.slack.outbound import emoji_name
from tests.cases import cases

CASES = cases(__file__)

OPTIONS = SlackOptions(("xoxb-1",), "xapp-1")


def context(connection: SlackPlatform, **variables: str) -> AdapterContext:
    nowhere = Path("nowhere")
    return AdapterContext(
        MANIFEST, variables.get, SlackSettings(), connection, nowhere, nowhere, nowhere
    )


def test_a_message_is_known_again_by_its_mark() -> None:
    body = outbound.message_body(OutgoingMessage("hi"), OPTIONS, "reply:1:0", "")
    assert outbound.is_marked(body, "reply:1:0")
    assert not outbound.is_marked(body, "reply:1:1")
    assert not outbound.is_marked({"text": "hi"}, "reply:1:0")
    assert "reply:1:0" not in str(body)


def test_long_questions_fit_into_blocks() -> None:
    text = "\n".join("word " * 100 for _ in range(9))
    body = outbound.text_body(OutgoingMessage(text, buttons=(Button("L" * 200, "data"),)), OPTIONS)
    *sections, actions = body["blocks"]
    assert " ".join(block["text"]["text"] for block in sections).split() == text.split()
    assert all(len(block["text"]["text"]) <= outbound.MAX_SECTION for block in sections)
    assert len(actions["elements"][0]["text"]["text"]) == outbound.MAX_LABEL
    long = outbound.text_body(OutgoingMessage("x" * 7000, buttons=(Button("L", "d"),)), OPTIONS)
    assert [len(block["text"]["text"]) for block in long["blocks"][:-1]] == [3000, 3000, 1000]


def test_code_over_two_blocks_is_code_in_both() -> None:
    text = "```\n" + "\n".join(f"line {number}" for number in range(400)) + "\n```"
    body = outbound.text_body(OutgoingMessage(text, buttons=(Button("Yes", "yes"),)), OPTIONS)
    sections = [block["text"]["text"] for block in body["blocks"][:-1]]
    assert len(sections) == 2
    assert all(each.startswith("```\n") and each.endswith("\n```") for each in sections)


def test_an_empty_message_is_refused() -> None:
    with pytest.raises(SendRefused):
        outbound.text_body(OutgoingMessage(" \n"), OPTIONS)


def test_without_quotes_every_part_has_the_prefix() -> None:
    settings = SlackSettings(reply_prefix="> ")
    for quotes, expected in ((True, "part"), (False, "&gt; part")):
        options = SlackOptions(("xoxb-1",), "xapp-1", settings, reply_references=quotes)
        assert outbound.text_body(OutgoingMessage("part"), options)["text"] == expected


@pytest.mark.parametrize(
    ("emoji", "name"),
    [("👀", "eyes"), ("⚠️", "warning"), (":tada:", "tada"), ("🌵", "cactus"), ("wave", "wave")],
)
def test_emoji_have_names(emoji: str, name: str) -> None:
    assert emoji_name(emoji) == name


def test_ids_are_read_as_they_are_written() -> None:
    assert split_chat("T1/C1") == ("T1", "C1")
    assert split_chat("C1") == ("", "C1")
    assert timestamp_of("T1/C1:1700000000.000100") == "1700000000.000100"
    for none in ("", "C1", "C1:F1", "C1:command:1.2.x", "C1:press:1700000000.000100:1.1:U1"):
        assert timestamp_of(none) == ""
    assert micros("1700000000.000100") == 1_700_000_000_000_100


@pytest.mark.parametrize(("url", "ours"), CASES["urls"])
def test_the_token_goes_to_slack_only(url: str, ours: bool) -> None:
    assert _is_slack_url(url, "https://slack.com/api/") is ours


def test_settings_and_variables_are_taken_together() -> None:
    extra = SlackExtra(reply_in_thread=True, reply_broadcast=True)
    connection = SlackPlatform(token="xoxb-2, xoxb-1", extra=extra)
    options = read_options(
        context(connection, SLACK_BOT_TOKEN="xoxb-1", SLACK_APP_TOKEN=" xapp-1 ")
    )
    assert options.tokens == ("xoxb-1", "xoxb-2")
    assert (options.app_token, options.threads, options.broadcast) == ("xapp-1", True, True)


@pytest.mark.parametrize(("bot", "app", "named", "told"), CASES["tokens"])
def test_missing_or_swapped_tokens_are_refused(bot: str, app: str, named: str, told: str) -> None:
    options = read_options(context(SlackPlatform(), SLACK_BOT_TOKEN=bot, SLACK_APP_TOKEN=app))
    with pytest.raises(CredentialsRefused) as error:
        check_tokens(options)
    assert str(error.value).startswith(told)
    assert named in (error.value.hint or "")
