"""Channels, threads, workspaces, commands: what people on Slack expect."""

import asyncio

import msgspec
import pytest

from hermes.gateway.directory import ChatDirectory, refresh_names
from hermes.gateway.supervisor import ConnectionRegistry
from hermes.sdk.platforms import Button, ChatTarget, OutgoingMessage, SendRefused
from hermes.sdk.testing.platforms.harness import Inbox, attempt, connected, talking
from hermes.util.concurrency import SystemClock
from hermes_plugins.platforms.slack.manifest import SlackSettings


async def test_a_mention_in_a_channel_is_answered_in_its_thread(slack):
    async with talking(slack, group=True) as (adapter, _, event):
        assert event.message_id.endswith(event.source.thread_id)
        await adapter.send(event.source.target, OutgoingMessage("here"), "thread-1")
        (shown,) = await slack.shown(event.source.chat_id)
        assert shown.thread == event.source.thread_id


@pytest.mark.parametrize("off", ["reply_in_thread", "reply_to_mode"])
async def test_answers_go_to_the_channel_where_that_is_wanted(slack, off):
    if off == "reply_in_thread":
        slack.set_extra(reply_in_thread=False)
    else:
        slack.connection = msgspec.structs.replace(slack.connection, reply_to_mode="off")
    async with talking(slack, group=True) as (adapter, _, event):
        assert event.source.thread_id == ""
        await adapter.send(event.source.target, OutgoingMessage("here"), "channel-1")
        (shown,) = await slack.shown(event.source.chat_id)
        assert shown.thread == ""


async def test_the_first_part_of_an_answer_is_shown_in_the_channel_too(slack):
    slack.set_extra(reply_broadcast=True)
    async with talking(slack, group=True) as (adapter, _, event):
        target = event.source.target
        await adapter.send(target, OutgoingMessage("first", reply_to=event.message_id), "part-1")
        await adapter.send(target, OutgoingMessage("second"), "part-2")
        subtypes = [each.get("subtype") for each in slack.fake.ours(slack.channel())]
        assert subtypes == ["thread_broadcast", None]


async def test_message_without_a_mention_is_ignored_and_its_user_not_looked_up(slack):
    slack.settings = SlackSettings(mention_patterns=("hey bot",))
    async with connected(slack) as (_, inbox):
        await slack.says("among ourselves", chat_type="group", user="ann")
        await slack.says("hey bot, come", chat_type="group", user="bob")
        await inbox.take("hey bot, come")
        assert inbox.texts() == ["hey bot, come"]
        assert [given["user"] for name, given in slack.fake.api.calls if name == "users.info"] == [
            slack.user_id("bob")
        ]


async def test_active_thread_needs_no_new_mention_even_after_a_restart(slack):
    slack.settings = SlackSettings()
    async with talking(slack, group=True) as (adapter, inbox, event):
        await adapter.send(event.source.target, OutgoingMessage("I am here"), "talk-1")
        thread = event.source.thread_id
        await slack.says("and now?", chat_type="group", thread=thread)
        assert (await inbox.take("and now?")).addressed
    async with connected(slack) as (_, inbox):
        await slack.says("still there?", chat_type="group", thread=thread)
        await slack.says("elsewhere", chat_type="group", thread="kitchen")
        await slack.says("done")
        await inbox.take("done")
        assert inbox.once() == ["still there?", "done"]


async def test_mention_in_a_thread_carries_the_first_message_of_the_thread(slack):
    async with connected(slack) as (_, inbox):
        await slack.says("what do you think?", chat_type="group", thread="garden", mention=True)
        event = await inbox.take("what do you think?")
        assert event.reply_to_text == "about garden"
        assert event.reply_to_id == f"{event.source.chat_id}:{event.source.thread_id}"


async def test_people_and_channels_are_known_by_name(slack):
    ann, lobby = slack.user("ann"), slack.channel("lobby")
    async with connected(slack) as (_, inbox):
        me = slack.fake.team.me
        text = f"<@{me}> ask <@{ann['id']}> in <#{lobby}> about <https://e.org/a?b=1&amp;c=2|it>"
        await slack.fake.says(slack.channel("", "group"), slack.user("bob"), text)
        event = await inbox.take("ask @Ann in #lobby about [it](https://e.org/a?b=1&c=2)")
        assert (event.source.user_name, event.source.chat_name) == ("Bob", "#lobby")


async def test_message_is_delivered_when_slack_refuses_the_names(slack):
    slack.fake.api.refusals = {
        "users.info": ["missing_scope"],
        "conversations.info": ["missing_scope"],
    }
    async with connected(slack) as (_, inbox):
        await slack.says("hello")
        assert (await inbox.take("hello")).source.user_name == ""


