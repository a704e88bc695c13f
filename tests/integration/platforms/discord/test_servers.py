"""Whom we hear in servers, and where we answer."""

import asyncio
from typing import Any

import msgspec
import pytest

from hermes.sdk.platforms import ChatTarget, MessageEvent, OutgoingMessage
from hermes.sdk.testing.platforms.harness import Inbox, connected, failure
from hermes_plugins.platforms.discord.manifest import DiscordSettings
from tests.fakes.discord.world import FORUM, OPEN_THREADS, PERMISSIONS, PIN, Json
from tests.integration.platforms.discord.harness import DiscordHarness

CALM = DiscordSettings(auto_thread=False)


async def heard(harness: DiscordHarness, inbox: Inbox, *messages: Json) -> list[str]:
    """Texts of those messages that came, once a later one has come."""
    await harness.says("the end")
    await inbox.take("the end")
    ids = {message["id"] for message in messages}
    return [event.text for event in inbox.kept if event.message_id in ids]


async def test_only_mentions_and_replies_are_delivered_in_servers(discord_with):
    async with discord_with(CALM) as harness, connected(harness) as (adapter, inbox):
        await harness.says("among us", chat_type="group")
        await harness.says("you there", chat_type="group", mention=True)
        event = await inbox.take("you there")
        ours = await adapter.send(event.source.target, OutgoingMessage("yes?"), "a-1")
        await harness.says("I answer", chat_type="group", reply_to=ours)
        await inbox.take("I answer")
        assert inbox.texts() == ["you there", "I answer"]
        assert all(event.addressed for event in inbox.kept)


async def test_the_role_of_the_bot_is_a_mention_too(discord_with):
    async with discord_with(CALM) as harness, connected(harness) as (_, inbox):
        role = harness.fake.world.servers[harness.server]["roles"][1]["id"]
        lobby = int(harness.chat_id("", "group"))
        ann, text = harness.user("ann"), f"<@&{role}> hello"
        await harness.fake.says(lobby, ann, text, mention_roles=[role])
        assert (await inbox.take("hello")).addressed


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("free_response_channels", ["free talk", "asked"]),
        ("ignored_channels", []),
        ("allowed_channels", ["asked"]),
    ],
)
async def test_channels_have_rules_of_their_own(discord_with, setting, expected):
    async with discord_with(CALM) as harness:
        lobby = harness.chat_id("", "group")
        other = harness.fake.text_channel(harness.server, "other")
        settings: dict[str, Any] = {setting: (lobby,)}
        harness.settings = msgspec.structs.replace(CALM, **settings)
        async with connected(harness) as (_, inbox):
            await harness.says("free talk", chat_type="group")
            await harness.says("asked", chat_type="group", mention=True)
            await harness.says("elsewhere", chat=str(other), chat_type="group", mention=True)
            await harness.says("the end")
            await inbox.take("the end")
            there = [event.text for event in inbox.kept if event.source.chat_id == lobby]
            assert there == expected
            assert ("elsewhere" in inbox.texts()) == (setting != "allowed_channels")


@pytest.mark.parametrize(
    ("value", "expected"), [("none", []), ("mentions", ["asked"]), ("all", ["beep", "asked"])]
)
async def test_messages_of_bots_are_delivered_as_configured(discord_with, value, expected):
    settings = DiscordSettings(require_mention=False, auto_thread=False)
    async with (
        discord_with(settings, DISCORD_ALLOW_BOTS=value) as harness,
        connected(harness) as (_, inbox),
    ):
        await harness.says("beep", chat_type="group", user="robot", bot=True)
        await harness.says("asked", chat_type="group", user="robot", bot=True, mention=True)
        await harness.says("the end")
        await inbox.take("the end")
        assert [event.text for event in inbox.kept if event.source.is_bot] == expected


@pytest.mark.parametrize(("value", "comes"), [("true", False), ("false", True)])
async def test_message_that_mentions_only_others_is_ignored_as_configured(
    discord_with, value, comes
):
    settings = DiscordSettings(require_mention=False, auto_thread=False)
    async with (
        discord_with(settings, DISCORD_IGNORE_NO_MENTION=value) as harness,
        connected(harness) as (_, inbox),
    ):
        bob = harness.user("bob")
        lobby, ann = int(harness.chat_id("", "group")), harness.user("ann")
        said = await harness.fake.says(lobby, ann, f"<@{bob['id']}> look", mentions=(bob,))
        assert await heard(harness, inbox, said) == (["@Bob look"] if comes else [])


