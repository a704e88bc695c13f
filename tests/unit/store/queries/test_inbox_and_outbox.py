"""The queues of the gateway: messages on their way in and out."""

import asyncio

import pytest

from hermes.core.errors import LeaseLost
from hermes.core.messages import User
from hermes.store.records import ChatLease, ChatRow, InboxItem, OutboxItem, QueueCount

NOW = 1_000.0
LATER = 2_000.0
CHAT = "agent:main:fake:dm:7"
HERE = (("fake", ""),)


def message(key="m1", *, chat=CHAT, platform="fake", account=""):
    return InboxItem(platform, account, key, chat, b'{"text":"hello \xf0\x9f\x99\x82"}')


def draft(key, *, lane=CHAT, **given):
    facts = {"platform": "fake", "account": "", "target": b'{"chat":"7"}', **given}
    return OutboxItem(key, lane=lane, body=facts.pop("body", b'{"text":"hi"}'), **facts)


async def put(store, *keys, **given):
    return await store.outbox.enqueue(tuple(draft(key, **given) for key in keys), NOW)


async def states(store, *keys):
    return [(await store.outbox.get(key)).state for key in keys]


async def due(store, now=NOW, platforms=HERE):
    return [row.key for row in await store.outbox.due(platforms, now)]


async def claimed(store, owner="us", **given):
    right = await store.chats.claim(CHAT, owner, NOW, LATER, **given)
    assert right is not None
    return right


class TestInbox:
    async def test_a_message_is_kept_once_and_comes_back_whole(self, store):
        number = await store.inbox.receive(message(), NOW)
        assert await store.inbox.receive(message(), LATER) is None
        (row,) = await store.inbox.pending(CHAT)
        assert (row.id, row.state, row.received_at, row.event) == (
            number, "new", NOW, message().event,
        )  # fmt: skip
        assert (row.platform, row.account, row.message_key) == ("fake", "", "m1")
        assert (row.session_id, row.log_after, row.answered_by) == ("", 0, 0)

    async def test_the_same_name_on_another_account_or_platform_is_another_message(self, store):
        numbers = [
            await store.inbox.receive(one, NOW)
            for one in (message(), message(account="b"), message(platform="other"))
        ]
        assert numbers == sorted({one for one in numbers if one is not None})

    async def test_chats_that_wait_are_named_oldest_first(self, store):
        for key, chat, platform in (
            ("1", "b", "fake"), ("2", "a", "other"), ("3", "b", "fake"), ("4", "c", "third"),
        ):  # fmt: skip
            await store.inbox.receive(message(key, chat=chat, platform=platform), NOW)
        assert await store.inbox.pending_chats() == ("b", "a", "c")
        assert await store.inbox.pending_chats(("other", "third")) == ("a", "c")
        assert [row.message_key for row in await store.inbox.pending("b")] == ["1", "3"]
        assert await store.inbox.pending("nobody") == ()

    async def test_work_begins_where_the_log_ends(self, store):
        number = await store.inbox.receive(message(), NOW)
        right = await claimed(store)
        assert await store.inbox.start((number,), "s", right) == 0
        await store.create("s", source="fake", model="m", system_prompt="")
        logged = await store.append("s", User.say("hello"))
        assert await store.inbox.start((number,), "s", right) == logged
        (row,) = await store.inbox.pending(CHAT)
        assert (row.state, row.session_id, row.log_after) == ("working", "s", logged)
        assert await store.inbox.pending_chats() == (CHAT,)

    async def test_text_that_no_database_takes_does_no_harm(self, store):
        odd = message("a\x00\ud800b", chat="c\x00hat")
        assert await store.inbox.receive(odd, NOW) is not None
        assert await store.inbox.receive(odd, NOW) is None
        assert [row.message_key for row in await store.inbox.pending("c\x00hat")] == ["ab"]
        (number,) = await put(store, "k\x00")
        await store.outbox.retry(number, NOW, "bad \x00 answer \udfff")
        assert (await store.outbox.get("k")).error == "bad  answer "


