"""Exactly once, and honest about what went wrong."""

import pytest

from hermes.sdk.platforms import (
    Button,
    ChatTarget,
    CredentialsRefused,
    DeliveryUnknown,
    Media,
    NotConnected,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.sdk.testing.platforms.harness import (
    attempt,
    connected,
    failure,
    query_of,
    talking,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("channel_not_found", SendRefused), ("is_archived", SendRefused),
        ("not_in_channel", SendRefused), ("missing_scope", SendRefused),
        ("invalid_auth", CredentialsRefused), ("account_inactive", CredentialsRefused),
        ("token_revoked", CredentialsRefused), ("ratelimited", SendLater),
        ("service_unavailable", SendLater), ("internal_error", SendUnsure),
        ("fatal_error", SendUnsure),
    ],
)  # fmt: skip
async def test_an_error_of_slack_says_what_to_do(slack, error, kind):
    async with talking(slack) as (adapter, _, event):
        slack.fake.api.refusals = {"chat.postMessage": [error]}
        outcome = await attempt(adapter, event.source.target, OutgoingMessage("x"), "error-1")
        assert type(outcome) is kind


async def test_a_message_in_a_thread_is_found_after_a_cut(slack):
    async with talking(slack, group=True) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("in doubt")
        query = query_of("doubt-1", after_id=adapter.newest(target))  # type: ignore[attr-defined]
        slack.trouble("cut_after")
        assert isinstance(await attempt(adapter, target, message, "doubt-1"), SendUnsure)
        (shown,) = await slack.shown(target.chat_id)
        assert await adapter.was_delivered(query, target, message) == shown.id
        other = query_of("doubt-2")
        assert await adapter.was_delivered(other, target, message) is None


async def test_a_message_is_found_without_knowing_what_was_before_it(slack):
    async with talking(slack) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("there")
        sent = await adapter.send(target, message, "there-1")
        await adapter.edit(target, sent, OutgoingMessage("there, and changed"))
        slack.fake.api.page = 1
        await slack.says("and more")
        assert await adapter.was_delivered(query_of("there-1"), target, message) == sent


async def test_delivery_in_an_unreadable_channel_is_unknown(slack):
    async with talking(slack) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("x")
        query = query_of("x-1")
        for error, kind in (("missing_scope", DeliveryUnknown), ("internal_error", NotConnected)):
            slack.fake.api.refusals = {"conversations.history": [error]}
            assert type(await failure(adapter.was_delivered(query, target, message))) is kind


async def test_a_message_with_a_file_in_doubt_is_sent_once(slack, tmp_path):
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF-1.4")
    message = OutgoingMessage("look", media=(Media("document", path.name, path=str(path)),))
    async with talking(slack) as (adapter, _, event):
        target = event.source.target
        query = query_of("file-1", after_id=event.message_id)
        assert await adapter.was_delivered(query, target, message) is None
        slack.trouble("cut_after")
        assert isinstance(await attempt(adapter, target, message, "file-1"), SendUnsure)
    async with connected(slack) as (adapter, _):
        (shown,) = await slack.shown(target.chat_id)
        first = await failure(adapter.was_delivered(query, target, message))
        assert isinstance(first, NotConnected)  # Slack shares it a little later: ask again
        assert await adapter.was_delivered(query, target, message) == shown.id


async def test_a_file_that_slack_did_not_take_is_sent_again(slack, tmp_path):
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF-1.4")
    message = OutgoingMessage(media=(Media("document", path.name, path=str(path)),))
    async with talking(slack) as (adapter, _, event):
        target = event.source.target
        query = query_of("again-1")
        slack.fake.api.uploading.refuse = 1
        assert isinstance(await attempt(adapter, target, message, "again-1"), SendLater)
        slack.trouble("cut_before")
        assert isinstance(await attempt(adapter, target, message, "again-1"), SendUnsure)
        assert await adapter.was_delivered(query, target, message) is None
        assert await adapter.send(target, message, "again-1")
        assert [each.media for each in await slack.shown(target.chat_id)] == [("report.pdf",)]


async def test_files_go_into_the_thread_with_words_and_buttons(slack, tmp_path):
    paths = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for path in paths:
        path.write_text(path.name)
    media = tuple(Media("document", path.name, path=str(path)) for path in paths)
    async with talking(slack, group=True) as (adapter, _, event):
        message = OutgoingMessage("keep them?", media=media, buttons=(Button("Yes", "keep"),))
        await adapter.send(event.source.target, message, "two-1")
        (shown,) = await slack.shown(event.source.chat_id)
        assert (shown.media, shown.buttons) == (("one.txt", "two.txt"), ("keep",))
        assert (shown.thread, shown.text) == (event.source.thread_id, "keep them?")


async def test_buttons_go_away_with_an_edit_that_has_none(slack):
    async with talking(slack) as (adapter, _, event):
        target = event.source.target
        asked = OutgoingMessage("x" * 3500, buttons=(Button("Yes", "yes"),))
        sent = await adapter.send(target, asked, "buttons-1")
        await adapter.edit(target, sent, OutgoingMessage("answered"))
        (shown,) = await slack.shown(target.chat_id)
        assert (shown.text, shown.buttons) == ("answered", ())


async def test_an_edit_that_is_too_long_is_refused(slack):
    async with talking(slack) as (adapter, _, event):
        target = event.source.target
        sent = await adapter.send(target, OutgoingMessage("short"), "long-1")
        assert isinstance(
            await failure(adapter.edit(target, sent, OutgoingMessage("x" * 5000))), SendRefused
        )


async def test_plain_text_shows_signs_of_markup_as_they_are(slack):
    async with talking(slack) as (adapter, _, event):
        slack.trouble("format_refused")
        message = OutgoingMessage("*a* &lt; b", plain="a < b & <!everyone>")
        await adapter.send(event.source.target, message, "plain-1")
        (message_there,) = slack.fake.ours(slack.channel("", "dm"))
        assert message_there["text"] == "a &lt; b &amp; &lt;!everyone&gt;"


async def test_reaction_unknown_to_slack_is_ignored(slack):
    async with talking(slack) as (adapter, _, event):
        await adapter.react(event.source.target, event.message_id, "🦩")
        await adapter.react(event.source.target, "D1:command:1.2.x", "👀")


async def test_send_to_an_unknown_chat_is_refused(slack):
    async with connected(slack) as (adapter, _):
        for chat in ("", "C0NOSUCH", "U0NOSUCH"):
            outcome = await attempt(
                adapter, ChatTarget("slack", chat), OutgoingMessage("x"), f"no-{chat}"
            )
            assert isinstance(outcome, SendRefused)
