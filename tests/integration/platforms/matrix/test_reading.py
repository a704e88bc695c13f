"""What people say on a real homeserver comes once, from where it was said."""

import asyncio
from pathlib import Path

from hermes.sdk.platforms import MessageEvent, OutgoingMessage
from hermes.sdk.testing.platforms.harness import Inbox, connected, talking
from hermes_plugins.platforms.matrix.manifest import MatrixSettings
from tests.integration.platforms.matrix.people import path


class TakesOne(Inbox):
    async def receive(self, event: MessageEvent) -> bool:
        self.refusals = len(self.kept)
        return await super().receive(event)


async def test_messages_from_before_the_first_start_are_ignored(matrix):
    room_id = await matrix.room()
    await matrix.us.join(room_id)
    await matrix.says("long ago")
    async with connected(matrix) as (_, inbox):
        await matrix.says("now")
        await inbox.take("now")
        assert inbox.texts() == ["now"]


async def test_invitation_from_before_the_start_is_accepted_and_its_messages_delivered(matrix):
    await matrix.says("are you there?")
    async with connected(matrix) as (_, inbox):
        await inbox.take("are you there?")


async def test_only_messages_since_the_invitation_to_a_room_are_delivered(matrix):
    owner = await matrix.person()
    async with connected(matrix) as (_, inbox):
        room_id = await owner.create(name="old", preset="public_chat")
        for number in range(3):
            await owner.say(room_id, f"among us {number}")
        await owner.call("POST", path("rooms", room_id, "invite"), {"user_id": matrix.us.user_id})
        await owner.say(room_id, "welcome")
        await inbox.take("welcome")
        assert inbox.texts() == ["welcome"]


async def test_a_long_absence_loses_nothing_and_doubles_nothing(matrix):
    async with talking(matrix, group=True) as (_, _, event):
        room_id = event.source.chat_id
    owner = await matrix.person()
    said = [f"number {number}" for number in range(52)]
    for text in said:  # more than one answer has
        await owner.say(room_id, text)
    async with connected(matrix) as (_, inbox):
        await inbox.take("number 51")
        assert inbox.texts() == said
    assert any(call.endswith("/messages") for call in matrix.proxy.calls)
    async with connected(matrix) as (_, inbox):
        await owner.say(room_id, "the end")
        await inbox.take("the end")
        assert inbox.texts() == ["the end"]


async def test_a_private_chat_with_a_third_person_is_a_group(matrix):
    async with talking(matrix) as (adapter, inbox, event):
        room_id, third = event.source.chat_id, await matrix.person("third")
        owner = await matrix.person()
        await owner.call("POST", path("rooms", room_id, "invite"), {"user_id": third.user_id})
        await owner.say(room_id, "now we are three")
        later = await inbox.take("now we are three")
        assert (later.source.chat_type, later.addressed) == ("group", False)
        (chat,) = await adapter.chats()
        assert chat.chat_type == "group"


async def test_edits_redactions_and_own_messages_are_ignored(matrix):
    async with talking(matrix) as (_, inbox, event):
        room_id, owner = event.source.chat_id, await matrix.person()
        edit = {"rel_type": "m.replace", "event_id": event.message_id}
        new = {"msgtype": "m.text", "body": "hello!"}
        await owner.say(room_id, "* hello!", **{"m.relates_to": edit, "m.new_content": new})
        await owner.call("PUT", path("rooms", room_id, "redact", event.message_id, "r1"), {})
        await matrix.us.say(room_id, "by another device of ours")
        await owner.say(room_id, "the next")
        await inbox.take("the next")
        assert inbox.texts() == ["hello", "the next"]


async def test_read_receipt_is_sent(matrix):
    async with talking(matrix) as (_, _, event):
        owner, room_id = await matrix.person(), event.source.chat_id
        async with asyncio.timeout(100):
            while True:
                answer = await owner.call("GET", path("sync"))
                events = answer["rooms"]["join"][room_id]["ephemeral"]["events"]
                read = [each for each in events if each["type"] == "m.receipt"]
                if read and event.message_id in read[0]["content"]:
                    break
        readers = read[0]["content"][event.message_id]["m.read"]
        assert matrix.us.user_id in readers


async def test_mention_opens_a_thread_for_the_conversation(matrix):
    matrix.settings = MatrixSettings()
    async with connected(matrix) as (adapter, inbox):
        await matrix.says("not for you", chat_type="group")
        first = await matrix.says("the weather?", chat_type="group", mention=True)
        event = await inbox.take("the weather?")
        assert (event.source.thread_id, event.source.chat_type) == (first, "group")
        await adapter.send(event.source.target, OutgoingMessage("fine", reply_to=first), "one")
        (shown,) = await matrix.shown(event.source.chat_id)
        assert (shown.thread, shown.text) == (first, "fine")
    async with connected(matrix) as (_, inbox):
        await matrix.says("and tomorrow?", chat_type="group", thread=first)
        follow = await inbox.take("and tomorrow?")
        assert (follow.source.thread_id, follow.addressed) == (first, True)
        assert inbox.texts() == ["and tomorrow?"]


async def test_in_a_private_chat_a_mention_opens_a_thread_only_when_wanted(matrix):
    for wanted, text in ((False, "in the room"), (True, "in a thread")):
        matrix.settings = MatrixSettings(dm_mention_threads=wanted)
        async with connected(matrix) as (_, inbox):
            sent = await matrix.says(text, mention=True)
            event = await inbox.take(text)
            assert event.source.thread_id == (sent if wanted else "")


async def test_a_room_may_be_free_of_mentions(matrix):
    room_id = await matrix.room(group=True)
    matrix.settings = MatrixSettings(free_response_rooms=(room_id,), auto_thread=False)
    async with connected(matrix) as (_, inbox):
        await matrix.says("free talk", chat_type="group")
        assert not (await inbox.take("free talk")).addressed


async def test_a_crash_in_the_middle_of_an_answer_repeats_only_the_rest(matrix):
    async with talking(matrix) as (_, _, event):
        owner, room_id = await matrix.person(), event.source.chat_id
    for text in ("one", "two", "three"):
        await owner.say(room_id, text)
    inbox = TakesOne()
    async with connected(matrix, inbox):
        await inbox.until(lambda box: len(box.offered) > 1, "the second")
    assert inbox.texts() == ["one"]
    async with connected(matrix) as (_, after):
        await after.take("three")
        assert after.texts() == ["two", "three"]


async def test_a_bookmark_that_the_homeserver_does_not_know_starts_anew(matrix):
    async with talking(matrix):
        pass
    file = Path(matrix.folder / "state" / "sync.json")
    file.write_text(file.read_text().replace('"since":"', '"since":"nonsense'))
    async with connected(matrix) as (_, inbox):
        await matrix.says("a new beginning")
        await inbox.take("a new beginning")


async def test_room_is_dropped_after_a_kick(matrix):
    async with talking(matrix, group=True) as (adapter, inbox, event):
        owner, room_id = await matrix.person(), event.source.chat_id
        await owner.call("POST", path("rooms", room_id, "kick"), {"user_id": matrix.us.user_id})
        await matrix.says("elsewhere", chat="other")
        await inbox.take("elsewhere")
        assert room_id not in {chat.chat_id for chat in await adapter.chats()}
