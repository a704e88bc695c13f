"""Answers that may be asked for again. The same holds for PostgreSQL: see tests/integration."""

import asyncio

from hermes.store.records import MAX_RESPONSES, StoredResponse


class TestResponses:
    async def test_an_answer_comes_back_as_it_was_given(self, store):
        given = StoredResponse("r1", b'{"text":"\xc3\xa9"}', "s", "talk", "r0", 5.0)
        await store.responses.save(given, 9.0)
        assert await store.responses.get("r1", 10.0) == given
        assert await store.responses.get("r2", 10.0) is None
        assert [await store.responses.delete("r1"), await store.responses.delete("r1")] == [
            True,
            False,
        ]
        assert await store.responses.get("r1", 10.0) is None

    async def test_an_answer_may_be_saved_again_when_it_is_complete(self, store):
        await store.responses.save(StoredResponse("r", b'"begun"', "s"), 1.0)
        await store.responses.save(StoredResponse("r", b'"whole"', "s2", "talk"), 2.0)
        whole = StoredResponse("r", b'"whole"', "s2", "talk", created_at=2.0)
        assert await store.responses.get("r", 3.0) == whole

    async def test_a_named_conversation_goes_on_from_its_newest_answer(self, store):
        for number, name in enumerate(("a", "b", "a", "")):
            await store.responses.save(StoredResponse(f"r{number}", b"{}", "s", name), number)
        assert (await store.responses.last("a", 9.0)).id == "r2"
        assert (await store.responses.last("b", 9.0)).id == "r1"
        assert await store.responses.last("c", 9.0) is None
        assert await store.responses.last("", 9.0) is None

    async def test_the_answers_used_longest_ago_are_forgotten(self, store):
        saved = [StoredResponse(f"r{n}", b"{}", "s", f"talk {n}") for n in range(MAX_RESPONSES)]
        await asyncio.gather(*(store.responses.save(one, n) for n, one in enumerate(saved)))
        await store.responses.get("r0", 500.0)
        await store.responses.last("talk 1", 501.0)
        for number in (1000, 1001):
            await store.responses.save(StoredResponse(f"r{number}", b"{}", "s"), number)
        kept = [one.id for one in saved if await store.responses.delete(one.id)]
        assert kept == ["r0", "r1", *(f"r{n}" for n in range(4, MAX_RESPONSES))]
