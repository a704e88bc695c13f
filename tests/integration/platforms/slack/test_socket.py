"""Socket Mode: nothing is acknowledged before it is kept, and nothing is missed."""

import asyncio

import pytest

from hermes.sdk.platforms import CredentialsRefused, MessageEvent, NotConnected, OutgoingMessage
from hermes.sdk.testing.platforms.harness import (
    HastyClock,
    Inbox,
    connected,
    failure,
    talking,
)
from hermes_plugins.platforms.slack.manifest import SlackSettings
from tests.fakes.slack.world import Json
from tests.integration.platforms.slack.harness import SlackHarness


def envelope_of(slack: SlackHarness, text: str) -> Json:
    return next(
        frame
        for frame in slack.fake.sockets.delivered
        if frame["payload"].get("event", {}).get("text") == text
    )


async def test_a_message_is_acknowledged_once_it_is_kept_and_not_before(slack):
    arrived, may_end = asyncio.Event(), asyncio.Event()

    async def receive(event: MessageEvent) -> bool:
        arrived.set()
        await may_end.wait()
        return True

    adapter = slack.adapter()
    await adapter.connect(receive)
    try:
        await slack.says("precious")
        await arrived.wait()
        envelope = envelope_of(slack, "precious")["envelope_id"]
        assert envelope not in slack.fake.sockets.acknowledged
        may_end.set()
        await slack.fake.until(lambda: envelope in slack.fake.sockets.acknowledged)
    finally:
        await adapter.disconnect()


async def test_message_redelivered_during_acceptance_is_accepted_once(slack):
    """Slack waits a moment for our acknowledgement and then sends the message again."""
    offered: list[str] = []

    async def receive(event: MessageEvent) -> bool:
        offered.append(event.text)
        await slack.fake.until(lambda: len(slack.fake.sockets.delivered) >= 2)
        return True

    slack.fake.sockets.patience = 0.05
    adapter = slack.adapter()
    await adapter.connect(receive)
    try:
        await slack.says("slowly")
        frames = slack.fake.sockets.delivered
        await slack.fake.until(lambda: len(frames) >= 2)
        assert frames[1]["retry_attempt"] == 1
        sent = slack.fake.sockets.acknowledged
        await slack.fake.until(lambda: frames[1]["envelope_id"] in sent)
        assert offered == ["slowly"]
    finally:
        await adapter.disconnect()


async def test_a_mention_comes_as_two_events_and_is_one_message(slack):
    async with connected(slack) as (_, inbox):
        await slack.says("hello", chat_type="group", mention=True)
        await slack.says("after it", chat_type="group")
        await inbox.take("after it")
        assert inbox.texts() == ["hello", "after it"]
        frames = slack.fake.sockets.delivered
        await slack.fake.until(lambda: len(slack.fake.sockets.acknowledged) == len(frames) == 3)


async def test_mention_in_a_channel_without_membership_is_delivered(slack):
    slack.settings = SlackSettings()
    channel = slack.channel("elsewhere")
    slack.fake.world.channels[channel]["is_member"] = False
    async with connected(slack) as (_, inbox):
        await slack.says("come here", chat="elsewhere", chat_type="group", mention=True)
        assert (await inbox.take("come here")).addressed


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message", "subtype": "message_changed", "hidden": True, "message": {"text": "x"}},
        {"type": "message", "subtype": "message_deleted", "hidden": True, "deleted_ts": "1.000000"},
        {"type": "message", "subtype": "channel_join", "user": "U1", "text": "<@U1> joined"},
        {"type": "message", "subtype": "channel_topic", "user": "U1", "text": "a topic"},
        {"type": "app_home_opened", "user": "U1"},
        {"type": "message", "user": 5, "text": "of a wrong shape"},
        {"type": "message", "channel": "C1"},
    ],
    ids=["edit", "deletion", "join", "topic", "other event", "wrong shape", "no message"],
)
async def test_events_that_are_not_user_messages_are_acknowledged_and_ignored(slack, event):
    channel = slack.channel()
    async with connected(slack) as (_, inbox):
        told = {"channel": channel, "channel_type": "channel", "ts": "1700000000.000100"}
        envelope = await slack.fake.event({**told, **event} if len(event) > 2 else event)
        await slack.fake.until(lambda: envelope in slack.fake.sockets.acknowledged)
        await slack.says("somebody speaks")
        await inbox.take("somebody speaks")
        assert inbox.texts() == ["somebody speaks"]


