"""How far we have read, and what must come again: the same for names that are numbers and for names
that are times."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.gateway.platforms.discord import client as discord_ids
from hermes.gateway.platforms.kit.inbound import (
    MAX_AWAY_SECONDS,
    MAX_CHATS,
    MAX_RECENT,
    MAX_THREADS,
    OVERLAP,
    IdScale,
    ReadPosition,
    write_private,
)
from hermes.gateway.platforms.slack import client as slack_ids

NOW = 1_790_000_000.0


class Kind(msgspec.Struct, frozen=True):
    scale: IdScale
    name: Callable[[float], Any]
    """Of a message that was written so many seconds after NOW."""


KINDS = {
    "numbers": Kind(discord_ids.SCALE, lambda after: discord_ids.id_at(NOW + after)),
    "times": Kind(slack_ids.SCALE, lambda after: f"T1/C1:{slack_ids.timestamp_at(NOW + after)}"),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "seen.json"


def begun(path: Path, kind: Kind) -> ReadPosition[Any]:
    seen: ReadPosition[Any] = ReadPosition(path, "Test", kind.scale)
    seen.start(NOW)
    return seen


def again(seen: ReadPosition[Any], path: Path, kind: Kind) -> ReadPosition[Any]:
    seen.flush()
    return ReadPosition(path, "Test", kind.scale)


def since(seen: ReadPosition[Any], kind: Kind, now: float = NOW + 1000) -> float:
    return kind.scale.time_of(seen.missed_since(now)) - NOW


def test_ids_of_discord_and_times_are_one_thing() -> None:
    assert discord_ids.id_time(175928847299117063) == pytest.approx(1462015105.796)
    assert discord_ids.id_time(discord_ids.id_at(NOW)) == NOW
    assert discord_ids.id_at(0.0) == 0


def test_the_first_time_there_is_nothing_to_make_up_for(path: Path, kind: Kind) -> None:
    seen: ReadPosition[Any] = ReadPosition(path, "Test", kind.scale)
    assert not seen.start(NOW)
    assert again(seen, path, kind).start(NOW + 5)


def test_what_is_done_is_not_asked_for_again_but_for_an_overlap(path: Path, kind: Kind) -> None:
    seen, later = begun(path, kind), kind.name(600)
    seen.mark_pending(later)
    assert (seen.is_known(later), seen.is_done(later)) == (True, False)
    seen.mark_done(later)
    seen = again(seen, path, kind)
    assert seen.is_done(later)
    assert since(seen, kind) == 600 - OVERLAP


def test_what_waits_is_asked_for_again_even_when_later_ones_are_done(
    path: Path, kind: Kind
) -> None:
    seen, waiting, done = begun(path, kind), kind.name(300), kind.name(900)
    seen.mark_pending(waiting)
    seen.mark_pending(done)
    seen.mark_done(done)
    after = again(seen, path, kind)
    assert not after.is_known(waiting)
    assert since(after, kind) < 300
    seen.mark_done(waiting)
    assert since(again(seen, path, kind), kind) == 900 - OVERLAP


def test_nothing_counts_for_good_while_something_may_be_missing(path: Path, kind: Kind) -> None:
    seen = again(begun(path, kind), path, kind)
    assert seen.start(NOW + 50)
    seen.mark_done(kind.name(60))
    assert since(again(seen, path, kind), kind) == -OVERLAP
    seen.caught_up()
    assert since(seen, kind) == 60 - OVERLAP


def test_what_is_too_old_is_not_answered_any_more(path: Path, kind: Kind) -> None:
    assert since(begun(path, kind), kind, NOW + 10 * MAX_AWAY_SECONDS) == 9 * MAX_AWAY_SECONDS


def test_what_is_remembered_has_an_end(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    for number in range(MAX_RECENT + 10):
        seen.mark_done(kind.name(number))
        seen.add_private(str(number), "somebody")
        seen.add_thread(str(number))
    assert not seen.is_done(kind.name(0))
    assert (len(seen.private), len(seen.threads)) == (MAX_CHATS, MAX_THREADS)
    after = again(seen, path, kind)
    assert (after.has_thread("0"), after.has_thread(str(MAX_RECENT + 9))) == (False, True)


def test_a_chat_that_is_used_is_remembered_longest(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    for number in range(MAX_CHATS):
        seen.add_private(str(number), "somebody")
    seen.add_private("0", "Ann")
    seen.add_private("new", "Bob")
    assert seen.private["0"] == "Ann"
    assert "1" not in seen.private


async def test_what_was_joined_is_known_at_once_and_after_a_crash(path: Path, kind: Kind) -> None:
    names = [kind.name(number) for number in range(3)]
    seen = begun(path, kind)
    await seen.record_batch(names[:2])
    crashed: ReadPosition[Any] = ReadPosition(path, "Test", kind.scale)
    for each in (seen, crashed):
        assert each.batch_of(names[1]) == tuple(names[:2])
        assert each.batch_of(names[2]) == ()


async def test_a_slow_write_does_not_undo_what_was_joined_since(
    path: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def slowly(path: Path, data: bytes) -> None:
        if not began.is_set():
            began.set()
            may_end.wait(10)
        write_private(path, data)

    monkeypatch.setattr("hermes.gateway.platforms.kit.inbound.write_private", slowly)
    seen = begun(path, kind)
    keeping = asyncio.create_task(seen.write_changes())
    await asyncio.to_thread(began.wait, 10)
    joining = asyncio.create_task(seen.record_batch([kind.name(1), kind.name(2)]))
    await asyncio.sleep(0)
    may_end.set()
    await joining
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert ReadPosition(path, "Test", kind.scale).batch_of(kind.name(1))


async def test_a_write_that_is_cancelled_is_not_overtaken(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    path.parent.mkdir()
    keeping = asyncio.create_task(seen.write_changes())
    while not path.exists():
        await asyncio.sleep(0.001)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    seen.mark_done(kind.name(600))
    assert since(again(seen, path, kind), kind) == 600 - OVERLAP


def test_it_is_for_us_alone(path: Path, kind: Kind) -> None:
    begun(path, kind).flush()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_broken_file_begins_anew(path: Path, kind: Kind) -> None:
    path.parent.mkdir()
    path.write_text("{")
    assert not ReadPosition(path, "Test", kind.scale).start(NOW)


def test_a_place_that_cannot_be_written_stops_nothing(path: Path, kind: Kind) -> None:
    seen = begun(path, kind)
    path.parent.write_text("a file where a folder should be")
    seen.flush()
    assert since(seen, kind) == -OVERLAP
