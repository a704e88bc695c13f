"""Claimed runs of scheduled jobs, shared jobs and kept API responses."""

import asyncio

import msgspec
import pytest

from hermes.core.errors import LeaseLost, StoreConflict
from hermes.store.records import MAX_RESPONSES, Run, StoredJob, StoredResponse

NOW = 1_000.0
LATER = 2_000.0


def changed(run, **facts):
    return msgspec.structs.replace(run, **facts)


class TestRuns:
    async def test_an_instant_is_claimed_once(self, store):
        run = await store.runs.claim("job", 960.5, "us", NOW, LATER)
        assert run == Run("job", 960.5, "claimed", "us", LATER, fence=1, claimed_at=NOW)
        assert await store.runs.claim("job", 960.5, "us", NOW, LATER) is None
        assert await store.runs.claim("job", 960.5, "them", LATER, LATER) is None
        assert await store.runs.claim("job", 1020.5, "them", NOW, LATER)
        assert await store.runs.claim("other", 960.5, "them", NOW, LATER)
        assert (await store.runs.history("job"))[1] == run

    async def test_a_run_is_reported_by_who_has_it(self, store):
        run = await store.runs.claim("job", 960.0, "us", NOW, LATER)
        await store.runs.renew("us", LATER + 50)
        run = changed(run, state="running", started_at=NOW, session_id="s")
        await store.runs.report(run)
        done = changed(run, state="ok", ended_at=NOW + 5, output="o.md", delivered="sent")
        await store.runs.report(done)
        (kept,) = await store.runs.history()
        assert kept == changed(done, lease_until=LATER + 50)
        for foreign in (changed(done, owner="them"), changed(done, fence=2)):
            with pytest.raises(LeaseLost) as caught:
                await store.runs.report(changed(foreign, error="late"))
            assert caught.value.hint
        assert (await store.runs.history())[0].error == ""

    async def test_runs_of_the_dead_and_the_late_are_taken_over(self, store):
        await store.runs.claim("dead", 960.0, "gone", NOW, LATER)
        await store.runs.claim("late", 900.0, "slow", NOW, NOW + 1)
        await store.runs.claim("fine", 960.0, "well", NOW, LATER)
        await store.runs.claim("mine", 960.0, "us", NOW, NOW + 1)
        over = await store.runs.claim("over", 960.0, "gone", NOW, LATER)
        await store.runs.report(changed(over, state="ok", ended_at=NOW))
        slow = (await store.runs.history("late"))[0]
        await store.runs.report(changed(slow, state="running", started_at=NOW))
        taken = await store.runs.take_over("us", NOW + 1, LATER, dead=("gone", "x"))
        assert [(run.job_id, run.state, run.fence, run.attempt) for run in taken] == [
            ("late", "running", 2, 2),
            ("dead", "claimed", 2, 2),
        ]
        assert {(run.owner, run.lease_until, run.claimed_at) for run in taken} == {
            ("us", LATER, NOW + 1)
        }
        assert await store.runs.take_over("us", NOW + 1, LATER) == ()
        with pytest.raises(LeaseLost):
            await store.runs.report(changed(slow, state="ok"))
        await store.runs.report(changed(taken[0], state="lost", ended_at=NOW + 1))
        assert await store.runs.owners() == ("us", "well")
        assert await store.runs.renew("us", LATER + 9) == 2

    async def test_an_instant_that_is_not_run_is_known_too(self, store):
        missed = Run("job", 960.0, "missed", ended_at=NOW)
        assert await store.runs.record(missed)
        assert not await store.runs.record(changed(missed, state="skipped"))
        assert await store.runs.claim("job", 960.0, "us", NOW, LATER) is None
        assert await store.runs.history() == (missed,)
        assert await store.runs.owners() == ()

    async def test_history_is_newest_first_and_forgotten_in_time(self, store):
        for instant in range(6):
            await store.runs.record(Run("job", float(instant), "ok", ended_at=10.0 + instant))
        await store.runs.record(Run("other", 0.0, "missed"))
        await store.runs.claim("job", -1.0, "us", NOW, LATER)
        assert [run.instant for run in await store.runs.history("job", limit=2)] == [5.0, 4.0]
        assert await store.runs.clean(14.0, keep=3) == 3
        assert [run.instant for run in await store.runs.history("job")] == [5.0, 4.0, 3.0, -1.0]
        assert await store.runs.clean(14.0, keep=0) == 2
        assert [(run.job_id, run.instant) for run in await store.runs.history()] == [
            ("job", 5.0), ("job", 4.0), ("job", -1.0),
        ]  # fmt: skip


class TestJobs:
    async def test_a_job_is_changed_by_who_knows_it_as_it_is(self, store):
        assert await store.runs.save_job("b", b'{"n":1}', None) == 1
        assert await store.runs.save_job("a", b'{"name":"\xc3\xa9"}', None) == 1
        assert await store.runs.save_job("b", b'{"n":2}', 1) == 2
        for version in (None, 1, 3):
            with pytest.raises(StoreConflict) as caught:
                await store.runs.save_job("b", b'{"n":9}', version)
            assert caught.value.hint
        with pytest.raises(StoreConflict):
            await store.runs.save_job("unknown", b"{}", 1)
        assert await store.runs.jobs() == (
            StoredJob("a", b'{"name":"\xc3\xa9"}', 1),
            StoredJob("b", b'{"n":2}', 2),
        )
        assert [await store.runs.delete_job("b"), await store.runs.delete_job("b")] == [True, False]
        assert [job.id for job in await store.runs.jobs()] == ["a"]


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

    async def test_named_conversation_continues_from_its_newest_answer(self, store):
        for number, name in enumerate(("a", "b", "a", "")):
            await store.responses.save(StoredResponse(f"r{number}", b"{}", "s", name), number)
        assert (await store.responses.last("a", 9.0)).id == "r2"
        assert (await store.responses.last("b", 9.0)).id == "r1"
        assert await store.responses.last("c", 9.0) is None
        assert await store.responses.last("", 9.0) is None

    async def test_answer_of_a_server_whose_clock_is_behind_is_the_newest(self, store):
        for name, created in (("ahead", 100.0), ("behind", 97.0)):
            await store.responses.save(
                StoredResponse(name, b"{}", "s", "talk", created_at=created), created
            )
        assert (await store.responses.last("talk", 101.0)).id == "behind"

    async def test_the_answers_used_longest_ago_are_forgotten(self, store):
        saved = [StoredResponse(f"r{n}", b"{}", "s", f"talk {n}") for n in range(MAX_RESPONSES)]
        await asyncio.gather(*(store.responses.save(one, n) for n, one in enumerate(saved)))
        await store.responses.get("r0", 500.0)
        await store.responses.last("talk 1", 501.0)
        for number in (1000, 1001):
            await store.responses.save(StoredResponse(f"r{number}", b"{}", "s"), number)
        kept = [one.id for one in saved if await store.responses.delete(one.id)]
        assert kept == ["r0", "r1", *(f"r{n}" for n in range(4, MAX_RESPONSES))]
