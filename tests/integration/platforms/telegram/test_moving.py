"""A group that becomes a supergroup gets another id; people go on where they were."""

import msgspec
import pytest

from hermes.gateway.session_keys import build_session_key
from hermes.sdk.platforms import Button, OutgoingMessage
from hermes.sdk.testing.platforms.harness import File, connected


@pytest.fixture
def places(telegram):
    world = telegram.fake.world
    return world.chat(-55, "group", "old"), world.chat(-1_000_000_000_055, "supergroup", "new")


async def test_conversation_of_a_moved_group_continues_after_a_restart(telegram, places):
    old, new = places
    async with connected(telegram) as (_, inbox):
        await telegram.says("before", chat=str(old.id), chat_type="group")
        before = (await inbox.take("before")).source
        await telegram.fake.moves(old, new)
        await telegram.says("after", chat=str(new.id), chat_type="group")
        after = (await inbox.take("after")).source
        assert build_session_key(after) == build_session_key(before)
        assert (before.chat_now, after.chat_now) == ("", str(new.id))  # lists may name either
        assert inbox.texts() == ["before", "after"]
    async with connected(telegram) as (adapter, inbox):
        await telegram.says("later", chat=str(new.id), chat_type="group")
        event = await inbox.take("later")
        assert build_session_key(event.source) == build_session_key(before)
        answer = OutgoingMessage("here", reply_to=event.message_id)
        await adapter.send(event.source.target, answer, "k")
        (shown,) = await telegram.shown(str(new.id))
        assert (shown.text, shown.reply_to) == ("here", event.message_id)
        assert {chat.chat_id for chat in await adapter.chats()} == {"-55"}


async def test_buttons_and_albums_go_on_there_too(telegram, places):
    old, new = places
    async with connected(telegram) as (adapter, inbox):
        await telegram.fake.moves(old, new)
        two = tuple(File("image", f"{name}.png", b"x", "image/png") for name in "ab")
        await telegram.says("look", chat=str(new.id), chat_type="group", files=two)
        source = (await inbox.take("look")).source
        assert source.chat_id == "-55"
        buttons = (Button("Yes", "yes"),)
        sent = await adapter.send(source.target, OutgoingMessage("sure?", buttons=buttons), "k")
        await telegram.presses(sent, "yes", chat=str(new.id))
        pressed = (await inbox.press("yes")).source
        assert msgspec.structs.replace(
            pressed, user_id="", user_name=""
        ) == msgspec.structs.replace(source, user_id="", user_name="")


async def test_a_move_that_only_a_send_tells_of_keeps_the_conversation(telegram, places):
    """What Telegram had for us for longer than a day is lost."""
    old, new = places
    async with connected(telegram) as (adapter, inbox):
        await telegram.says("before", chat=str(old.id), chat_type="group")
        source = (await inbox.take("before")).source
        old.moved_to = new.id
        await adapter.send(source.target, OutgoingMessage("are you there?"), "k")
        await telegram.says("yes", chat=str(new.id), chat_type="group")
        assert (await inbox.take("yes")).source.chat_id == source.chat_id