async def test_user_of_another_workspace_has_an_id_with_that_workspace(slack):
    """In a channel that two workspaces share, ids of both may be the same."""
    async with connected(slack) as (_, inbox):
        channel = slack.channel("shared")
        await slack.fake.says(channel, slack.user("ann"), "from afar", user_team="T0AFAR")
        event = await inbox.take("from afar")
        assert event.source.user_id == f"T0AFAR/{slack.user_id('ann')}"


async def test_several_workspaces_are_served_by_one_app(slack):
    other = slack.fake.world.team("other", "xoxb-2-other-workspace")
    slack.variables["SLACK_BOT_TOKEN"] = f"{slack.fake.token}, {other.token}"
    user = slack.fake.world.user("eve", other.id)
    channel = slack.fake.api.private(other.id, user["id"])["id"]
    async with connected(slack) as (adapter, inbox):
        await slack.says("at home")
        await slack.fake.says(channel, user, "elsewhere")
        home, there = await inbox.take("at home"), await inbox.take("elsewhere")
        assert home.source.chat_id == slack.chat_id()
        assert there.source.chat_id == f"{other.id}/{channel}"
        assert there.source.user_id == f"{other.id}/{user['id']}"
        sent = await adapter.send(there.source.target, OutgoingMessage("to you"), "other-1")
        assert [each["text"] for each in slack.fake.ours(channel)] == ["to you"]
        await adapter.edit(there.source.target, sent, OutgoingMessage("to you too"))
        assert [each["text"] for each in slack.fake.ours(channel)] == ["to you too"]
        assert f"{other.id}/{channel}" in {chat.chat_id for chat in await adapter.chats()}
        nowhere = ChatTarget("slack", "T0NOWHERE/C1")
        assert isinstance(
            await attempt(adapter, nowhere, OutgoingMessage("x"), "no-1"), SendRefused
        )


async def test_revoked_token_of_one_workspace_does_not_affect_the_others(slack):
    slack.variables["SLACK_BOT_TOKEN"] = f"{slack.fake.token},xoxb-3-revoked"
    async with talking(slack) as (adapter, _, _):
        await adapter.probe()


async def test_a_person_can_be_written_to_by_their_id(slack):
    async with connected(slack) as (adapter, _):
        target = ChatTarget("slack", slack.user_id("ann"))
        sent = await adapter.send(target, OutgoingMessage("hello"), "person-1")
        channel = slack.fake.api.private(slack.fake.team.id, slack.user_id("ann"))["id"]
        assert sent.startswith(f"{channel}:")
        assert [each["text"] for each in slack.fake.ours(channel)] == ["hello"]


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("/hermes", "/stop", "/stop"), ("/hermes", "what &lt; that?", "what < that?"),
        ("/hermes", "", "/help"), ("/status", "", "/status"), ("/queue", "later", "/queue later"),
    ],
)  # fmt: skip
async def test_a_slash_command_comes_as_if_it_was_written(slack, command, text, said):
    async with connected(slack) as (_, inbox):
        envelope = await slack.fake.uses(slack.channel("", "dm"), slack.user(), text, command)
        event = await inbox.take(said)
        await slack.fake.until(lambda: envelope in slack.fake.sockets.acknowledged)
        assert (event.source.user_id, event.source.chat_id) == (slack.user_id(), slack.chat_id())
        assert event.addressed


async def test_command_in_a_channel_without_membership_is_answered_in_private(slack):
    ann = slack.user("ann")
    between_people = slack.fake.world.channel("T0NOTOURS", is_im=True, user="U0BOB")["id"]
    closed = slack.channel("closed")
    slack.fake.world.channels[closed]["is_member"] = False
    async with connected(slack) as (_, inbox):
        for number, channel in enumerate((between_people, closed)):
            await slack.fake.uses(channel, ann, f"help me {number}")
            event = await inbox.take(f"help me {number}")
            private = slack.fake.api.private(slack.fake.team.id, ann["id"])["id"]
            assert (event.source.chat_id, event.source.chat_type) == (private, "dm")


async def test_a_command_that_is_not_kept_is_not_acknowledged(slack):
    inbox = Inbox()
    inbox.refusals = 1_000_000
    async with connected(slack, inbox):
        envelope = await slack.fake.uses(slack.channel("", "dm"), slack.user(), "/stop")
        await inbox.until(lambda box: len(box.offered) >= 2, "the offers")
        assert envelope not in slack.fake.sockets.acknowledged


