"""Texts that one person sends in quick succession."""

import asyncio

import msgspec
import pytest

from hermes.sdk.platforms import MessageEvent
from hermes.sdk.testing.platforms.harness import File, Inbox, connected
from hermes_plugins.platforms.discord.manifest import DiscordSettings
from tests.integration.platforms.discord.harness import DiscordHarness

DELAY, SPLIT = "HERMES_DISCORD_TEXT_BATCH_DELAY_SECONDS", "HERMES_DISCORD_TEXT_BATCH_SPLIT_DELAY"
SOON = {DELAY: "0.05"}
NEVER = {DELAY: "10"}  #: Longer than any of these tests takes.


async def test_batch_is_one_message_with_the_id_of_the_first(discord_with):
    async with discord_with(**NEVER) as harness, connected(harness) as (_, inbox):
        first = await harness.says("one")
        await harness.says("two")
        await harness.says("three")
        await harness.says("/status")
        event = await inbox.take("one\ntwo\nthree")
        assert event.message_id == first
        await inbox.take("/status")
        assert inbox.texts() == ["one\ntwo\nthree", "/status"]


async def test_a_single_one_comes_when_its_time_is_over(discord_with):
    async with discord_with(**SOON) as harness, connected(harness) as (_, inbox):
        first = await harness.says("one")
        assert (await inbox.take("one")).message_id == first


async def test_the_rest_of_a_long_text_needs_no_mention(discord_with):
    """All parts but the last are full; the last part ends the wait."""
    variables = {**NEVER, SPLIT: "0.05"}
    async with (
        discord_with(DiscordSettings(), **variables) as harness,
        connected(harness) as (_, inbox),
    ):
        parts = ["a" * 1950, "b" * 2000, "the end"]
        first = await harness.says(parts[0], chat_type="group", mention=True)
        for part in parts[1:]:
            await harness.says(part, chat_type="group")
        event = await inbox.take("\n".join(parts))
        assert (event.message_id, event.source.thread_id) == (first, first)


async def ends_with_somebody_else(harness: DiscordHarness) -> str:
    await harness.says("mine", chat_type="group", user="bob")
    await harness.says("/status", chat_type="group", user="bob")
    return "mine"


async def ends_with_a_command(harness: DiscordHarness) -> str:
    await harness.says("/stop", chat_type="group", user="ann")
    return "/stop"


async def ends_with_a_file(harness: DiscordHarness) -> str:
    picture = File("image", "a.png", b"png", "image/png")
    await harness.says("look", chat_type="group", user="ann", files=(picture,))
    return "look"


async def ends_with_a_reply(harness: DiscordHarness) -> str:
    lobby = int(harness.chat_id("", "group"))
    before = harness.fake.world.messages[lobby][0]["id"]
    await harness.says("as I said", chat_type="group", user="ann", reply_to=before)
    await harness.says("/status", chat_type="group", user="ann")
    return "as I said"


async def ends_with_a_used_command(harness: DiscordHarness) -> str:
    lobby = int(harness.chat_id("", "group"))
    await harness.fake.uses(lobby, harness.user("ann"), {"name": "stop"})
    return "/stop"


@pytest.mark.parametrize(
    "ending",
    [
        ends_with_somebody_else, ends_with_a_command, ends_with_a_file, ends_with_a_reply,
        ends_with_a_used_command,
    ],
)  # fmt: skip
async def test_something_else_ends_the_waiting_and_comes_after(discord_with, ending):
    async with discord_with(**NEVER) as harness, connected(harness) as (_, inbox):
        await harness.says("one", chat_type="group", user="ann")
        await harness.says("two", chat_type="group", user="ann")
        after = await ending(harness)  # type: ignore[operator]
        await inbox.take(after)
        assert inbox.texts()[:2] == ["one\ntwo", after]


async def test_batch_does_not_delay_another_channel(discord_with):
    async with discord_with(**NEVER) as harness, connected(harness) as (_, inbox):
        await harness.says("here", chat_type="group")
        await harness.says("/status")
        await inbox.take("/status")
        assert inbox.texts() == ["/status"]


async def test_unfinished_batch_is_delivered_in_parts_after_a_kill(discord_with):
    async with discord_with(**NEVER) as harness:
        async with connected(harness) as (_, inbox):
            names = [await harness.says(text) for text in ("one", "two")]
            await harness.says("/status", chat_type="group")  # all before it has arrived
            await inbox.take("/status")
        assert inbox.texts() == ["/status"]
        async with connected(harness) as (_, inbox):
            await inbox.until(lambda box: len(box.kept) == 2, "both")
            assert [(each.message_id, each.text) for each in inbox.kept] == [
                (names[0], "one"),
                (names[1], "two"),
            ]


async def test_joined_batch_stays_joined_after_a_kill_before_the_acknowledgement(discord_with):
    """The gateway has them under the name of the first; whatever is told apart now, or joined with
    more, would be lost or answered twice."""
    kept: list[MessageEvent] = []
    arrived = asyncio.Event()

    async def keep_and_be_killed(event: MessageEvent) -> bool:
        kept.append(event)
        arrived.set()
        await asyncio.Event().wait()
        return True

    async with discord_with(**NEVER) as harness:
        adapter = harness.adapter()
        await adapter.connect(keep_and_be_killed)
        await harness.says("one")
        await harness.says("two")
        await harness.says("/status")
        await arrived.wait()
        await harness.says("three")
        note = harness.folder / "state" / "seen.json"
        as_it_was = note.read_bytes()
        await adapter.disconnect()
        note.write_bytes(as_it_was)  # a killed process writes nothing at its end
        async with connected(harness) as (_, inbox):
            await inbox.take("three")
            assert [(each.message_id, each.text) for each in inbox.kept] == [
                (kept[0].message_id, "one\ntwo"),
                (inbox.kept[1].message_id, "/status"),
                (inbox.kept[2].message_id, "three"),
            ]


async def test_a_single_text_kept_before_a_kill_is_not_joined_with_what_came_since(discord_with):
    async with discord_with() as harness:
        async with connected(harness) as (_, inbox):
            first = await harness.says("one")
            await inbox.take("one")
        harness.variables |= NEVER
        note = harness.folder / "state" / "seen.json"
        state = msgspec.json.decode(note.read_bytes())
        note.write_bytes(msgspec.json.encode({**state, "recent": []}))
        second = await harness.says("two")
        async with connected(harness) as (adapter, inbox):
            caught_up = adapter.connection.inbound._catch_up._task.done
            await harness.fake.until(caught_up)
            await harness.says("three")
            await harness.says("/status")
            await inbox.take("/status")
            assert inbox.texts() == ["one", "two", "three", "/status"]
            assert [each.message_id for each in inbox.kept[:2]] == [first, second]


async def test_texts_that_cannot_be_noted_as_one_are_given_singly(discord_with):
    inbox = Inbox()
    async with discord_with(**NEVER) as harness, connected(harness, inbox):
        await harness.says("one")
        await harness.says("two")
        note = harness.folder / "state" / "seen.json"
        await harness.fake.until(note.exists)
        note.unlink()
        note.mkdir()
        (note / "in the way").touch()
        await harness.says("/status")
        await inbox.take("/status")
        assert inbox.texts() == ["one", "two", "/status"]
        (note / "in the way").unlink()
        note.rmdir()
