"""What people see of our messages, and what we know when things go wrong."""

from pathlib import Path

import msgspec
import pytest

from hermes.config.settings.platforms import Platform
from hermes.sdk.platforms import (
    Button,
    ChatTarget,
    DeliveryUnknown,
    Media,
    OutgoingMessage,
    SendLater,
    SendRefused,
    SendUnsure,
)
from hermes.sdk.testing.platforms.harness import (
    File,
    connected,
    failure,
    query_of,
    talking,
)
from hermes_plugins.platforms.discord.manifest import AllowedMentions
from tests.integration.platforms.discord.harness import OPEN

EVERYBODY = AllowedMentions(everyone=True, roles=True)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (AllowedMentions(), {"parse": ["users"], "replied_user": True}),
        (EVERYBODY, {"parse": ["everyone", "users", "roles"], "replied_user": True}),
        (AllowedMentions(users=False, replied_user=False), {"parse": []}),
    ],
)
async def test_answers_ping_only_whom_they_may(discord_with, allowed, expected):
    settings = msgspec.structs.replace(OPEN, allow_mentions=allowed)
    async with discord_with(settings) as harness, talking(harness) as (adapter, _, event):
        target = event.source.target
        await adapter.send(target, OutgoingMessage("@everyone look"), "p-1")
        (message,) = harness.fake.ours(int(target.chat_id))
        assert message["_allowed"] == expected


async def test_quotes_can_be_switched_off(discord_with):
    async with discord_with() as harness:
        harness.connection = Platform(reply_to_mode="off")
        async with talking(harness) as (adapter, _, event):
            out = OutgoingMessage("so", reply_to=event.message_id)
            await adapter.send(event.source.target, out, "q-1")
            (shown,) = await harness.shown(event.source.chat_id)
            assert shown.reply_to == ""


