"""The session of a chat, and its lease."""

import pytest

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.core.messages import Assistant, Text, User
from hermes.store.records import Change, InboxItem, QueueCount
from hermes.store.session_store import under_lease

NOW, LATER = 1_000.0, 2_000.0
CHAT, OTHER = "agent:main:fake:dm:7", "agent:main:fake:dm:8"


async def talked(store, *texts, session="s"):
    await store.create(session, source="fake", model="m", system_prompt="")
    for text in texts:
        await store.append(session, User.say(text))
        await store.append(session, Assistant((Text(f"{text}!"),)))


class TestFence:
    @pytest.mark.parametrize("gone", ["taken over", "released", "taken over and released"])
    async def test_lost_lease_prevents_writes(self, store, gone):
        await talked(store, "one")
        right = await store.chats.claim(CHAT, "us", NOW, LATER)
        with under_lease(right):
            await store.append("s", User.say("ours"))
            if gone == "released":
                await store.chats.release(right)
            else:
                theirs = await store.chats.claim(CHAT, "them", LATER, LATER + 9)
                assert theirs is not None
            if gone == "taken over and released":
                await store.chats.release(theirs)
            before = await store.messages("s")
            for write in (
                store.append("s", User.say("late")),
                store.undo("s"),
                store.branch("s", "b"),
                store.compact("s", "c", await store.entries("s")),
                store.finish("s", "late"),
                store.inbox.start_command(1, "s"),
            ):
                with pytest.raises(LeaseLost):
                    await write
        assert await store.messages("s") == before
        assert await store.descendants("s") == ()
        assert (await store.info("s")).ended_at is None
        await store.append("s", User.say("of somebody who needs no right"))


class TestOneConversation:
    async def test_two_chats_in_one_conversation_are_worked_on_one_after_the_other(self, store):
        await store.chats.bind(CHAT, "s", b"{}", NOW)
        await store.chats.bind(OTHER, "s", b"{}", NOW)
        first = await store.chats.claim(CHAT, "us", NOW, LATER)
        assert await store.chats.claim(OTHER, "us", NOW, LATER) is None
        assert await store.chats.claim(OTHER, "them", NOW, LATER) is None
        assert await store.chats.claim(CHAT, "us", NOW, LATER) == first
        await store.chats.release(first)
        second = await store.chats.claim(OTHER, "them", NOW, LATER)
        assert await store.chats.claim(CHAT, "us", NOW, LATER) is None
        await store.chats.release(second)
        again = await store.chats.claim(CHAT, "us", NOW, LATER)
        # What was known of it is old: more happened than that it was let go and taken again.
        assert again.fence > first.fence + 1

    async def test_of_an_owner_who_is_late_or_dead_it_is_had(self, store):
        await store.chats.bind(CHAT, "s", b"{}", NOW)
        await store.chats.bind(OTHER, "s", b"{}", NOW)
        late = await store.chats.claim(CHAT, "us", NOW, LATER)
        dead = await store.chats.claim(OTHER, "them", LATER, LATER + 9)
        assert dead is not None
        assert await store.chats.claim(CHAT, "others", LATER, LATER + 9, dead=("them",))
        await talked(store)
        for right in (late, dead):
            with under_lease(right), pytest.raises(LeaseLost):
                await store.append("s", User.say("late"))

    async def test_a_conversation_that_is_worked_on_is_not_had_in_another_chat(self, store):
        await store.chats.bind(CHAT, "s", b"{}", NOW)
        await store.chats.bind(OTHER, "t", b"{}", NOW)
        right = await store.chats.claim(CHAT, "us", NOW, LATER)
        with pytest.raises(StoreConflict):
            await store.chats.bind(OTHER, "s", b"", NOW)
        assert (await store.chats.get(OTHER)).session_id == "t"
        await store.chats.bind(CHAT, "s", b"", NOW)
        await store.chats.release(right)
        await store.chats.bind(OTHER, "s", b"", NOW)

    async def test_a_compaction_takes_the_chats_along(self, store):
        await talked(store, "one")
        await store.chats.bind(CHAT, "s", b"{}", NOW)
        await store.compact("s", "t", await store.entries("s"))
        assert (await store.chats.get(CHAT)).session_id == "t"

    async def test_a_chat_is_forgotten_only_by_its_owner(self, store):
        right = await store.chats.claim(CHAT, "us", NOW, LATER)
        theirs = await store.chats.claim(CHAT, "them", LATER, LATER + 9)
        await store.chats.delete(right)
        assert await store.chats.get(CHAT) is not None
        await store.chats.delete(theirs)
        assert await store.chats.get(CHAT) is None


