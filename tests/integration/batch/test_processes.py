"""Runs with worker processes: the same files, and processes that are killed or hang."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from hermes.batch import BatchRun, RunOptions, RunOutcome, read_items, read_run
from hermes.core.errors import HermesError
from tests.fakes.batch_driver import Session
from tests.fakes.batch_work import CALL_USD, CountingServer, LineSpec, counts, lines_of, numbered

ROOT = Path(__file__).parents[3]
TWO = RunOptions(concurrency=8, processes=2, stop_seconds=5.0)


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # worker processes import the tests


async def execute(folder: Path, spec: LineSpec, options: RunOptions = TWO, **more) -> RunOutcome:
    async with BatchRun(folder, spec, msgspec.structs.replace(options, **more)) as run:
        return await run.execute()


def sorted_lines(folder: Path) -> dict[str, list[bytes]]:
    files = folder.glob("batch_*_output.jsonl")
    return {file.name: sorted(file.read_bytes().splitlines()) for file in files}


StartDriver = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_driver() -> Iterator[StartDriver]:
    """Starts driver processes, which end with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, spec: LineSpec, options: RunOptions = TWO) -> subprocess.Popen[str]:
        session = msgspec.json.encode(Session(str(folder), spec, options)).decode()
        command = [sys.executable, "-m", "tests.fakes.batch_driver", session]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for driver in started:
        if driver.poll() is None:
            driver.kill()
            driver.communicate()


