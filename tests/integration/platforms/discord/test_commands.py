"""Slash commands of Discord's own menu, and buttons."""

import msgspec
import pytest

from hermes.sdk.platforms import Button, OutgoingMessage
from hermes.sdk.testing.platforms.harness import Inbox, connected, talking
from hermes_plugins.platforms.discord.manifest import DiscordSettings
from tests.fakes.discord.world import Json
from tests.integration.platforms.discord.harness import OPEN

COMMANDS = (("status", "Shows what is going on"), ("model", "Changes the model"))
DEFERRED, UPDATE_LATER, AT_ONCE, ONLY_FOR_YOU = 5, 6, 4, 64
FOREIGN: Json = {"id": "9", "type": 1, "name": "dice", "description": "Rolls", "version": "1"}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("safe", ["status", "model", "dice"]), ("bulk", ["status", "model"]), ("off", ["dice"])],
)
async def test_the_menu_is_kept_as_the_policy_says(discord_with, policy, expected):
    async with discord_with(DISCORD_COMMAND_SYNC_POLICY=policy) as harness:
        harness.commands, rest = COMMANDS, harness.fake.rest
        rest.commands = [FOREIGN]
        async with connected(harness) as (adapter, _):
            await harness.fake.until(lambda: adapter.connection.command_sync.done())
            assert [command["name"] for command in rest.commands] == expected


async def test_a_menu_that_is_right_is_left_alone(discord_with):
    async with discord_with() as harness:
        harness.commands, rest = COMMANDS, harness.fake.rest
        for _ in range(2):
            async with connected(harness) as (adapter, _):
                await harness.fake.until(lambda it=adapter: it.connection.command_sync.done())
        writes = [call for call in rest.calls if call.startswith("PUT")]
        assert len(writes) == 1


async def test_command_is_acknowledged_before_it_is_accepted(discord_with):
    """Discord gives three seconds; the gateway may take longer."""
    inbox = Inbox()
    inbox.refusals = 2
    async with discord_with() as harness, connected(harness, inbox):
        fake, ann = harness.fake, harness.user("ann")
        options = [{"type": 3, "name": "arguments", "value": "gpt-5 now"}]
        lobby = int(harness.chat_id("", "group"))
        number = await fake.uses(lobby, ann, {"name": "model", "options": options})
        await inbox.until(lambda box: bool(box.offered), "the command")
        answer = fake.rest.acknowledged[number]
        assert (answer["type"], answer["data"]["flags"]) == (DEFERRED, ONLY_FOR_YOU)
        assert fake.rest.forgotten == []
        event = await inbox.take("/model gpt-5 now")
        assert (event.message_id, event.addressed) == (number, True)
        assert event.source.user_id == ann["id"]
        assert (event.source.chat_id, event.source.chat_type) == (str(lobby), "group")
        await fake.until(lambda: fake.rest.forgotten == [f"token-of-{number}"])


async def test_a_command_in_private_comes_from_the_private_chat(discord_with):
    async with discord_with() as harness, talking(harness) as (_, inbox, event):
        chat = int(event.source.chat_id)
        await harness.fake.uses(chat, harness.user(), {"name": "status"})
        command = await inbox.take("/status")
        assert command.source == event.source


async def test_a_command_in_a_thread_comes_from_the_thread(discord_with):
    async with discord_with() as harness, connected(harness) as (_, inbox):
        fake, ann = harness.fake, harness.user("ann")
        lobby = int(harness.chat_id("", "group"))
        thread = await fake.opens_thread(lobby, "garden", ann)
        await fake.uses(thread, ann, {"name": "status"})
        source = (await inbox.take("/status")).source
        assert (source.chat_id, source.thread_id) == (str(lobby), str(thread))


async def test_command_in_an_ignored_channel_gets_a_private_refusal(discord_with):
    async with discord_with() as harness:
        lobby = harness.chat_id("", "group")
        harness.settings = msgspec.structs.replace(OPEN, ignored_channels=(lobby,))
        async with connected(harness) as (_, inbox):
            number = await harness.fake.uses(int(lobby), harness.user(), {"name": "status"})
            await harness.fake.until(lambda: harness.fake.rest.acknowledged)
            answer = harness.fake.rest.acknowledged[number]
            assert (answer["type"], answer["data"]["flags"]) == (AT_ONCE, ONLY_FOR_YOU)
            assert inbox.offered == []


async def test_a_button_changes_nothing_by_itself(discord_with):
    async with (
        discord_with(DiscordSettings()) as harness,
        talking(harness) as (adapter, inbox, event),
    ):
        out = OutgoingMessage("May I?", buttons=(Button("Yes", "yes:1"),))
        sent = await adapter.send(event.source.target, out, "b-1")
        await harness.presses(sent, "yes:1")
        press = await inbox.press("yes:1")
        assert harness.fake.rest.acknowledged[press.message_id] == {"type": UPDATE_LATER}
        assert (press.reply_to_id, press.text) == (sent, "")