class TestAnswer:
    async def test_messages_are_done_and_their_answer_kept(self, store):
        first, last = [await store.inbox.receive(message(key), NOW) for key in ("m1", "m2")]
        right = await claimed(store)
        await store.inbox.start((first, last), "s", right)
        numbers = await store.inbox.answer(
            (first, last), (draft("a", inbox_id=last), draft("b", inbox_id=last)), right, LATER
        )
        assert await store.inbox.pending(CHAT) == ()
        assert await store.inbox.pending_chats() == ()
        rows = [await store.outbox.get(key) for key in ("a", "b")]
        assert tuple(row.id for row in rows) == numbers
        assert [row.inbox_id for row in rows] == [last, last]
        assert {(row.state, row.created_at, row.attempts) for row in rows} == {
            ("pending", LATER, 0)
        }
        assert (await store.chats.get(CHAT)).last_active == LATER

    async def test_lost_lease_changes_nothing(self, store):
        number = await store.inbox.receive(message(), NOW)
        old = await claimed(store, "old")
        new = await claimed(store, "new", dead=("old",))
        for attempt in (
            store.inbox.start((number,), "s", old),
            store.inbox.answer((number,), (draft("a"),), old, NOW),
            store.inbox.answer((number,), (), ChatLease("unknown chat", "new", 1), NOW),
        ):
            with pytest.raises(LeaseLost) as caught:
                await attempt
            assert caught.value.hint
        assert [row.state for row in await store.inbox.pending(CHAT)] == ["new"]
        assert await store.outbox.get("a") is None
        await store.inbox.answer((number,), (draft("a"),), new, NOW)
        assert await states(store, "a") == ["pending"]

    async def test_lost_lease_does_not_fail_other_writes(self, store):
        numbers = [await store.inbox.receive(message(str(n)), NOW) for n in range(20)]
        right = await claimed(store)
        wrong = ChatLease(CHAT, "us", right.fence + 1)
        outcomes = await asyncio.gather(
            *(
                store.inbox.answer(
                    (row,), (draft(str(row)),), wrong if row % 5 == 0 else right, NOW
                )
                for row in numbers
            ),
            return_exceptions=True,
        )
        lost = [row for row in numbers if row % 5 == 0]
        assert [type(one) for one in outcomes].count(LeaseLost) == len(lost)
        assert [row.id for row in await store.inbox.pending(CHAT)] == lost
        assert all([await store.outbox.get(str(row)) is None for row in lost])

    async def test_a_message_may_be_dropped_without_a_right(self, store):
        number = await store.inbox.receive(message(), NOW)
        assert await store.inbox.answer((number,), (), None, NOW, state="dropped") == ()
        assert await store.inbox.pending(CHAT) == ()
        assert await store.inbox.receive(message(), NOW) is None

    async def test_streamed_row_becomes_the_answer(self, store):
        number = await store.inbox.receive(message(), NOW)
        right = await claimed(store)
        (shown,) = await put(store, "stream", inbox_id=number, kind="stream")
        await store.outbox.mark_sending(shown)
        await store.outbox.mark_streaming(shown, "p1")
        assert (await store.outbox.stream_of(number)).platform_id == "p1"
        drafts = (
            draft("a", inbox_id=number, body=b'"whole"'), draft("b", inbox_id=number),
        )  # fmt: skip
        numbers = await store.inbox.answer((number,), drafts, right, NOW, stream_id=shown)
        assert numbers[0] == shown and numbers[1] > shown
        assert await store.outbox.get("stream") is None
        assert await store.outbox.stream_of(number) is None
        row = await store.outbox.get("a")
        assert (row.state, row.body, row.kind, row.platform_id, row.attempts) == (
            "pending", b'"whole"', "reply", "p1", 0,
        )  # fmt: skip
        assert await due(store) == ["a"]
        # Until it is edited the platform's name for it stays, also when a try fails.
        assert await store.outbox.mark_sending(shown)
        await store.outbox.retry(shown, NOW, "busy")
        assert (await store.outbox.get("a")).platform_id == "p1"
        await store.outbox.mark_sent(shown, "p1", NOW)
        assert await due(store) == ["b"]

    async def test_an_answer_may_have_the_key_it_was_shown_under(self, store):
        (shown,) = await put(store, "a")
        await store.outbox.mark_sending(shown)
        await store.outbox.mark_streaming(shown, "p1")
        last = draft("a", body=b'"whole"')
        for _ in range(2):
            assert await store.inbox.answer((), (last,), None, NOW, stream_id=shown) == (shown,)
        row = await store.outbox.get("a")
        assert (row.state, row.body, row.platform_id) == ("pending", b'"whole"', "p1")

    async def test_a_row_that_grows_no_more_is_left_and_the_answer_sent(self, store):
        (shown,) = await put(store, "stream")
        await store.outbox.mark_sending(shown)
        await store.outbox.give_up(shown, "uncertain", "lost")
        (new,) = await store.inbox.answer((), (draft("a"),), None, NOW, stream_id=shown)
        assert new != shown
        assert await states(store, "stream", "a") == ["uncertain", "pending"]

    async def test_without_an_answer_what_was_shown_is_the_end_of_it(self, store):
        (shown,) = await put(store, "stream")
        await store.outbox.mark_sending(shown)
        await store.outbox.mark_streaming(shown, "p1")
        await put(store, "next")
        assert await due(store) == []
        assert await store.inbox.answer((), (), None, NOW, stream_id=shown) == ()
        assert await states(store, "stream") == ["sent"]
        assert await due(store) == ["next"]

    async def test_an_answer_given_twice_is_sent_once(self, store):
        number = await store.inbox.receive(message(), NOW)
        right = await claimed(store)
        once = await store.inbox.answer((number,), (draft("a"), draft("b")), right, NOW)
        assert await store.inbox.answer((number,), (draft("a"), draft("b")), right, LATER) == once
        known, new = await store.outbox.enqueue((draft("b"), draft("c")), NOW)
        assert known == once[1] and new > known


