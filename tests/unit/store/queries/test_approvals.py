"""Approvals that other processes see and answer, and the log of all sessions after a message."""

import asyncio

from hermes.core.messages import Assistant, Text, ToolResult, User

NOW, UNTIL = 1_000.0, 1_030.0


async def ask(store, token="t1", owner="us"):
    await store.approvals.ask(token, b'{"q": 1}', owner, now=NOW, until=UNTIL)


class TestApprovals:
    async def test_open_question_is_answered_once(self, store):
        await ask(store)
        (row,) = await store.approvals.unresolved()
        assert (row.token, row.kind, row.body, row.owner) == ("t1", "asked", b'{"q": 1}', "us")
        answers = await asyncio.gather(
            *(store.approvals.answer("t1", words, "them", NOW) for words in (b"once", b"deny"))
        )
        assert sorted(answers) == [False, True]
        assert set(await store.approvals.get("t1")) == {"asked", "answer"}

    async def test_question_that_was_not_asked_cannot_be_answered(self, store):
        assert not await store.approvals.answer("t9", b"once", "them", NOW)
        assert await store.approvals.get("t9") == {}

    async def test_expired_question_cannot_be_answered_unless_it_was_extended(self, store):
        await ask(store)
        assert not await store.approvals.answer("t1", b"once", "them", UNTIL)
        await store.approvals.renew("t1", UNTIL + 30)
        assert await store.approvals.answer("t1", b"once", "them", UNTIL)

    async def test_resolved_question_cannot_be_answered_or_resolved_again(self, store):
        await ask(store)
        assert await store.approvals.resolve("t1", b'{"answer": "deny"}', "us", NOW)
        assert not await store.approvals.resolve("t1", b'{"answer": "once"}', "us", NOW)
        assert not await store.approvals.answer("t1", b"once", "them", NOW)
        assert await store.approvals.unresolved() == ()
        assert (await store.approvals.get("t1"))["resolved"].body == b'{"answer": "deny"}'

    async def test_rows_continue_after_an_id(self, store):
        for token in ("t1", "t2"):
            await ask(store, token)
        await store.approvals.resolve("t1", b"{}", "us", NOW)
        rows = await store.approvals.since(0, NOW + 99)
        kinds = [(row.token, row.kind) for row in rows]
        assert kinds == [("t1", "asked"), ("t2", "asked"), ("t1", "resolved")]
        assert await store.approvals.since(rows[0].id, NOW + 99) == rows[1:]
        assert [row.token for row in await store.approvals.unresolved()] == ["t2"]

    async def test_old_approvals_are_cleaned_with_the_queues(self, store):
        await ask(store)
        await store.clean_queues(NOW)
        assert await store.approvals.unresolved()
        await store.clean_queues(NOW + 1)
        assert await store.approvals.newest_id() == 0


class TestLogSince:
    async def test_log_of_all_sessions_continues_after_an_id(self, store):
        for name in ("a", "b"):
            await store.create(name, source="cli", model="m", system_prompt="")
        first = await store.append("a", User.say("hello"))
        await store.append("b", User.say("other"))
        await store.append("b", ToolResult("c", "terminal", "output"))
        last = await store.append("b", Assistant((Text("answer"),)))
        entries, reached = await store.log_since(first, float("inf"))
        shown = [(each.session_id, each.source, each.logged.message.text) for each in entries]
        assert shown == [("b", "cli", "other"), ("b", "cli", "answer")]
        assert reached == last == await store.newest_message_id()
        assert await store.log_since(last, float("inf")) == ((), last)

    async def test_message_behind_a_recent_gap_waits(self, store):
        """In PostgreSQL, a transaction that took a lower id may be committed later."""
        moment = NOW
        store.now = lambda: moment
        for name in ("a", "b"):
            await store.create(name, source="cli", model="m", system_prompt="")
        first = await store.append("a", User.say("one"))
        await store.append("b", User.say("deleted"))
        third = await store.append("a", User.say("three"))
        await store.delete("b")
        assert await store.log_since(first, moment + 1) == ((), first)
        entries, reached = await store.log_since(first, moment + 6)
        assert [each.logged.id for each in entries] == [third]
        assert reached == third