async def test_answers_begin_as_the_settings_say(slack):
    slack.settings = msgspec.structs.replace(slack.settings, reply_prefix="*Hermes*: <")
    async with talking(slack) as (adapter, _, event):
        target = event.source.target
        answer = OutgoingMessage("growing", reply_to=event.message_id)
        sent = await adapter.send(target, answer, "prefix-1")
        await adapter.edit(target, sent, msgspec.structs.replace(answer, text="grown"))
        await adapter.send(target, OutgoingMessage("second part"), "prefix-2")
        texts = [message.text for message in await slack.shown(target.chat_id)]
        assert texts == ["*Hermes*: <grown", "second part"]


async def test_status_is_cleared_after_the_answer(slack):
    async with talking(slack) as (adapter, _, event):
        target = event.source.target
        await adapter.typing(target)
        await adapter.send(target, OutgoingMessage("the answer"), "typing-1")
        assert [status for _, _, status in slack.fake.api.statuses] == ["is thinking...", ""]


async def test_a_workspace_without_that_ability_is_not_asked_for_it_again(slack):
    slack.fake.api.refusals = {"assistant.threads.setStatus": ["missing_scope"] * 3}
    async with talking(slack) as (adapter, _, event):
        for _ in range(3):
            await adapter.typing(event.source.target)
        assert slack.fake.api.count("assistant.threads.setStatus") == 1


async def test_in_an_enterprise_people_have_one_id_in_all_its_workspaces(slack):
    """Otherwise users of another workspace could not press the buttons of their questions."""
    slack.fake.team.enterprise = "E0OURS"
    ann, eve = slack.user("ann"), slack.user("eve")
    ann["enterprise_user"] = {"id": ann["id"], "enterprise_id": "E0OURS", "teams": ["T0B"]}
    eve["enterprise_user"] = {"id": eve["id"], "enterprise_id": "E0THEIRS", "teams": ["T0B"]}
    channel = slack.channel("shared")
    async with connected(slack) as (adapter, inbox):
        for user, said in ((ann, "from ann"), (eve, "from eve")):
            await slack.fake.says(channel, user, said, user_team="T0B")
            await slack.fake.says(channel, user, f"again {said}", user_team="T0B")
        ours, theirs = await inbox.take("from ann"), await inbox.take("from eve")
        assert ours.source.user_id == ann["id"]
        assert theirs.source.user_id == f"T0B/{eve['id']}"
        await inbox.take("again from eve")
        asked = [given["user"] for name, given in slack.fake.api.calls if name == "users.info"]
        assert sorted(asked) == sorted([ann["id"], eve["id"]])
        out = OutgoingMessage("May I?", buttons=(Button("Yes", "yes"),))
        sent = await adapter.send(ours.source.target, out, "ask-1")
        ann["team_id"] = "T0B"
        await slack.presses(sent, "yes", user=ann["id"])
        assert (await inbox.press("yes")).source.user_id == ann["id"]


async def test_user_of_another_workspace_without_an_enterprise_stays_foreign(slack):
    ann = slack.user("ann")
    ann["enterprise_user"] = {"id": ann["id"], "enterprise_id": ""}
    async with connected(slack) as (_, inbox):
        await slack.fake.says(slack.channel("shared"), ann, "from afar", user_team="T0AFAR")
        await inbox.take("from afar")
        await slack.fake.says(slack.channel("shared"), ann, "again", user_team="T0AFAR")
        await inbox.take("again")
        assert {each.source.user_id for each in inbox.kept} == {f"T0AFAR/{ann['id']}"}


async def test_a_command_does_not_wait_long_for_what_slack_knows_of_the_channel(slack, monkeypatch):
    """Slack shows the user a failure after three seconds."""
    monkeypatch.setattr("hermes_plugins.platforms.slack.client.LOOKUP_SECONDS", 0.05)
    async with connected(slack) as (_, inbox):
        slack.fake.api.stuck["conversations.info"] = asyncio.Event()
        try:
            channel = slack.channel("busy")
            envelope = await slack.fake.uses(channel, slack.user("ann"), "/status")
            event = await inbox.take("/status")
            await slack.fake.until(lambda: envelope in slack.fake.sockets.acknowledged)
            assert event.source.chat_type == "dm"
        finally:
            slack.fake.api.stuck["conversations.info"].set()


async def test_newly_joined_channel_is_found_by_its_name(slack, tmp_path):
    async with connected(slack) as (adapter, _):
        lines, known = (
            ConnectionRegistry(SystemClock()),
            ChatDirectory(tmp_path / "channel_directory.json"),
        )
        lines.add(adapter)
        channel = slack.channel("ops")
        slack.fake.api.refusals = {"users.conversations": ["internal_error"]}
        await refresh_names(known, lines, "slack:#ops")  # what cannot be asked for is no error
        assert known.chats("slack") == []
        await refresh_names(known, lines, "slack:#ops")
        assert known.find("slack", "#ops").id == channel