class TestOutbox:
    async def test_a_row_comes_back_whole(self, store):
        given = OutboxItem(
            "k", "fake", "b", b'{"t":1}', "lane", b'{"x":"\xc3\xa9"}', "notice", 5, 9.5
        )
        (number,) = await store.outbox.enqueue((given,), NOW)
        row = await store.outbox.get("k")
        assert (row.id, row.state, row.attempts, row.created_at) == (number, "pending", 0, NOW)
        for name in OutboxItem.__struct_fields__:
            assert getattr(row, name) == getattr(given, name)
        assert (row.platform_id, row.after_id, row.error, row.sent_at) == ("", "", "", None)
        assert await store.outbox.get("unknown") is None

    async def test_one_process_verifies_the_message_of_a_dead_sender(self, store):
        (row,) = await put(store, "1")
        await store.outbox.mark_sending(row, by="gone", now=NOW)
        assert await store.outbox.take_sending(row, "gone", "us", LATER)
        assert not await store.outbox.take_sending(row, "gone", "them", LATER)
        assert (await store.outbox.get("1")).error == "us"

    async def test_a_lane_keeps_its_order_and_does_not_hold_up_others(self, store):
        one, two, _ = await put(store, "1", "2", "3", lane="a")
        await put(store, "4", lane="b")
        assert await due(store) == ["1", "4"]
        assert await store.outbox.mark_sending(one)
        assert await due(store) == ["4"]
        await store.outbox.mark_sent(one, "p1", NOW)
        assert await due(store) == ["2", "4"]
        await store.outbox.mark_sending(two)
        await store.outbox.mark_streaming(two, "p2")
        assert await due(store) == ["4"]
        await store.outbox.mark_sent(two, "p2", NOW)
        assert await due(store) == ["3", "4"]

    async def test_a_row_that_waits_for_its_next_try_holds_its_lane(self, store):
        one, _ = await put(store, "1", "2")
        await store.outbox.mark_sending(one)
        await store.outbox.retry(one, LATER, "flood")
        assert await due(store) == []
        assert await due(store, LATER) == ["1"]
        row = await store.outbox.get("1")
        assert (row.attempts, row.error, row.due_at) == (1, "flood", LATER)

    @pytest.mark.parametrize("end", ["failed", "uncertain"])
    async def test_a_row_that_is_given_up_does_not_block_its_lane(self, store, end):
        one, _ = await put(store, "1", "2")
        await store.outbox.mark_sending(one)
        await store.outbox.give_up(one, end, "blocked")
        assert await due(store) == ["2"]
        assert (await store.outbox.get("1")).error == "blocked"

    async def test_only_a_given_up_row_is_given_up(self, store):
        (one,) = await put(store, "1")
        with pytest.raises(ValueError, match="failed or uncertain"):
            await store.outbox.give_up(one, "sent", "")

    async def test_a_lane_belongs_to_its_platform_and_account(self, store):
        await put(store, "1", lane="x")
        await put(store, "2", lane="x", account="b")
        await put(store, "3", lane="x", platform="other")
        both = (("fake", "b"), ("other", ""))
        assert await due(store, platforms=both) == ["2", "3"]
        assert await due(store) == ["1"]
        assert await due(store, platforms=()) == []
        everything = (("fake", ""), *both)
        assert [row.key for row in await store.outbox.due(everything, NOW, limit=2)] == ["1", "2"]

    async def test_a_row_is_taken_by_one_and_is_in_doubt_until_it_says_more(self, store):
        one, two = await put(store, "1", "2", lane="a")
        (three,) = await put(store, "3", lane="b")
        assert [
            await store.outbox.mark_sending(one, "p9"),
            await store.outbox.mark_sending(one),
        ] == [True, False]
        assert await store.outbox.mark_sending(three)
        in_doubt = await store.outbox.in_doubt(HERE)
        assert [(row.key, row.after_id) for row in in_doubt] == [("1", "p9"), ("3", "")]
        assert await store.outbox.in_doubt((("other", ""),)) == ()
        await store.outbox.mark_sent(one, "p1", NOW)
        await store.outbox.retry(three, NOW, "")
        assert await store.outbox.in_doubt(HERE) == ()
        assert await store.outbox.mark_sending(two)

    async def test_sent_row_is_immutable(self, store):
        (one,) = await put(store, "1")
        await store.outbox.mark_sending(one)
        await store.outbox.give_up(one, "uncertain", "no answer")
        await store.outbox.mark_sent(one, "p1", LATER)
        await store.outbox.retry(one, NOW, "late news")
        await store.outbox.give_up(one, "failed", "late news")
        await store.outbox.mark_streaming(one, "p2")
        row = await store.outbox.get("1")
        assert (row.state, row.platform_id, row.sent_at, row.error) == ("sent", "p1", LATER, "")
        assert not await store.outbox.mark_sending(one)