def workers_of(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [p for p in psutil.Process(pid).children() if "hermes.batch.worker" in p.cmdline()]
    return []


def wait_for_the_end(processes: list[psutil.Process]) -> None:
    """The system may reap them later."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            while process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)


async def test_files_are_those_of_a_run_in_one_process(tmp_path: Path) -> None:
    rows = (*numbered(40), {"do": "fail"}, {"do": "discard"}, *numbered(3))
    with CountingServer() as server:
        spec = LineSpec(rows=rows, calls=2, port=server.port, repeats=2)
        one = await execute(tmp_path / "one", spec, processes=0)
        two = await execute(tmp_path / "two", spec)
    assert one.counts == two.counts == counts(0, 0, 86, 2, 2)
    replies = {line["key"]: line["replies"] for line in lines_of(tmp_path / "one")}
    for line in lines_of(tmp_path / "two"):  # the server numbers its replies
        assert len(line["replies"]) == len(replies[line["key"]])
    plain = LineSpec(rows=rows, repeats=2)
    await execute(tmp_path / "three", plain, processes=0)
    await execute(tmp_path / "four", plain)
    assert sorted_lines(tmp_path / "three") == sorted_lines(tmp_path / "four")
    assert {record.worker for record in read_items(tmp_path / "two")} == {"worker-1", "worker-2"}
    assert not (tmp_path / "two" / "logs").exists(), "the workers printed nothing"


async def test_items_of_a_killed_worker_are_done_by_others_without_new_calls(tmp_path) -> None:
    with CountingServer(delay=0.02) as server:
        spec = LineSpec(rows=numbered(60), calls=3, port=server.port)
        async with BatchRun(tmp_path, spec, TWO) as run:
            executing = asyncio.ensure_future(run.execute())
            for calls in (30, 80):
                await asyncio.to_thread(server.wait_for_calls, calls)
                workers_of(os.getpid())[0].kill()
            outcome = await executing
    assert (outcome.ended, outcome.counts["done"]) == ("complete", 60)
    assert len(lines_of(tmp_path)) == 60
    # Each kill can lose the calls that were running: one for each item of the worker.
    assert server.asked.total() <= 180 + 2 * 4
    repeated = [record for record in read_items(tmp_path) if record.attempts > 1]
    assert 0 < len(repeated) <= 8
    assert all(record.crashes == record.attempts - 1 for record in repeated)


async def test_item_that_ends_its_workers_fails_and_the_others_are_done(tmp_path: Path) -> None:
    rows = (*numbered(20), {"do": "exit"}, *numbered(20))
    outcome = await execute(tmp_path, LineSpec(rows=rows), concurrency=16)
    assert outcome.counts == counts(0, 0, 40, 0, 1)
    (failed,) = read_items(tmp_path, "failed")
    assert (failed.index, failed.boundary) == (20, "harness")
    assert "exit code 3" in failed.reason
    assert failed.attempts >= 3


async def test_worker_that_is_silent_is_replaced(tmp_path: Path) -> None:
    with CountingServer() as server:
        spec = LineSpec(rows=numbered(10), calls=1, port=server.port)
        server.hold.add("*")
        async with BatchRun(tmp_path, spec, msgspec.structs.replace(TWO, lease_seconds=6.0)) as run:
            executing = asyncio.ensure_future(run.execute())
            await asyncio.to_thread(server.wait_for_calls, 8)
            stopped = workers_of(os.getpid())[0]
            stopped.suspend()
            server.hold.clear()
            for worker in workers_of(os.getpid()):
                if worker != stopped:
                    worker.kill()  # its calls are not answered any more
            outcome = await executing
        assert not stopped.is_running() or stopped.status() == psutil.STATUS_ZOMBIE
    assert (outcome.ended, outcome.counts["done"]) == ("complete", 10)


async def test_worker_that_cannot_start_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="the job is broken") as error:
        await execute(tmp_path, LineSpec(rows=numbered(2), broken=True))
    assert error.value.hint == "mend it"
    assert "UsageError" in (tmp_path / "logs" / "worker-1.log").read_text()


async def test_two_processes_together_stay_within_the_budget(tmp_path: Path) -> None:
    with CountingServer(delay=0.005) as server:
        spec = LineSpec(rows=numbered(60), calls=2, port=server.port)
        for budget in (0.30, 0.70):
            outcome = await execute(tmp_path, spec, budget_usd=budget, concurrency=30)
            assert outcome.ended == "budget"
            assert server.asked.total() * CALL_USD <= budget
            assert outcome.cost_usd == pytest.approx(server.asked.total() * CALL_USD)
            assert outcome.cost_usd > budget - 0.02, "the budget was used"
        outcome = await execute(tmp_path, spec, budget_usd=1.3)
        assert set(server.asked.values()) == {1}
    assert (outcome.ended, outcome.counts["done"]) == ("complete", 60)


def test_driver_killed_at_random_moments_loses_and_repeats_nothing(tmp_path, start_driver) -> None:
    chance = random.Random(7)
    with CountingServer(delay=0.01) as server:
        spec = LineSpec(rows=(*numbered(150), *numbered(50)), calls=3, port=server.port)
        allowed = 0
        for _ in range(5):
            driver = start_driver(tmp_path, spec)
            target = server.asked.total() + chance.randint(5, 90)
            server.wait_for_calls(target)
            time.sleep(chance.random() * 0.1)
            workers = workers_of(driver.pid)
            driver.kill()
            driver.communicate()
            wait_for_the_end(workers)
            allowed += TWO.concurrency
        assert 0 < read_run(tmp_path).counts["done"] < 200
        driver = start_driver(tmp_path, spec)
        output, errors = driver.communicate(timeout=60)
        assert (driver.returncode, output.splitlines()[-1]) == (0, "complete"), errors
        asked_again = sum(count - 1 for count in server.asked.values())
    assert asked_again <= allowed, "only calls that were running may be repeated"
    lines = lines_of(tmp_path)
    records = list(read_items(tmp_path))
    assert read_run(tmp_path).counts == counts(0, 0, 200, 0, 0)
    assert Counter(line["key"] for line in lines) == Counter(record.key for record in records)
    assert all(record.crashes == 0 for record in records)


def test_budget_holds_although_the_driver_is_killed(tmp_path: Path, start_driver) -> None:
    budget = 0.8
    options = msgspec.structs.replace(TWO, budget_usd=budget)
    with CountingServer(delay=0.01) as server:
        spec = LineSpec(rows=numbered(100), calls=2, port=server.port)
        for calls in (20, 40):
            driver = start_driver(tmp_path, spec, options)
            server.wait_for_calls(calls)
            driver.kill()
            driver.communicate()
        driver = start_driver(tmp_path, spec, options)
        output, errors = driver.communicate(timeout=60)
        assert output.splitlines()[-1] == "budget", errors
        assert server.asked.total() * CALL_USD <= budget
    assert read_run(tmp_path).cost_usd <= budget


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_the_run_and_a_later_one_completes_it(tmp_path, start_driver, number) -> None:
    with CountingServer(delay=0.02) as server:
        spec = LineSpec(rows=numbered(80), calls=3, port=server.port)
        driver = start_driver(tmp_path, spec)
        server.wait_for_calls(40)
        driver.send_signal(number)
        output, errors = driver.communicate(timeout=60)
        assert (driver.returncode, output.splitlines()[-1]) == (0, "interrupted"), errors
        assert not errors
        status = read_run(tmp_path)
        assert (status.counts["leased"], status.running) == (0, False)
        driver = start_driver(tmp_path, spec)
        output, _ = driver.communicate(timeout=60)
        assert output.splitlines()[-1] == "complete"
        assert set(server.asked.values()) == {1}
    assert len(lines_of(tmp_path)) == 80


def test_second_signal_ends_the_process_at_once(tmp_path: Path, start_driver) -> None:
    with CountingServer() as server:
        server.hold.add("*")
        spec = LineSpec(rows=numbered(4), calls=1, port=server.port)
        driver = start_driver(tmp_path, spec, msgspec.structs.replace(TWO, stop_seconds=100.0))
        server.wait_for_calls(4)
        workers = workers_of(driver.pid)
        driver.send_signal(signal.SIGINT)
        while driver.poll() is None:
            time.sleep(0.2)
            driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=20) == 130
        driver.communicate()
        wait_for_the_end(workers)
