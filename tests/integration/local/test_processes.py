"""Background commands of a session, and watching their output."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hermes.core.errors import BackendUnavailable, ToolError
from hermes.terminal import BackgroundProcesses, LocalShell, ProcessEvent, Running
from hermes.terminal.processes import MAX_FINISHED, MAX_RUNNING, OutputWatch, WatchLimits

Gone = Callable[[int], Awaitable[None]]


@pytest.fixture
def events() -> list[ProcessEvent]:
    return []


@pytest.fixture
async def processes(
    shell: LocalShell, events: list[ProcessEvent]
) -> AsyncIterator[BackgroundProcesses]:
    processes = BackgroundProcesses(shell, events.append)
    yield processes
    await processes.close()


async def printed(processes: BackgroundProcesses, process_id: str, text: str) -> str:
    """Polls until `text` was printed."""
    seen = ""
    while text not in seen:
        seen += processes.poll(process_id).text
        await asyncio.sleep(0.01)
    return seen


async def test_a_process_is_started_polled_and_waited_for(processes: BackgroundProcesses) -> None:
    name = await processes.start("echo one; read -r line; echo two; exit 3")
    assert re.fullmatch(r"proc_[0-9a-f]{12}", name)
    assert await printed(processes, name, "one\n") == "one\n"
    assert processes.poll(name).text == ""
    assert processes.state(name).state == "running"
    await processes.submit(name, "go")
    ended = await processes.wait(name, 60)
    assert (ended.text, ended.process.state, ended.process.exit_code) == ("two\n", "exited", 3)
    assert processes.poll(name).text == ""


async def test_waiting_has_a_limit(processes: BackgroundProcesses) -> None:
    name = await processes.start("echo hello; sleep 600")
    await printed(processes, name, "hello\n")
    output = await processes.wait(name, 0.05)
    assert (output.process.state, output.text) == ("running", "")


async def test_output_is_shown_while_a_caller_waits(processes: BackgroundProcesses) -> None:
    shown: list[str] = []
    name = await processes.start("read -r line; echo hello")
    waiting = asyncio.ensure_future(processes.wait(name, 60, shown.append))
    await asyncio.sleep(0)
    await processes.submit(name, "go")
    assert (await waiting).text == "hello\n"
    assert shown == ["hello\n"]


async def test_the_log_has_pages(processes: BackgroundProcesses) -> None:
    name = await processes.start("seq 50000; printf last")
    await processes.wait(name, 60)
    last = processes.log(name, limit=2)
    assert (last.lines, last.total) == (((50_000, "50000"), (50_001, "last")), 50_001)
    assert processes.log(name, offset=3, limit=2).lines == ((3, "3"), (4, "4"))
    assert processes.log(name, offset=60_000).lines == ()
    first_kept = next(number for number, _ in processes.log(name, offset=25_000).lines)
    assert first_kept > 25_000  # the middle was not kept


async def test_input_is_written_and_closed(processes: BackgroundProcesses) -> None:
    name = await processes.start("cat; echo end")
    await processes.write(name, "a")
    await processes.write(name, "b\n")
    await processes.close_input(name)
    assert (await processes.wait(name, 60)).text == "ab\nend\n"
    with pytest.raises(ToolError, match="has ended"):
        await processes.submit(name, "more")


async def test_a_process_that_does_not_read_does_not_hold_the_writer(shell: LocalShell) -> None:
    processes = BackgroundProcesses(shell, write_seconds=0.05)
    name = await processes.start("sleep 600")
    with pytest.raises(ToolError, match="does not read"):
        await processes.write(name, "x" * 1_000_000)
    await processes.close()


async def test_enter_in_a_terminal_is_the_key(processes: BackgroundProcesses) -> None:
    raw = "stty raw -echo; echo ready; dd bs=1 count=3 2>/dev/null | od -An -c"
    name = await processes.start(raw, pty=True)
    await printed(processes, name, "ready")
    await processes.submit(name, "ab")
    assert (await processes.wait(name, 60)).text.split() == ["a", "b", r"\r"]


async def test_kill_stops_the_children_and_raises_no_event(processes, events, gone):
    name = await processes.start("setsid sleep 600 & echo $!; wait", notify=True)
    child = int(await printed(processes, name, "\n"))
    state = await processes.kill(name)
    assert (state.state, state.exit_code) == ("killed", 143)
    await gone(child)
    assert events == []


async def test_end_event_is_sent_once_with_notify(processes, events):
    name = await processes.start("seq 100; exit 2", notify=True)
    quiet = await processes.start("true")
    while not events or processes.state(quiet).state == "running":
        await asyncio.sleep(0.01)
    (event,) = events
    assert (event.id, event.kind, event.exit_code) == (name, "finished", 2)
    assert event.text.splitlines() == [str(number) for number in range(81, 101)]


async def test_waiting_caller_gets_no_end_event(processes, events):
    name = await processes.start("read -r line", notify=True)
    waiting = asyncio.ensure_future(processes.wait(name, 60))
    await asyncio.sleep(0)
    await processes.close_input(name)
    assert (await waiting).process.state == "exited"
    assert events == []


async def test_matching_line_raises_an_event(processes, events):
    script = "echo starting; printf '\\033[32mready on\\033[0m 80'; echo 80; echo more"
    name = await processes.start(script, watch_patterns=["ready on 8080", "error"])
    await processes.wait(name, 60)
    (event,) = events
    assert (event.id, event.kind, event.text) == (name, "matched", "ready on 8080")


async def test_the_list_shows_running_ones_first(processes: BackgroundProcesses) -> None:
    running = await processes.start("sleep 600", watch_patterns=["x"], cwd="/")
    ended = await processes.start("true")
    await processes.wait(ended, 60)
    first, second = processes.list()
    assert (first.id, first.state, first.cwd) == (running, "running", "/")
    assert first.watch_patterns == ("x",)
    assert (second.id, second.state, second.exit_code) == (ended, "exited", 0)


async def test_there_are_limits(shell: LocalShell) -> None:
    processes = BackgroundProcesses(shell)
    names = [await processes.start("read -r line") for _ in range(MAX_RUNNING)]
    with pytest.raises(ToolError, match="run already"):
        await processes.start("true")
    for name in names:
        await processes.close_input(name)
        await processes.wait(name, 60)
    names += [await processes.start("true") for _ in range(MAX_RUNNING)]
    for name in names[MAX_RUNNING:]:
        await processes.wait(name, 60)
    latest = await processes.start("true")
    await processes.wait(latest, 60)
    kept = {state.id for state in processes.list()}
    assert len(kept) == MAX_FINISHED
    assert latest in kept and names[0] not in kept
    with pytest.raises(ToolError, match="no background process"):
        processes.poll(names[0])
    await processes.close()


async def test_closing_ends_all_of_them_and_starts_no_more(shell, gone, events):
    processes = BackgroundProcesses(shell, events.append)
    names = [await processes.start("sleep 600", notify=True, pty=pty) for pty in (False, True)]
    pids = [processes.state(name).pid for name in names]
    await processes.close()
    for pid in pids:
        assert pid is not None
        await gone(pid)
    assert [processes.state(name).state for name in names] == ["killed", "killed"]
    assert events == []
    with pytest.raises(ToolError, match="closing"):
        await processes.start("true")


async def test_a_character_printed_in_two_pieces_is_one(processes: BackgroundProcesses) -> None:
    name = await processes.start(r"printf 'a\xc3'; read -r line; printf '\xa9'")
    assert await printed(processes, name, "a") == "a"
    await processes.submit(name, "go")
    assert (await processes.wait(name, 60)).text == "é"


class LostProgram:
    """A program on a machine that cannot be reached any more."""

    pid = exit_code = None

    async def wait(self) -> int:
        raise BackendUnavailable("the connection was lost")

    async def write(self, data: bytes) -> None:
        raise BackendUnavailable("the connection was lost")

    async def close_input(self) -> None: ...

    async def stop(self) -> None: ...


class LostShell(LocalShell):
    async def start(self, *_arguments: Any, **_options: Any) -> Running:
        return LostProgram()


async def test_a_process_whose_place_went_away_is_lost(events, tmp_path):
    processes = BackgroundProcesses(LostShell({}, tmp_path), events.append)
    name = await processes.start("sleep 600", notify=True)
    while not events:
        await asyncio.sleep(0.01)
    assert processes.state(name).state == "lost"
    assert "the connection was lost" in events[0].text
    await processes.close()


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