async def test_an_answer_to_a_message_that_is_gone_is_shown_without_it(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        await adapter.send(event.source.target, OutgoingMessage("so", reply_to="123"), "q-1")
        assert [each.text for each in await harness.shown(event.source.chat_id)] == ["so"]


async def test_silent_messages_ring_nowhere(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        await adapter.send(event.source.target, OutgoingMessage("psst", silent=True), "s-1")
        (message,) = harness.fake.ours(int(event.source.chat_id))
        assert message["_flags"] == 1 << 12


async def test_buttons_go_away_with_an_edit(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target = event.source.target
        buttons = tuple(Button(f"Choice {n} " + "x" * 90, f"pick:{n}") for n in range(7))
        sent = await adapter.send(target, OutgoingMessage("Which?", buttons=buttons), "b-1")
        (shown,) = await harness.shown(target.chat_id)
        assert shown.buttons == tuple(f"pick:{n}" for n in range(7))
        await adapter.edit(target, sent, OutgoingMessage("Done: 3"))
        (shown,) = await harness.shown(target.chat_id)
        assert (shown.text, shown.buttons) == ("Done: 3", ())


async def test_reactions_can_be_switched_off(discord_with):
    settings = msgspec.structs.replace(OPEN, reactions=False)
    async with discord_with(settings) as harness, talking(harness) as (adapter, _, event):
        await adapter.react(event.source.target, event.message_id, "👀")
        assert await harness.reactions(event.message_id) == []


async def test_reaction_to_a_missing_message_is_ignored(discord_with):
    """A slash command has an id, but nothing to react to."""
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        await adapter.react(event.source.target, "123", "👀")


@pytest.mark.parametrize(
    ("trouble", "error"),
    [("forbidden", SendRefused), ("bad_gateway", SendUnsure), ("server_error", SendLater)],
)
async def test_response_status_maps_to_the_send_error(discord_with, trouble, error):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        harness.fake.rest.troubles.append(trouble)
        outcome = await failure(adapter.send(event.source.target, OutgoingMessage("x"), "e-1"))
        assert isinstance(outcome, error)


async def test_too_long_a_text_and_a_chat_that_is_none_are_refused(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target = event.source.target
        long = await failure(adapter.send(target, OutgoingMessage("x" * 2001), "l-1"))
        assert isinstance(long, SendRefused)
        assert "50035" in str(long)
        nowhere = await failure(
            adapter.send(ChatTarget("discord", "#general"), OutgoingMessage("x"), "l-2")
        )
        assert isinstance(nowhere, SendRefused)


async def test_files_that_are_too_large_together_are_refused(discord_with, tmp_path):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        path = tmp_path / "big.bin"
        with path.open("wb") as file:
            file.truncate(6_000_000)
        media = (Media("document", path=str(path)), Media("document", path=str(path)))
        error = await failure(
            adapter.send(event.source.target, OutgoingMessage(media=media), "m-1")
        )
        assert isinstance(error, SendRefused)


async def test_a_file_whose_address_is_too_old_is_fetched_by_a_new_one(discord_with):
    async with discord_with() as harness, connected(harness) as (adapter, inbox):
        await harness.says(
            "old", files=(File("document", "a.pdf", b"%PDF-1.4", "application/pdf"),)
        )
        event = await inbox.take("old")
        harness.fake.rest.expired = frozenset({"old"})
        fetched = await adapter.fetch(event.media[0], 1000)
        assert Path(fetched.path).read_bytes() == b"%PDF-1.4"
        harness.fake.rest.expired = frozenset({"old", "new"})
        assert "any more" in str(await failure(adapter.fetch(event.media[0], 1000)))


# in doubt


async def test_sending_twice_shows_one_message(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target = event.source.target
        ids = {await adapter.send(target, OutgoingMessage("once"), "same-key") for _ in range(2)}
        assert [each.id for each in await harness.shown(target.chat_id)] == list(ids)


async def test_a_message_is_found_long_after_its_nonce_was_forgotten(discord_with, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a")
    media = (Media("document", "a.txt", path=str(path)),)
    async with discord_with() as harness:
        async with talking(harness) as (adapter, _, event):
            target, message = event.source.target, OutgoingMessage("long ago")
            before = adapter.newest(target)  # type: ignore[attr-defined]
            assert before == event.message_id
            ids = [
                await adapter.send(target, out, key)
                for out, key in (
                    (message, "k-1"),
                    (OutgoingMessage("long ago", media=media), "k-2"),
                )
            ]
        harness.fake.rest.nonces.clear()
        async with connected(harness) as (adapter, _):
            query = query_of("k-1", after_id=before)
            assert await adapter.was_delivered(query, target, message) == ids[0]
            with_file = OutgoingMessage("long ago", media=media)
            query = query_of("k-2", after_id=before)
            assert await adapter.was_delivered(query, target, with_file) == ids[1]
            other = OutgoingMessage("never")
            query = query_of("k-3")
            assert await adapter.was_delivered(query, target, other) is None


async def test_too_much_talk_since_then_leaves_it_unknown(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target, ann = event.source.target, harness.user("ann")
        for number in range(500):
            harness.fake.world.message(int(target.chat_id), ann, f"{number}")
        query = query_of("k-1", after_id=event.message_id)
        error = await failure(adapter.was_delivered(query, target, OutgoingMessage("there?")))
        assert isinstance(error, DeliveryUnknown)


async def test_our_own_message_seen_by_the_gateway_settles_the_doubt(discord_with):
    """The answer to the request was lost, but Discord announced the message."""
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target, message = event.source.target, OutgoingMessage("same words")
        await adapter.send(target, message, "k-1")
        harness.fake.rest.troubles.append("cut_after")
        await failure(adapter.send(target, message, "k-2"))
        second = harness.fake.ours(int(target.chat_id))[1]["id"]
        for key, found in (("k-2", second), ("k-3", None)):
            query = query_of(key, after_id=event.message_id)
            assert await adapter.was_delivered(query, target, message) == found


async def test_deleted_chat_has_no_delivered_message(discord_with):
    async with discord_with() as harness, talking(harness) as (adapter, _, event):
        target = event.source.target
        del harness.fake.world.channels[int(target.chat_id)]
        query = query_of("k-1")
        assert await adapter.was_delivered(query, target, OutgoingMessage("x")) is None


async def test_reply_without_history_permission_quotes_nothing(discord_with, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a")
    media = (Media("document", path.name, "text/plain", path=str(path)),)
    async with discord_with() as harness, talking(harness, group=True) as (adapter, _, event):
        target = event.source.target
        harness.fake.rest.no_history.add(int(target.chat_id))
        for number, files in enumerate(((), media)):
            out = OutgoingMessage(f"answer {number}", reply_to=event.message_id, media=files)
            await adapter.send(target, out, f"quote-{number}")
        shown = await harness.shown(target.chat_id)
        assert [(each.text, each.reply_to, len(each.media)) for each in shown] == [
            ("answer 0", "", 0),
            ("answer 1", "", 1),
        ]
