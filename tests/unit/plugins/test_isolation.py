"""Providers that raise, hang or are slow: the conversation continues, with one report."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from hermes.core.errors import StoreError, ToolError, ToolTimedOut
from hermes.plugins.isolation import IsolatedThread, IsolationLimits

LIMITS = IsolationLimits(max_queued=3)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What a hanging call waits for, so that no thread outlives the test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def worker(told: list[str]) -> Iterator[IsolatedThread]:
    worker = IsolatedThread("the memory provider slow", LIMITS, told.append)
    yield worker
    worker.close()


def test_a_result_comes_back_from_a_thread_of_the_provider_s_own(worker: IsolatedThread) -> None:
    threads = [worker.call("ask", threading.current_thread, 60) for _ in range(2)]
    assert threads[0] is threads[1]
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


def test_posted_and_awaited_calls_run_in_order(worker: IsolatedThread) -> None:
    order: list[int] = []
    for number in range(3):
        assert worker.post("note", lambda number=number: order.append(number))
    worker.call("last", lambda: order.append(3), 60)
    assert order == [0, 1, 2, 3]


def test_raising_call_is_reported_once(worker: IsolatedThread, told: list[str]) -> None:
    def fail() -> None:
        raise ValueError("no such\nuser")

    for _ in range(3):
        with pytest.raises(ToolError, match="slow failed: ValueError: no such user"):
            worker.call("prefetch", fail, 60)
    worker.post("sync_turn", fail)
    worker.call("next", lambda: None, 60)
    assert told == ["the memory provider slow failed (prefetch): ValueError: no such user"]
    assert not worker.disabled_reason


def test_system_exit_does_not_end_the_program(worker: IsolatedThread) -> None:
    with pytest.raises(ToolError, match="wanted to end the program"):
        worker.call("prefetch", lambda: sys.exit(3), 60)
    assert worker.call("next", lambda: 1, 60) == 1


def test_hanging_call_is_skipped_and_disabled_after_three_times(worker, told, release):
    worker.call("initialize", lambda: None, 60)  # The thread runs before the call that hangs.
    with pytest.raises(ToolTimedOut, match="did not answer within 1 s"):
        worker.call("prefetch", release.wait, 1)
    assert told[0] == (
        "the memory provider slow did not answer within 1 s (prefetch); "
        "the conversation continues without it"
    )
    # It still hangs: later calls do not wait the whole limit again.
    for _ in range(2):
        with pytest.raises(ToolTimedOut, match="still busy with prefetch"):
            worker.call("prefetch", release.wait, 600)
    assert len(told) == 1, "the user knows"
    assert worker.disabled_reason == "it is still busy with prefetch"
    with pytest.raises(ToolError, match="is switched off"):
        worker.call("prefetch", lambda: 1, 600)
    assert not worker.post("sync_turn", lambda: None)


def test_an_answer_in_time_starts_the_count_again(worker, release):
    for _ in range(4):
        gate = threading.Event()
        with pytest.raises(ToolTimedOut):
            worker.call("prefetch", gate.wait, 0.05)
        gate.set()
        while worker._current is not None:
            time.sleep(0.001)
        assert worker.call("prefetch", lambda: "here", 60) == "here"
    assert not worker.disabled_reason


def test_a_call_that_was_given_up_before_its_turn_is_never_made(told, release):
    worker = IsolatedThread(
        "the memory provider slow", IsolationLimits(background=600, max_timeouts=9), told.append
    )
    made: list[str] = []
    worker.post("sync_turn", release.wait)
    with pytest.raises(ToolTimedOut):
        worker.call("prefetch", lambda: made.append("late"), 0.05)
    release.set()
    worker.call("next", lambda: made.append("next"), 60)
    assert made == ["next"]
    worker.close()


def test_queue_is_bounded_and_further_calls_are_dropped(worker, told, release):
    started = threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    worker.post("sync_turn", hang)
    started.wait()
    assert [worker.post("sync_turn", lambda: None) for _ in range(5)] == [True] * 3 + [False] * 2
    assert told == [
        "the memory provider slow cannot keep up; part of this conversation is not stored by it"
    ]


def test_queued_calls_are_dropped_when_the_worker_is_disabled(worker: IsolatedThread) -> None:
    gate, made = threading.Event(), []
    worker.post("sync_turn", gate.wait)
    worker.post("sync_turn", lambda: made.append(1))
    worker.disable("enough")
    gate.set()
    thread = worker._thread
    assert thread is not None
    thread.join()
    assert made == []


def test_an_error_that_cannot_say_what_it_is_breaks_nothing(worker, told):
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even that")

    def fail() -> None:
        raise Mute

    with pytest.raises(ToolError, match="slow failed: Mute"):
        worker.call("prefetch", fail, 60)
    assert worker.call("next", lambda: 1, 60) == 1
    assert told == ["the memory provider slow failed (prefetch): Mute: <exception str() failed>"]


def test_hermes_error_is_reported_with_its_hint(worker: IsolatedThread, told: list[str]) -> None:
    def fail() -> None:
        raise StoreError("the facts cannot be used", hint="free some room")

    with pytest.raises(
        ToolError, match=r"slow failed: the facts cannot be used \(free some room\)"
    ):
        worker.call("prefetch", fail, 60)
    assert "StoreError" not in told[0]