class TestOnce:
    async def begun(self, store, session="s"):
        number = await store.inbox.receive(InboxItem("fake", "", "m", CHAT, b"{}"), NOW)
        await store.inbox.start_command(number, session)
        (row,) = await store.inbox.pending(CHAT)
        assert (row.id, row.state, row.session_id) == (number, "begun", session)
        return row

    async def test_changes_since_the_mark_of_a_command_are_listed(self, store):
        await talked(store, "one", "two")
        await store.undo("s")
        row = await self.begun(store)
        assert await store.changes("s", row.log_after) == ()
        await store.undo("s")
        await store.branch("s", "b")
        await talked(store, "other", session="x")
        await store.undo("x")
        assert await store.changes("s", row.log_after) == (
            Change("undo", "s"), Change("branch", "b"),
        )  # fmt: skip

    async def test_undone_messages_are_available_until_the_next_message(self, store):
        await talked(store, "one", "two", "three")
        assert await store.undone("s") == ()
        await store.undo("s")
        assert [each.text for each in await store.undone("s")] == ["three", "three!"]
        await store.undo("s", 2)
        assert [each.text for each in await store.undone("s")] == ["one", "one!", "two", "two!"]
        await store.append("s", User.say("four"))
        assert await store.undone("s") == ()

    async def test_a_command_that_asks_becomes_a_turn(self, store):
        row = await self.begun(store)
        right = await store.chats.claim(CHAT, "us", NOW, LATER)
        await store.inbox.start((row.id,), "s", right)
        (row,) = await store.inbox.pending(CHAT)
        assert row.state == "working"

    async def test_unreadable_row_is_set_aside_counted_and_deleted_later(self, store):
        row = await self.begun(store)
        await store.inbox.answer((row.id,), (), None, NOW, state="unreadable")
        assert await store.inbox.pending(CHAT) == () == await store.inbox.pending_chats()
        assert await store.queue_counts() == (QueueCount("fake", last_in=NOW, unreadable_in=1),)
        assert await store.clean_queues(NOW + 1) == 1


class TestGateways:
    """Gateways that share the store. Their times are those of the store."""

    async def test_heartbeat_renews_the_leases_in_use_and_lists_the_gateways(self, store):
        first = await store.chats.beat("us", b'["fake"]', 6.0)
        await store.chats.claim(CHAT, "us", first.now, first.now + 1)
        found = await store.chats.beat("them", b"[]", 6.0)
        assert [(each.owner, each.platforms) for each in found.gateways] == [
            ("them", b"[]"),
            ("us", b'["fake"]'),
        ]
        await store.chats.claim(OTHER, "us", first.now, first.now + 1)
        again = await store.chats.beat("us", b"[]", 6.0, (CHAT,))
        assert (await store.chats.get(OTHER)).lease_until == pytest.approx(first.now + 1)
        assert (await store.chats.get(CHAT)).lease_until == pytest.approx(again.now + 6.0)
        assert [each.session_key for each in await store.chats.select()] == [CHAT, OTHER]

    async def test_gateway_that_was_dead_for_long_is_forgotten(self, store):
        await store.chats.beat("gone", b"[]", 6.0)
        await store.chats.renew("gone", 1.0)
        await store.chats.beat("us", b"[]", 6.0)
        found = await store.chats.beat("us", b"[]", 6.0)
        assert [each.owner for each in found.gateways] == ["us"]

    async def test_session_in_use_is_claimed_by_one_process(self, store):
        await talked(store, "one")
        first = await store.chats.claim("lease:session:s", "us", NOW, LATER, session_id="s")
        await store.compact("s", "t", await store.entries("s"))
        # The session goes on as another one, which has a key of its own.
        assert (
            await store.chats.claim("lease:session:t", "them", NOW, LATER, session_id="t") is None
        )
        await store.chats.delete(first)
        assert await store.chats.claim("lease:session:t", "them", NOW, LATER, session_id="t")

    async def test_chats_that_no_process_works_on_are_found(self, store):
        for key in (CHAT, OTHER, "free", "late"):
            item = InboxItem("fake", "", key, key, b"{}")
            await store.inbox.receive(item, NOW if key != "late" else LATER)
        await store.chats.claim(CHAT, "gone", NOW, NOW + 6)
        await store.chats.claim(OTHER, "alive", NOW, LATER)
        find = store.inbox.orphaned_chats
        assert await find(("fake",), NOW + 5, NOW - 1) == ()
        assert await find(("fake",), NOW + 6, NOW - 1) == (CHAT,)
        assert await find(("fake",), NOW + 5, NOW - 1, ("gone",)) == (CHAT,)
        assert await find(("fake",), NOW + 6, NOW) == (CHAT, "free")
        assert await find(("other",), LATER, LATER) == ()

    async def test_version_changes_with_the_conversation(self, store):
        await talked(store, "one")
        first = await store.version("s")
        assert await store.version("s") == first
        await store.undo("s")
        second = await store.version("s")
        await store.append("s", User.say("two"))
        assert len({first, second, await store.version("s")}) == 3