class TestChats:
    async def test_a_chat_goes_from_one_conversation_to_the_next(self, store):
        assert await store.chats.get(CHAT) is None
        await store.chats.bind(CHAT, "s1", b'{"chat":"7"}', NOW)
        await store.chats.bind(CHAT, "s1", b"", NOW + 1)
        assert await store.chats.get(CHAT) == ChatRow(CHAT, "s1", b'{"chat":"7"}', NOW, NOW + 1)
        await store.chats.bind(CHAT, "s2", b"", LATER)
        assert await store.chats.get(CHAT) == ChatRow(CHAT, "s2", b'{"chat":"7"}', LATER, LATER)

    async def test_idle_chats_are_selected_from_all(self, store):
        await store.chats.bind("b", "s", b"{}", NOW)
        await store.chats.bind("a", "s", b"{}", LATER)
        assert [row.session_key for row in await store.chats.select()] == ["b", "a"]
        assert [row.session_key for row in await store.chats.select(idle_since=LATER)] == ["b"]

    async def test_one_process_at_a_time_works_on_a_chat(self, store):
        right = await claimed(store)
        assert right == ChatLease(CHAT, "us", 1)
        assert await store.chats.claim(CHAT, "them", NOW, LATER) is None
        assert await claimed(store) == right
        row = await store.chats.get(CHAT)
        assert (row.session_id, row.owner, row.lease_until, row.fence) == ("", "us", LATER, 1)
        await store.chats.bind(CHAT, "s", b"{}", NOW)
        row = await store.chats.get(CHAT)
        assert (row.session_id, row.owner, row.fence) == ("s", "us", 1)

    async def test_a_chat_is_had_when_its_owner_lets_go_dies_or_is_late(self, store):
        right = await claimed(store, "a")
        await store.chats.release(right)
        assert (await claimed(store, "b")).fence == 2
        await store.chats.release(right)
        assert (await store.chats.get(CHAT)).owner == "b"
        assert await store.chats.claim(CHAT, "c", NOW, LATER, dead=("x", "y")) is None
        assert (await claimed(store, "c", dead=("x", "b"))).fence == 3
        late = await store.chats.claim(CHAT, "d", LATER, LATER + 9)
        assert late == ChatLease(CHAT, "d", 4)

    async def test_leases_are_kept_by_their_process(self, store):
        for chat, owner in (("1", "us"), ("2", "us"), ("3", "them")):
            assert await store.chats.claim(chat, owner, NOW, LATER)
        assert await store.chats.renew("us", LATER + 50) == 2
        assert await store.chats.claim("1", "new", LATER + 1, LATER + 9) is None
        assert await store.chats.claim("3", "new", LATER + 1, LATER + 9)
        assert await store.chats.owners() == ("new", "us")
        assert await store.chats.renew("nobody", LATER) == 0


