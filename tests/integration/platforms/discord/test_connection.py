"""Discord's gateway: what breaks, what is resumed, and what was written meanwhile."""

import pytest

from hermes.gateway.directory import ChatDirectory, refresh_names
from hermes.gateway.supervisor import ConnectionRegistry
from hermes.sdk.platforms import CredentialsRefused, NotConnected, OutgoingMessage, SendLater
from hermes.sdk.testing.platforms.harness import Inbox, connected, failure, talking
from hermes.util.concurrency import SystemClock
from tests.fakes.discord.sockets import MESSAGE_CONTENT
from tests.fakes.discord.world import NEWS


async def test_connection_requests_message_content_and_sends_heartbeats(discord_with):
    async with discord_with() as harness, connected(harness):
        assert harness.fake.gateway.intents & MESSAGE_CONTENT
        await harness.fake.until(lambda: harness.fake.gateway.heartbeats)


async def test_missing_intent_is_refused_with_the_setting_to_enable(discord_with):
    async with discord_with() as harness:
        harness.fake.gateway.intents_allowed = False
        error = await failure(harness.adapter().connect(Inbox().receive))
        assert isinstance(error, CredentialsRefused)
        assert "Message Content Intent" in error.hint


async def test_missing_token_is_refused_with_the_name_of_the_variable(discord_with):
    async with discord_with(DISCORD_BOT_TOKEN="") as harness:
        error = await failure(harness.adapter().connect(Inbox().receive))
        assert isinstance(error, CredentialsRefused)
        assert "DISCORD_BOT_TOKEN" in error.hint


@pytest.mark.parametrize("how", ["cut", "asked", "invalid but resumable"])
async def test_a_broken_connection_is_resumed_without_loss_or_doubles(discord_with, how):
    async with discord_with() as harness, talking(harness) as (_, inbox, _):
        fake = harness.fake
        if how == "cut":
            fake.gateway.wires.cut()
        elif how == "asked":
            await fake.reconnect()
        else:
            await fake.invalidate(resumable=True)
        for number in range(3):
            await harness.says(f"meanwhile {number}")
        await inbox.take("meanwhile 2")
        assert (fake.gateway.identified, fake.gateway.resumed) == (1, 1)
        assert inbox.texts() == ["hello", "meanwhile 0", "meanwhile 1", "meanwhile 2"]


async def test_after_a_lost_session_what_was_missed_is_asked_for_and_comes_once(discord_with):
    async with discord_with() as harness, talking(harness) as (_, inbox, _):
        fake = harness.fake
        await fake.invalidate()
        for number in range(3):
            await harness.says(f"private {number}")
            await harness.says(f"public {number}", chat_type="group")
        await inbox.take("private 2")
        await inbox.take("public 2")
        await harness.says("afterwards")
        await inbox.take("afterwards")
        assert (fake.gateway.identified, fake.gateway.resumed) == (2, 0)
        assert sorted(inbox.texts()) == sorted(inbox.once())
        private = [text for text in inbox.texts() if text.startswith("private")]
        assert private == [f"private {number}" for number in range(3)]


async def test_missed_messages_are_delivered_from_every_server_and_thread(discord_with):
    """Also from channels that had no messages before."""
    async with discord_with() as harness:
        fake, ann = harness.fake, harness.user("ann")
        second = fake.world.server("work")
        silent, news = fake.text_channel(second, "silent"), fake.world.channel(NEWS, "news", second)
        thread = await fake.opens_thread(silent, "old thread", ann)
        async with talking(harness):
            pass
        for place, text in ((silent, "one"), (thread, "two"), (news, "three")):
            await fake.says(place, ann, text)
        async with connected(harness) as (_, inbox):
            await inbox.take("three")
            assert inbox.texts() == ["one", "two", "three"]
            sources = [event.source for event in inbox.kept]
            assert [source.chat_id for source in sources] == [str(silent)] * 2 + [str(news)]
            assert [source.thread_id for source in sources] == ["", str(thread), ""]


async def test_accepted_messages_are_not_delivered_again_after_a_restart(discord_with):
    async with discord_with() as harness:
        async with talking(harness):
            pass
        await harness.says("new")
        async with connected(harness) as (_, inbox):
            await inbox.take("new")
            assert [event.text for event in inbox.offered] == ["new"]


async def test_a_server_that_was_down_is_read_when_it_is_back(discord_with):
    async with discord_with() as harness, talking(harness) as (_, inbox, _):
        fake, number = harness.fake, str(harness.server)
        await fake.gateway.dispatch("GUILD_DELETE", {"id": number, "unavailable": True})
        channel = int(harness.chat_id("", "group"))
        fake.world.message(channel, harness.user("ann"), "unheard")
        await fake.gateway.dispatch("GUILD_CREATE", fake.world.guild_create(harness.server))
        await inbox.take("unheard")


async def test_forbidden_channel_does_not_hide_the_others(discord_with):
    async with discord_with() as harness:
        fake, ann = harness.fake, harness.user("ann")
        secret = fake.text_channel(harness.server, "secret")
        async with talking(harness):
            pass
        fake.rest.forbidden.add(secret)
        await fake.says(secret, ann, "not for us")
        await harness.says("for us")
        async with connected(harness) as (_, inbox):
            await inbox.take("for us")
            assert inbox.texts() == ["for us"]


async def test_damaged_read_position_stops_nothing(discord_with, tmp_path):
    note = tmp_path / "state" / "seen.json"
    note.parent.mkdir()
    note.write_text("{ damaged")
    async with discord_with() as harness, talking(harness):
        pass
    assert b"floor" in note.read_bytes()