@pytest.mark.parametrize("reason", ["refresh_requested", "warning"])
async def test_a_new_connection_is_made_when_slack_asks_for_it(slack, reason):
    async with talking(slack) as (adapter, inbox, _):
        await slack.fake.sockets.disconnect(reason)
        await slack.says("in between")
        await slack.fake.until(lambda: slack.fake.sockets.opened == 2)
        await adapter.probe()
        await slack.says("after it")
        await inbox.take("after it")
        assert inbox.once() == ["hello", "in between", "after it"]


async def test_thread_messages_missed_while_offline_are_delivered(slack):
    slack.settings = SlackSettings()
    async with talking(slack, group=True) as (adapter, _, event):
        await adapter.send(event.source.target, OutgoingMessage("here I am"), "thread-1")
    thread = event.source.thread_id
    await slack.says("go on", chat_type="group", thread=thread)
    await slack.says("among ourselves", chat_type="group")
    await slack.says("another", chat_type="group", mention=True)
    async with connected(slack) as (_, inbox):
        await inbox.take("another")
        assert inbox.once() == ["go on", "another"]
        assert (await inbox.take("go on")).source.thread_id == thread


async def test_missed_messages_are_fetched_over_pages_and_within_rate_limits(slack):
    async with talking(slack):
        pass
    slack.fake.api.page = 2
    for number in range(5):
        await slack.says(f"missed {number}")
    slack.fake.api.refusals = {"conversations.history": ["ratelimited"]}
    async with connected(slack) as (_, inbox):
        await slack.says("now")
        await inbox.take("now")
        assert inbox.once() == [*(f"missed {number}" for number in range(5)), "now"]


async def test_a_channel_that_cannot_be_read_does_not_hide_the_others(slack):
    slack.channel("closed")
    async with talking(slack):
        pass
    await slack.says("missed")
    slack.fake.api.refusals = {"conversations.history": ["missing_scope"]}
    async with connected(slack) as (_, inbox):
        await inbox.take("missed")


async def test_invalid_app_token_is_refused_with_its_variable(slack):
    slack.variables["SLACK_APP_TOKEN"] = "xapp-1-wrong"
    error = await failure(slack.adapter().connect(Inbox().receive))
    assert isinstance(error, CredentialsRefused)
    assert "SLACK_APP_TOKEN" in (error.hint or "")


async def test_unanswered_socket_mode_is_not_reported_as_wrong_credentials(slack):
    slack.fake.api.refusals = {"apps.connections.open": ["internal_error"]}
    assert isinstance(await failure(slack.adapter().connect(Inbox().receive)), NotConnected)


async def test_events_dropped_by_the_rate_limit_are_fetched(slack):
    """Of more than 30,000 events in an hour Slack leaves out a minute, and says so."""
    slack.clock = HastyClock()
    async with talking(slack) as (_, inbox, _):
        slack.fake.world.message(slack.channel("", "dm"), slack.user_id(), "left out")
        limited = {"type": "app_rate_limited", "minute_rate_limited": 1, "team_id": "T1"}
        envelope = await slack.fake.sockets.dispatch("events_api", limited)
        await slack.fake.until(lambda: envelope in slack.fake.sockets.acknowledged)
        await inbox.take("left out")


async def test_a_slow_look_at_a_thread_does_not_hold_up_the_acknowledgement(slack, monkeypatch):
    monkeypatch.setattr("hermes_plugins.platforms.slack.inbound.LOOKUP_SECONDS", 0.05)
    async with connected(slack) as (_, inbox):
        slack.fake.api.stuck["conversations.replies"] = asyncio.Event()
        try:
            await slack.says("and you?", chat_type="group", thread="garden", mention=True)
            event = await inbox.take("and you?")
            assert event.reply_to_text == ""
        finally:
            slack.fake.api.stuck["conversations.replies"].set()
