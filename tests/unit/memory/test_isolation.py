"""Providers that raise, hang or are slow: the conversation goes on, the user is told once."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from hermes.core.errors import StoreError, ToolError, ToolTimedOut
from hermes.memory.isolation import IsolatedThread, ProviderLimits

LIMITS = ProviderLimits(waiting=3)


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
def apart(told: list[str]) -> Iterator[IsolatedThread]:
    apart = IsolatedThread("slow", LIMITS, told.append)
    yield apart
    apart.close()


def test_a_result_comes_back_from_a_thread_of_the_provider_s_own(apart: IsolatedThread) -> None:
    threads = [apart.call("ask", threading.current_thread, 60) for _ in range(2)]
    assert threads[0] is threads[1]
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


def test_calls_come_in_order_also_those_nobody_waits_for(apart: IsolatedThread) -> None:
    order: list[int] = []
    for number in range(3):
        assert apart.later("note", lambda number=number: order.append(number))
    apart.call("last", lambda: order.append(3), 60)
    assert order == [0, 1, 2, 3]


def test_one_that_raises_is_told_once(apart: IsolatedThread, told: list[str]) -> None:
    def fail() -> None:
        raise ValueError("no such\nuser")

    for _ in range(3):
        with pytest.raises(ToolError, match="slow failed: ValueError: no such user"):
            apart.call("prefetch", fail, 60)
    apart.later("sync_turn", fail)
    apart.call("next", lambda: None, 60)
    assert told == ["the memory provider slow failed (prefetch): ValueError: no such user"]
    assert not apart.off


def test_one_that_ends_the_program_does_not(apart: IsolatedThread) -> None:
    with pytest.raises(ToolError, match="SystemExit: 3"):
        apart.call("prefetch", lambda: sys.exit(3), 60)
    assert apart.call("next", lambda: 1, 60) == 1


def test_one_that_hangs_is_skipped_and_switched_off_after_three_times(
    apart: IsolatedThread, told: list[str], release: threading.Event
) -> None:
    # Long enough for its thread to begin, also on a busy machine: else nothing would hang.
    with pytest.raises(ToolTimedOut, match="did not answer within 1 s"):
        apart.call("prefetch", release.wait, 1)
    assert told[0] == (
        "the memory provider slow did not answer within 1 s (prefetch); "
        "the conversation goes on without it"
    )
    # It is still hanging: nobody waits a whole limit again.
    for _ in range(2):
        with pytest.raises(ToolTimedOut, match="still busy with prefetch"):
            apart.call("prefetch", release.wait, 600)
    assert len(told) == 1, "the user knows"
    assert apart.off == "it is still busy with prefetch"
    with pytest.raises(ToolError, match="is switched off"):
        apart.call("prefetch", lambda: 1, 600)
    assert not apart.later("sync_turn", lambda: None)


def test_an_answer_in_time_starts_the_count_again(
    apart: IsolatedThread, release: threading.Event
) -> None:
    for _ in range(4):
        gate = threading.Event()
        with pytest.raises(ToolTimedOut):
            apart.call("prefetch", gate.wait, 0.05)
        gate.set()
        while apart._current is not None:
            time.sleep(0.001)
        assert apart.call("prefetch", lambda: "here", 60) == "here"
    assert not apart.off


def test_a_call_that_was_given_up_before_its_turn_is_never_made(
    told: list[str], release: threading.Event
) -> None:
    apart = IsolatedThread("slow", ProviderLimits(background=600, time_outs=9), told.append)
    made: list[str] = []
    apart.later("sync_turn", release.wait)
    with pytest.raises(ToolTimedOut):
        apart.call("prefetch", lambda: made.append("late"), 0.05)
    release.set()
    apart.call("next", lambda: made.append("next"), 60)
    assert made == ["next"]
    apart.close()


def test_what_waits_is_bounded_and_the_rest_dropped(
    apart: IsolatedThread, told: list[str], release: threading.Event
) -> None:
    started = threading.Event()

    def hang() -> None:
        started.set()
        release.wait()

    apart.later("sync_turn", hang)
    started.wait()
    assert [apart.later("sync_turn", lambda: None) for _ in range(5)] == [True] * 3 + [False] * 2
    assert told == [
        "the memory provider slow falls behind; some of this conversation is not kept by it"
    ]


def test_what_waits_is_not_done_any_more_once_it_is_off(apart: IsolatedThread) -> None:
    gate, made = threading.Event(), []
    apart.later("sync_turn", gate.wait)
    apart.later("sync_turn", lambda: made.append(1))
    apart.switch_off("enough")
    gate.set()
    thread = apart._thread
    assert thread is not None
    thread.join()
    assert made == []


def test_a_hanging_provider_does_not_keep_the_process() -> None:
    program = (
        "import threading\n"
        "from hermes.memory.isolation import IsolatedThread, ProviderLimits\n"
        "apart = IsolatedThread('hung', ProviderLimits(), print)\n"
        "apart.later('sync_turn', threading.Event().wait)\n"
        "try:\n"
        "    apart.call('prefetch', threading.Event().wait, 0.05)\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "did not answer" in done.stdout


def test_an_error_that_cannot_say_what_it_is_breaks_nothing(
    apart: IsolatedThread, told: list[str]
) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even that")

    def fail() -> None:
        raise Mute

    with pytest.raises(ToolError, match="slow failed: Mute"):
        apart.call("prefetch", fail, 60)
    assert apart.call("next", lambda: 1, 60) == 1
    assert told == ["the memory provider slow failed (prefetch): Mute"]


def test_errors_of_ours_say_what_to_do(apart: IsolatedThread, told: list[str]) -> None:
    def fail() -> None:
        raise StoreError("the facts cannot be used", hint="free some room")

    with pytest.raises(
        ToolError, match=r"slow failed: the facts cannot be used \(free some room\)"
    ):
        apart.call("prefetch", fail, 60)
    assert "StoreError" not in told[0]
