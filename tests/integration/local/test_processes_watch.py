"""Telling of matching lines, but not too often."""

import asyncio

from hermes.terminal.processes import OutputWatch, WatchLimits


class Told:
    def __init__(self, *patterns: str, **limits: float) -> None:
        self.matched: list[str] = []
        self.muted: list[str] = []
        self.watch = OutputWatch(
            patterns,
            WatchLimits(**limits),  # type: ignore[arg-type]
            self.matched.append,
            self.muted.append,
        )


async def test_a_line_counts_once_however_it_arrives() -> None:
    told = Told("error")
    told.watch.add(b"an err")
    assert told.matched == []
    told.watch.add(b"or and an error")
    told.watch.add(b" more\nfine\n")
    told.watch.end()
    assert told.matched == ["an error and an error more"]


async def test_the_last_line_counts_without_its_end() -> None:
    told = Told("ready")
    told.watch.add("grün ready".encode())
    told.watch.end()
    assert told.matched == ["grün ready"]


async def test_further_matches_are_counted_and_reported_later() -> None:
    told = Told("error", seconds=0.05)
    told.watch.add(b"error 1\nerror 2\nerror 3\n")
    assert told.matched == ["error 1"]
    while len(told.matched) < 2:
        await asyncio.sleep(0.01)
    assert told.matched[1] == "error 3\n[1 more matching lines before this one]"
    told.watch.end()
    assert len(told.matched) == 2


async def test_suppressed_matches_are_reported_at_the_end() -> None:
    told = Told("error", seconds=600)
    told.watch.add(b"error 1\nerror 2")
    told.watch.end()
    assert told.matched == ["error 1", "error 2"]


async def test_after_some_floods_the_watch_is_off() -> None:
    told = Told("error", seconds=0.02, flood=3, floods=2)
    while not told.muted:
        told.watch.add(b"error\n" * 5)
        await asyncio.sleep(0.005)
    assert told.watch.patterns == ()
    count = len(told.matched)
    assert count >= 2  # the first line, and one after the first flood
    told.watch.add(b"error\n" * 5)
    told.watch.end()
    assert (len(told.matched), len(told.muted)) == (count, 1)


async def test_a_quiet_time_makes_up_for_a_flood() -> None:
    told = Told("error", seconds=0.02, flood=3, floods=2)
    for _ in range(3):
        told.watch.add(b"error\n" * 5)
        while told.watch._timer is not None:
            await asyncio.sleep(0.01)
    assert told.muted == []
    told.watch.end()


async def test_a_huge_line_costs_little_memory() -> None:
    told = Told("never")
    for _ in range(1_000):
        told.watch.add(b"x" * 10_000)
    assert len(told.watch._line) < 10_000
    told.watch.end()


async def test_watch_without_patterns_reports_nothing() -> None:
    told = Told("", "")
    told.watch.add(b"anything\n")
    told.watch.end()
    assert told.matched == []