async def test_read_position_is_saved_while_running(discord_with, tmp_path, monkeypatch):
    """A crash says no goodbye."""
    monkeypatch.setattr("hermes.sdk.platforms.inbound.WRITE_INTERVAL", 0.01)
    note = tmp_path / "state" / "seen.json"
    async with discord_with() as harness, talking(harness) as (_, _, event):
        chat = event.source.chat_id.encode()
        await harness.fake.until(lambda: note.exists() and chat in note.read_bytes())


async def test_chats_are_known_by_name_and_by_server_where_names_are_equal(discord_with):
    async with discord_with() as harness:
        fake, ann = harness.fake, harness.user("ann")
        second = fake.world.server("work")
        lobby, plans = fake.text_channel(second, "lobby"), fake.text_channel(second, "plans")
        thread = await fake.opens_thread(plans, "budget", ann)
        async with talking(harness) as (adapter, _, event):
            chats = {chat.thread_id or chat.chat_id: chat.name for chat in await adapter.chats()}
            assert chats[event.source.chat_id] == "Somebody"
            assert chats[str(lobby)] == "work/#lobby"
            assert chats[harness.chat_id("", "group")] == "home/#lobby"
            assert chats[str(plans)] == "#plans"
            assert chats[str(thread)] == "#plans / budget"


async def test_a_limit_is_obeyed_before_discord_must_refuse(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        fake, target = harness.fake, event.source.target
        fake.rest.remaining[f"POST /channels/{target.chat_id}/messages"] = 1
        fake.rest.reset_after = 30.0
        await adapter.send(target, OutgoingMessage("one"), "one")
        calls = len(fake.rest.calls)
        error = await failure(adapter.send(target, OutgoingMessage("two"), "two"))
        assert 29 < error.seconds <= 30  # type: ignore[attr-defined]
        assert len(fake.rest.calls) == calls
        await adapter.typing(target)  # another limit


async def test_a_limit_of_the_whole_account_holds_for_everything(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        fake, target = harness.fake, event.source.target
        fake.rest.reset_after = 30.0
        fake.rest.troubles.append("global_limit")
        await failure(adapter.send(target, OutgoingMessage("one"), "one"))
        error = await failure(adapter.typing(target))
        assert error.seconds > 29  # type: ignore[attr-defined]
        await adapter.probe()  # Discord is there all the same


async def test_a_used_command_is_acknowledged_whatever_the_limit_of_the_account(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, inbox, event):
        fake = harness.fake
        fake.rest.reset_after = 30.0
        fake.rest.troubles.append("global_limit")
        await failure(adapter.send(event.source.target, OutgoingMessage("one"), "one"))
        number = await fake.uses(int(event.source.chat_id), harness.user(), {"name": "status"})
        await inbox.take("/status")
        assert number in fake.rest.acknowledged


async def test_a_machine_that_is_shut_out_asks_nothing_more(discord_with):
    """Further requests would extend the ban."""
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        fake, target = harness.fake, event.source.target
        fake.rest.troubles.append("blocked_for_long")
        error = await failure(adapter.send(target, OutgoingMessage("one"), "one"))
        assert isinstance(error, SendLater)
        calls = len(fake.rest.calls)
        assert isinstance(await failure(adapter.typing(target)), SendLater)
        assert len(fake.rest.calls) == calls


async def test_a_page_of_a_server_before_discord_refuses_nothing_for_good(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target = event.source.target
        harness.fake.rest.troubles.append("blocked_page")
        assert isinstance(await failure(adapter.send(target, OutgoingMessage("x"), "x")), SendLater)
        assert await adapter.send(target, OutgoingMessage("x"), "x")


async def test_exhausted_session_limit_prevents_connecting(discord_with):
    """Discord revokes the token of a client that keeps connecting."""
    async with discord_with() as harness:
        harness.fake.rest.sessions_left = 0
        error = await failure(harness.adapter().connect(Inbox().receive))
        assert type(error) is NotConnected
        assert "10 minutes" in str(error)
        assert harness.fake.gateway.identified == 0


async def test_unreadable_event_does_not_stop_delivery(discord_with):
    """Neither when it comes nor when it is asked for as missed."""
    broken = {"poll": {"question": {"text": "?"}, "answers": [], "expiry": None}}
    broken["poll"] |= {"allow_multiselect": False, "layout_type": 1}
    async with discord_with() as harness:
        fake, lobby = harness.fake, int(harness.chat_id("", "group"))
        async with talking(harness) as (_, inbox, _):
            await fake.says(lobby, harness.user("ann"), "odd", **broken)
            await harness.says("still there?", chat_type="group")
            await inbox.take("still there?")
            assert fake.gateway.identified == 1
        await fake.says(lobby, harness.user("ann"), "odd again", **broken)
        await harness.says("and now?", chat_type="group")
        async with connected(harness) as (_, inbox):
            await inbox.take("and now?")
            await harness.says("live")
            await inbox.take("live")


async def test_a_channel_made_since_is_found_by_its_name(discord_with, tmp_path):
    async with discord_with() as harness, connected(harness) as (adapter, _):
        lines, known = (
            ConnectionRegistry(SystemClock()),
            ChatDirectory(tmp_path / "channel_directory.json"),
        )
        lines.add(adapter)
        made = harness.fake.text_channel(harness.server, "ops")
        await harness.fake.gateway.dispatch("CHANNEL_CREATE", harness.fake.world.channels[made])
        await harness.fake.until(lambda: adapter.connection.bot.get_channel(made))
        await refresh_names(known, lines, "telegram:#ops")
        assert known.chats("discord") == []
        await refresh_names(known, lines, " Discord:#ops")
        assert known.find("discord", "#ops").id == str(made)