async def test_pins_joins_and_webhooks_are_ignored(discord_with):
    """Pins, joins and webhooks."""
    async with discord_with() as harness, connected(harness) as (_, inbox):
        fake, ann = harness.fake, harness.user("ann")
        lobby = int(harness.chat_id("", "group"))
        pin = await fake.says(lobby, ann, "pinned", type=PIN)
        hook = await fake.says(lobby, ann, "hooked", webhook_id="77")
        said = await fake.says(lobby, ann, "said")
        assert await heard(harness, inbox, pin, hook, said) == ["said"]


async def test_stickers_cards_of_programs_and_forwarded_messages_come_as_text(discord_with):
    async with discord_with() as harness, connected(harness) as (_, inbox):
        fake, ann = harness.fake, harness.user("ann")
        robot = harness.user("robot", bot=True)
        lobby = int(harness.chat_id("", "group"))
        sticker = {"id": "5", "name": "wave", "format_type": 1}
        field = {"name": "Branch", "value": "main", "inline": True}
        card = {"type": "rich", "title": "Build failed", "description": "red", "fields": [field]}
        preview = {"type": "link", "title": "A page", "url": "https://example.org"}
        shot = {"message": {**fake.world.message(lobby, robot, "the original"), "type": 0}}
        first = await fake.says(lobby, ann, "", sticker_items=[sticker])
        second = await fake.says(lobby, robot, "news", embeds=[card])
        third = await fake.says(lobby, ann, "https://example.org", embeds=[preview])
        fourth = await fake.says(lobby, ann, "", message_snapshots=[shot])
        answers = [{"answer_id": n, "poll_media": {"text": t}} for n, t in ((1, "tea"), (2, "no"))]
        poll = {"question": {"text": "Tea?"}, "answers": answers, "allow_multiselect": False}
        poll |= {"layout_type": 1, "expiry": "2030-01-01T00:00:00+00:00"}
        fifth = await fake.says(lobby, ann, "", poll=poll)
        assert await heard(harness, inbox, first, second, third, fourth, fifth) == [
            "[sticker: wave]", "news\nBuild failed\nred\nBranch: main", "https://example.org",
            "[forwarded] the original", "[poll: Tea? – tea / no]",
        ]  # fmt: skip


async def test_names_stand_for_mentions(discord_with):
    async with discord_with() as harness, connected(harness) as (_, inbox):
        bob, lobby = harness.user("bob"), harness.chat_id("", "group")
        text = f"ask <@{bob['id']}> in <#{lobby}> <:smile:123>"
        await harness.fake.says(
            int(lobby),
            harness.user("ann"),
            f"{text} <@{harness.fake.world.me['id']}>",
            mentions=(bob, harness.fake.world.me),
        )
        await inbox.take("ask @Bob in #lobby :smile:")


async def test_the_roles_of_the_writer_come_with_the_message(discord_with):
    """Also with a missed message, when users are allowed by role."""
    async with discord_with(DISCORD_ALLOWED_ROLES="1,2") as harness:
        fake, ann = harness.fake, harness.user("ann")
        role = fake.world.role(harness.server, "staff")
        lobby = int(harness.chat_id("", "group"))
        async with connected(harness) as (_, inbox):
            await fake.says(lobby, ann, "live", roles=(role,))
            assert (await inbox.take("live")).source.roles == (role,)
            await harness.says("private")
            assert (await inbox.take("private")).source.roles == ()
        await fake.says(lobby, ann, "missed", roles=(role,))
        async with connected(harness) as (_, inbox):
            assert (await inbox.take("missed")).source.roles == (role,)


# threads


async def mentioned(harness: DiscordHarness, inbox: Inbox, **more: Any) -> MessageEvent:
    await harness.says("please help", chat_type="group", mention=True, **more)
    return await inbox.take("please help")


async def test_mention_opens_a_thread_for_the_conversation(discord_with):
    async with discord_with(DiscordSettings()) as harness, connected(harness) as (adapter, inbox):
        event = await mentioned(harness, inbox)
        thread = event.source.thread_id
        assert int(thread) not in harness.fake.world.channels  # not answered yet
        await adapter.send(event.source.target, OutgoingMessage("of course"), "t-1")
        assert harness.fake.world.channels[int(thread)]["name"] == "please help"
        (shown,) = await harness.shown(event.source.chat_id)
        assert (shown.text, shown.thread) == ("of course", thread)
        await harness.says("thank you", chat_type="group", thread=thread)
        answer = await inbox.take("thank you")
        assert answer.addressed
        assert answer.source.target == event.source.target