class TestUpkeep:
    async def test_queued_messages_are_counted(self, store):
        for key, platform in (("1", "fake"), ("2", "fake"), ("3", "mail")):
            number = await store.inbox.receive(message(key, platform=platform), NOW + int(key))
        await store.inbox.answer((number,), (), None, NOW)
        one, two, three, _ = await put(store, "a", "b", "c", "d")
        await put(store, "e", platform="web")
        await store.outbox.mark_sent(one, "p", LATER)
        await store.outbox.give_up(two, "failed", "x")
        await store.outbox.give_up(three, "uncertain", "x")
        assert await store.queue_counts() == (
            QueueCount("fake", 2, 1, 1, 1, NOW + 2, LATER),
            QueueCount("mail", 0, last_in=NOW + 3),
            QueueCount("web", 0, 1),
        )

    async def test_only_what_is_done_for_long_is_forgotten(self, store):
        numbers = [await store.inbox.receive(message(str(n)), NOW) for n in range(5)]
        done, fresh, with_reply, merged, _waiting = numbers
        await store.inbox.answer((done,), (), None, NOW, state="dropped")
        await store.inbox.answer((fresh,), (), None, LATER)
        await store.inbox.answer(
            (merged, with_reply), (draft("r", inbox_id=with_reply),), None, NOW
        )
        old, gone, again = await put(store, "old", "gone", "again", lane="x")
        await store.outbox.mark_sent(old, "p", NOW)
        await store.outbox.give_up(gone, "failed", "x")
        await store.outbox.retry(again, NOW + 1, "x")
        await store.outbox.give_up(again, "uncertain", "x")
        assert await store.clean_queues(NOW) == 0
        assert await store.clean_queues(NOW + 1) == 3
        assert await states(store, "r", "again") == ["pending", "uncertain"]
        assert await store.inbox.receive(message("2"), NOW) is None
        assert await store.inbox.receive(message("3"), NOW) is None
        assert await store.inbox.receive(message("0"), NOW) is not None
        await store.outbox.mark_sent((await store.outbox.get("r")).id, "p", NOW)
        assert await store.clean_queues(LATER) == 4
        assert await store.outbox.get("r") is None
        assert [row.message_key for row in await store.inbox.pending(CHAT)] == ["4", "0"]


class TestGrowing:
    """What was shown before it was finished never holds up what comes after it."""

    async def shown(self, store, key, number, **given):
        made = draft(key, inbox_id=number, **given)
        assert await store.outbox.enqueue_sending(made, "p0", by="us", now=NOW)
        assert not await store.outbox.enqueue_sending(made, "p0", by="us", now=NOW)
        row = await store.outbox.get(key)
        assert (row.state, row.error, row.after_id, row.due_at) == ("sending", "us", "p0", NOW)
        await store.outbox.mark_streaming(row.id, f"of {key}")
        return row.id

    async def test_the_answer_takes_over_a_stream_without_its_id(self, store):
        number = await store.inbox.receive(message(), NOW)
        stream = await self.shown(store, "s", number, kind="stream")
        await self.shown(store, "p", number, kind="progress", lane="beside")
        assert await store.inbox.answer((number,), (draft("a"),), None, NOW) == (stream,)
        row = await store.outbox.get("a")
        assert (row.state, row.platform_id) == ("pending", "of s")
        assert await states(store, "p") == ["sent"]
        assert await due(store) == ["a"]

    async def test_stream_with_an_existing_draft_is_marked_as_sent(self, store):
        await put(store, "a")
        stream = await self.shown(store, "s", 0, kind="stream")
        await store.inbox.answer((), (draft("a"),), None, NOW, stream_id=stream)
        assert await states(store, "a", "s") == ["pending", "sent"]

    async def test_stream_found_after_the_answer_is_not_continued(self, store):
        number = await store.inbox.receive(message(), NOW)
        await store.outbox.enqueue_sending(
            draft("s", inbox_id=number, kind="stream"), "", by="us", now=NOW
        )
        await store.inbox.answer((number,), (draft("a"),), None, NOW)
        await store.outbox.mark_streaming((await store.outbox.get("s")).id, "p1")
        assert await states(store, "s", "a") == ["sent", "pending"]
        assert await due(store) == ["a"]

    async def test_uneditable_row_is_sent_again(self, store):
        (one,) = await put(store, "a")
        await store.outbox.mark_sending(one)
        await store.outbox.mark_streaming(one, "p1")
        await store.outbox.retry(one, NOW, "too old", resend=True)
        row = await store.outbox.get("a")
        assert (row.state, row.platform_id, row.error) == ("pending", "", "too old")

    async def test_streamed_row_that_became_the_answer_is_still_edited(self, store):
        """The platform confirms the row only after that."""
        number = await store.inbox.receive(message(), NOW)
        (row,) = await put(store, "stream", kind="stream", inbox_id=number)
        await store.outbox.mark_sending(row, by="us", now=NOW)
        await store.outbox.mark_streaming(row, "p")
        await store.inbox.answer(
            (number,), (draft("reply", inbox_id=number),), None, NOW, stream_id=row
        )
        await store.outbox.mark_streaming(row, "p")
        assert await states(store, "reply") == ["pending"]
        assert await due(store) == ["reply"]
