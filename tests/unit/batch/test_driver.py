"""Runs in one process: what is stored, and how they continue."""

import asyncio
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from hermes.batch import BatchRun, RunOptions, RunOutcome, read_items, read_run
from hermes.core.errors import HermesError, UsageError
from tests.fakes.batch_work import CALL_USD, CountingServer, LineSpec, counts, lines_of, numbered

LOCAL = RunOptions(concurrency=8, processes=0, stop_seconds=5.0)


async def execute(folder: Path, spec: LineSpec, **more) -> RunOutcome:
    options = msgspec.structs.replace(LOCAL, **more)
    async with BatchRun(folder, spec, options) as run:
        return await run.execute()


async def test_every_item_ends_in_one_state_and_finished_ones_have_a_line(tmp_path: Path) -> None:
    rows = (*numbered(25), {"do": "fail"}, {"do": "discard"}, {"do": "raise"})
    reports = []
    async with BatchRun(tmp_path, LineSpec(rows=rows, repeats=2), LOCAL, reports.append) as run:
        outcome = await run.execute()
    expected = counts(0, 0, 50, 2, 4)
    assert (outcome.ended, outcome.counts) == ("complete", expected)
    assert reports[-1].counts == expected
    assert (reports[-1].total, reports[-1].finished, reports[-1].eta_seconds) == (56, 56, 0.0)
    lines = Counter((line["row"]["n"], line["repeat"]) for line in lines_of(tmp_path))
    assert lines == Counter((n, repeat) for n in range(25) for repeat in (0, 1))
    for record in read_items(tmp_path, "failed"):
        if record.index == 25:
            assert (record.reason, record.boundary) == ("asked to fail", "task")
        else:
            assert (record.reason, record.boundary) == ("ValueError: a bug", "harness")
    status = read_run(tmp_path)
    assert (status.kind, status.counts, status.total) == ("lines", expected, 56)
    assert not status.running
    assert status.reasons["asked to discard"] == 2
    sizes = {file.name: file.stat().st_size for file in tmp_path.glob("batch_*")}
    assert status.files == sizes
    assert len(sizes) == 3


async def test_repeated_rows_are_all_done(tmp_path: Path) -> None:
    outcome = await execute(tmp_path, LineSpec(rows=({"n": 1}, {"n": 2}, {"n": 1}, {"n": 1})))
    assert outcome.counts["done"] == 4
    assert Counter(line["row"]["n"] for line in lines_of(tmp_path)) == {1: 3, 2: 1}


async def test_ended_items_are_not_run_again_and_failed_ones_only_when_asked(tmp_path) -> None:
    rows = (*numbered(3), {"do": "fail"}, {"do": "discard"})
    with CountingServer() as server:
        spec = LineSpec(rows=rows, calls=1, port=server.port)
        first = await execute(tmp_path, spec)
        before = {file.name: file.read_bytes() for file in tmp_path.glob("batch_*")}
        again = await execute(tmp_path, spec)
        assert again.counts == first.counts
        assert server.asked.total() == 5
        retried = await execute(tmp_path, spec, retry_failed=True)
        assert retried.counts == first.counts
        assert server.asked.total() == 6
    assert {file.name: file.read_bytes() for file in tmp_path.glob("batch_*")} == before
    (failed,) = read_items(tmp_path, "failed")
    assert failed.attempts == 2
    assert retried.cost_usd == pytest.approx(6 * CALL_USD)


async def test_rows_may_be_added_and_removed(tmp_path: Path) -> None:
    await execute(tmp_path, LineSpec(rows=numbered(5)))
    outcome = await execute(tmp_path, LineSpec(rows=numbered(12)[2:]))
    assert (outcome.dataset.new, outcome.dataset.missing) == (7, 2)
    assert outcome.counts["done"] == 10
    assert sorted(line["row"]["n"] for line in lines_of(tmp_path)) == list(range(12))
    assert read_run(tmp_path).missing == 2


async def test_other_settings_are_refused(tmp_path: Path) -> None:
    await execute(tmp_path, LineSpec(rows=numbered(2)))
    with pytest.raises(UsageError, match="other settings") as refused:
        await execute(tmp_path, LineSpec(rows=numbered(2), setting="new"))
    assert "another name" in refused.value.hint


async def test_second_driver_is_refused(tmp_path: Path) -> None:
    spec = LineSpec(rows=numbered(2))
    async with BatchRun(tmp_path, spec, LOCAL) as run:
        with pytest.raises(UsageError, match="another process works on the run"):
            await execute(tmp_path, spec)
        assert read_run(tmp_path).running
        assert (await run.execute()).ended == "complete"