async def test_typing_and_answer_use_one_new_thread(discord_with):
    async with discord_with(DiscordSettings()) as harness, connected(harness) as (adapter, inbox):
        event = await mentioned(harness, inbox)
        await adapter.typing(event.source.target)
        await adapter.send(event.source.target, OutgoingMessage("here"), "t-1")
        assert harness.fake.rest.typings == [int(event.source.thread_id)]
        opened = [call for call in harness.fake.rest.calls if call.endswith("/threads")]
        assert len(opened) == 1


async def test_two_messages_at_once_open_one_thread(discord_with):
    async with discord_with(DiscordSettings()) as harness, connected(harness) as (adapter, inbox):
        event = await mentioned(harness, inbox)
        sends = (
            adapter.send(event.source.target, OutgoingMessage(f"part {n}"), f"t-{n}")
            for n in (1, 2)
        )
        await asyncio.gather(*sends)
        opened = [call for call in harness.fake.rest.calls if call.endswith("/threads")]
        assert len(opened) == 2  # the second request is refused: the thread exists
        assert len(await harness.shown(event.source.chat_id)) == 2


async def test_reactions_and_quotes_know_that_the_first_message_is_outside(discord_with):
    async with discord_with(DiscordSettings()) as harness, connected(harness) as (adapter, inbox):
        event = await mentioned(harness, inbox)
        target = event.source.target
        await adapter.react(target, event.message_id, "👀")
        assert await harness.reactions(event.message_id) == ["👀"]
        await adapter.send(target, OutgoingMessage("so", reply_to=event.message_id), "t-1")
        (shown,) = await harness.shown(event.source.chat_id)
        assert (shown.text, shown.reply_to) == ("so", "")


async def test_no_thread_where_none_is_wanted_or_allowed(discord_with):
    async with discord_with(DiscordSettings()) as harness:
        lobby = harness.chat_id("", "group")
        harness.settings = DiscordSettings(no_thread_channels=(lobby,))
        strict = harness.fake.world.server("strict", PERMISSIONS & ~OPEN_THREADS)
        hall = harness.fake.text_channel(strict, "hall")
        async with connected(harness) as (_, inbox):
            await harness.says("in the lobby", chat_type="group", mention=True)
            await harness.says("in the hall", chat=str(hall), chat_type="group", mention=True)
            assert (await inbox.take("in the lobby")).source.thread_id == ""
            assert (await inbox.take("in the hall")).source.thread_id == ""


async def test_active_thread_needs_no_mention_after_a_restart(discord_with):
    async with discord_with(CALM) as harness:
        async with connected(harness) as (adapter, inbox):
            await harness.says("not yet", chat_type="group", thread="garden")
            await harness.says("now", chat_type="group", thread="garden", mention=True)
            event = await inbox.take("now")
            await adapter.send(event.source.target, OutgoingMessage("yes"), "g-1")
        async with connected(harness) as (_, inbox):
            await harness.says("go on", chat_type="group", thread="garden")
            assert (await inbox.take("go on")).addressed
            assert inbox.texts() == ["go on"]


async def test_posts_of_a_forum_are_threads_and_new_ones_can_be_made(discord_with):
    async with discord_with() as harness:
        fake, ann = harness.fake, harness.user("ann")
        forum = fake.world.channel(FORUM, "questions", harness.server)
        post = await fake.opens_thread(forum, "How?", ann)
        async with connected(harness) as (adapter, inbox):
            await fake.says(post, ann, "how does it work?")
            event = await inbox.take("how does it work?")
            assert (event.source.chat_id, event.source.thread_id) == (str(forum), str(post))
            await adapter.send(event.source.target, OutgoingMessage("well"), "f-1")
            assert [message["content"] for message in fake.ours(post)] == ["well"]
            made = await adapter.send(
                ChatTarget("discord", str(forum)), OutgoingMessage("News\nof today"), "f-2"
            )
            assert fake.world.channels[int(made)]["name"] == "News of today"
            await adapter.edit(
                ChatTarget("discord", str(forum)), made, OutgoingMessage("News of tonight")
            )
            assert [message["content"] for message in fake.ours(int(made))] == ["News of tonight"]


async def test_a_thread_of_a_message_that_is_gone_is_refused(discord_with):
    async with discord_with(DiscordSettings()) as harness, connected(harness) as (adapter, inbox):
        event = await mentioned(harness, inbox)
        harness.fake.world.messages[int(event.source.chat_id)].clear()
        error = await failure(adapter.send(event.source.target, OutgoingMessage("late"), "t-1"))
        assert "10008" in str(error)
