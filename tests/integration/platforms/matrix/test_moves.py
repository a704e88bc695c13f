"""A room that is upgraded on a real homeserver: people go on in another room."""

from hermes.gateway.session_keys import build_session_key
from hermes.sdk.platforms import OutgoingMessage
from hermes.sdk.testing.platforms.harness import connected, query_of, talking
from tests.integration.platforms.matrix.people import Account, path


async def upgraded(person: Account, room_id: str) -> str:
    answer = await person.call("POST", path("rooms", room_id, "upgrade"), {"new_version": "11"})
    return str(answer["replacement_room"])


async def test_conversation_continues_in_the_upgraded_room(matrix):
    async with talking(matrix, group=True) as (adapter, inbox, event):
        owner, old, target = await matrix.person(), event.source.chat_id, event.source.target
        before = OutgoingMessage("before")
        sent = await adapter.send(target, before, "k0")
        new = await upgraded(owner, old)
        while matrix.us.user_id not in await owner.members(new):
            pass
        await owner.say(new, "we are here now")
        after = await inbox.take("we are here now")
        assert build_session_key(after.source) == build_session_key(event.source)
        await adapter.send(target, OutgoingMessage("so am I"), "k1")
        matrix._owners[new] = owner
        await adapter.typing(target)
        assert await matrix.typing(new)
        assert await adapter.was_delivered(query_of("k0"), target, before) == sent
        assert await adapter.was_delivered(query_of("k2"), target, before) is None
    assert [shown.text for shown in await matrix.shown(new)] == ["so am I"]
    async with connected(matrix) as (adapter, inbox):
        await owner.say(new, "after a restart")
        later = await inbox.take("after a restart")
        assert later.source.chat_id == old
        answer = OutgoingMessage("still here", reply_to=later.message_id)
        await adapter.send(later.source.target, answer, "k2")
        shown = (await matrix.shown(new))[-1]
        assert (shown.text, shown.reply_to) == ("still here", later.message_id)
        chats = {chat.chat_id for chat in await adapter.chats()}
        assert old in chats
        assert new not in chats


async def test_private_chat_is_followed_after_an_invitation(matrix):
    async with talking(matrix) as (_, inbox, event):
        owner = await matrix.person()
        new = await upgraded(owner, event.source.chat_id)
        await owner.call("POST", path("rooms", new, "invite"), {"user_id": matrix.us.user_id})
        await owner.say(new, "come in")
        after = await inbox.take("come in")
        assert build_session_key(after.source) == build_session_key(event.source)


async def test_answer_in_a_thread_of_the_old_room_is_sent_to_the_new_one(matrix):
    async with talking(matrix, group=True) as (adapter, inbox, event):
        owner = await matrix.person()
        await matrix.says("about this", chat_type="group", thread="topic")
        threaded = await inbox.take("about this")
        new = await upgraded(owner, event.source.chat_id)
        matrix._owners[new] = owner
        while matrix.us.user_id not in await owner.members(new):
            pass
        await owner.say(new, "here")
        await inbox.take("here")
        await adapter.send(threaded.source.target, OutgoingMessage("an answer"), "k")
        (shown,) = await matrix.shown(new)
        assert (shown.text, shown.thread) == ("an answer", "")


async def test_a_room_that_pretends_to_replace_another_one_is_not_believed(matrix):
    async with talking(matrix, group=True) as (_, inbox, event):
        stranger = await matrix.person("mallory")
        false = {"predecessor": {"room_id": event.source.chat_id, "event_id": event.message_id}}
        room_id = await stranger.create(
            name="garden", invite=[matrix.us.user_id], creation_content=false
        )
        await stranger.say(room_id, "go on, tell me")
        source = (await inbox.take("go on, tell me")).source
        assert source.chat_id == room_id