async def test_key_of_the_endpoint_is_not_stored(tmp_path: Path) -> None:
    await execute(tmp_path, LineSpec(rows=numbered(1), api_key="secret-key-1"))
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"secret-key-1" not in file.read_bytes()
    assert "api_key" not in read_run(tmp_path).spec


async def test_job_that_cannot_be_opened_ends_the_run_with_its_error(tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="the job is broken") as error:
        await execute(tmp_path, LineSpec(rows=numbered(2), broken=True))
    assert error.value.hint == "mend it"
    assert read_run(tmp_path).counts["pending"] == 2


async def test_folder_without_a_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run in"):
        read_run(tmp_path / "nothing")


async def test_stopped_run_waits_for_running_calls_and_pays_none_of_them_again(tmp_path) -> None:
    with CountingServer(delay=0.05) as server:
        spec = LineSpec(rows=numbered(30), calls=3, port=server.port)
        async with BatchRun(tmp_path, spec, LOCAL) as run:
            executing = asyncio.ensure_future(run.execute())
            await asyncio.to_thread(server.wait_for_calls, 30)
            run.stop()
            outcome = await executing
        assert outcome.ended == "interrupted"
        assert outcome.counts["leased"] == 0
        assert 0 < outcome.counts["pending"] < 30
        assert server.answered == server.asked, "running calls were answered"
        assert server.empty == 0, "no more calls began"
        assert outcome.cost_usd == pytest.approx(server.asked.total() * CALL_USD)
        outcome = await execute(tmp_path, spec)
        assert set(server.asked.values()) == {1}
    assert (outcome.ended, outcome.counts["done"]) == ("complete", 30)
    assert outcome.cost_usd == pytest.approx(90 * CALL_USD)
    for line in lines_of(tmp_path):
        assert line["replies"] == [f"reply 1 to {line['key']} {n}" for n in range(3)]


async def test_calls_that_are_not_answered_in_time_are_cancelled(tmp_path: Path) -> None:
    with CountingServer() as server:
        server.hold.add("*")
        spec = LineSpec(rows=numbered(3), calls=1, port=server.port)
        options = msgspec.structs.replace(LOCAL, stop_seconds=0.1)
        async with BatchRun(tmp_path, spec, options) as run:
            executing = asyncio.ensure_future(run.execute())
            await asyncio.to_thread(server.wait_for_calls, 3)
            run.stop()
            assert (await executing).counts["pending"] == 3


async def test_run_stops_at_its_budget_and_a_larger_one_continues_it(tmp_path: Path) -> None:
    with CountingServer() as server:
        spec = LineSpec(rows=numbered(20), calls=2, port=server.port)
        outcome = await execute(tmp_path, spec, budget_usd=0.205)
        assert outcome.ended == "budget"
        spent = server.answered.total() * CALL_USD
        assert outcome.cost_usd == pytest.approx(spent)
        assert 0.18 < spent < 0.205
        assert outcome.counts["leased"] == 0
        assert outcome.counts["pending"] + outcome.counts["done"] == 20
        asked = server.asked.total()
        again = await execute(tmp_path, spec, budget_usd=0.205)
        assert (again.ended, server.asked.total()) == ("budget", asked), "nothing is left"
        outcome = await execute(tmp_path, spec, budget_usd=5.0)
        assert set(server.asked.values()) == {1}, "no call was paid for twice"
    assert (outcome.ended, outcome.counts["done"]) == ("complete", 20)
    assert outcome.cost_usd == pytest.approx(40 * CALL_USD)


async def test_budget_without_a_known_price_is_refused_before_the_first_call(tmp_path) -> None:
    with pytest.raises(UsageError, match="price of the model is not known"):
        await execute(tmp_path, LineSpec(rows=numbered(1), max_tokens=None), budget_usd=1.0)


async def test_spending_is_remembered_without_the_journal(tmp_path: Path) -> None:
    with CountingServer() as server:
        spec = LineSpec(rows=numbered(4), calls=1, port=server.port)
        await execute(tmp_path, spec)
        (tmp_path / "journal.jsonl").unlink()
        assert (await execute(tmp_path, spec)).cost_usd == pytest.approx(4 * CALL_USD)
        assert read_run(tmp_path).cost_usd == pytest.approx(4 * CALL_USD)
