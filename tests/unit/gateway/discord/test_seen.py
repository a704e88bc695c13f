"""How far we have read, and what must come again."""

from pathlib import Path

import pytest

from hermes.gateway.platforms.discord.seen import (
    LONGEST_AWAY,
    MOST_CHATS,
    OVERLAP,
    RECENT,
    Seen,
    id_at,
    time_of,
)

NOW = 1_790_000_000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "seen.json"


def again(seen: Seen, path: Path) -> Seen:
    seen.write()
    return Seen(path)


def test_ids_and_times_are_one_thing() -> None:
    assert time_of(175928847299117063) == pytest.approx(1462015105.796)
    assert time_of(id_at(NOW)) == NOW
    assert id_at(0.0) == 0


def test_the_first_time_nothing_older_is_asked_for(path: Path) -> None:
    seen = Seen(path)
    seen.start(NOW)
    assert seen.missed_since(NOW + 1) == id_at(NOW - OVERLAP)
    assert again(seen, path).missed_since(NOW + 1) == id_at(NOW - OVERLAP)


def test_what_is_done_is_not_asked_for_again_but_for_an_overlap(path: Path) -> None:
    seen = Seen(path)
    seen.start(NOW)
    later = id_at(NOW + 600)
    seen.wait_for([later])
    assert not seen.is_new(later)
    seen.done(later)
    seen = again(seen, path)
    assert not seen.is_new(later)
    assert seen.missed_since(NOW + 700) == id_at(NOW + 600 - OVERLAP)


def test_what_waits_is_asked_for_again_even_when_later_ones_are_done(path: Path) -> None:
    seen = Seen(path)
    seen.start(NOW)
    waiting, done = id_at(NOW + 300), id_at(NOW + 900)
    seen.wait_for([waiting, done])
    seen.done(done)
    seen = again(seen, path)
    assert seen.is_new(waiting)
    assert seen.missed_since(NOW + 1000) < waiting
    seen.done(waiting)
    assert seen.missed_since(NOW + 1000) == id_at(NOW + 300 - OVERLAP)


def test_nothing_counts_for_good_while_something_may_be_missing(path: Path) -> None:
    seen = Seen(path)
    seen.start(NOW)
    seen.freeze()
    seen.done(id_at(NOW + 900))
    assert again(seen, path).missed_since(NOW + 1000) == id_at(NOW - OVERLAP)
    seen.thaw()
    assert seen.missed_since(NOW + 1000) == id_at(NOW + 900 - OVERLAP)


def test_what_is_too_old_is_not_answered_any_more(path: Path) -> None:
    seen = Seen(path)
    seen.start(NOW)
    month = 30 * 86400
    assert seen.missed_since(NOW + month) == id_at(NOW + month - LONGEST_AWAY)


def test_what_is_remembered_has_an_end(path: Path) -> None:
    seen = Seen(path)
    seen.start(NOW)
    for number in range(RECENT + 10):
        seen.done(id_at(NOW) + number)
        seen.add_private(str(number), "somebody")
        seen.add_thread(str(number))
    assert seen.is_new(id_at(NOW))
    assert len(seen.private) == MOST_CHATS
    assert (seen.talks_in("0"), seen.talks_in(str(RECENT + 9))) == (False, True)


def test_a_chat_that_is_used_is_remembered_longest(path: Path) -> None:
    seen = Seen(path)
    for number in range(MOST_CHATS):
        seen.add_private(str(number), "somebody")
    seen.add_private("0", "Ann")
    seen.add_private("new", "Bob")
    assert seen.private["0"] == "Ann"
    assert "1" not in seen.private


def test_it_is_for_us_alone(path: Path) -> None:
    seen = Seen(path)
    seen.write()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_slow_thread_does_not_write_over_what_is_newer(path: Path) -> None:
    seen = Seen(path)
    slow = seen._snapshot()
    seen.start(NOW)
    seen.write()
    seen._save(*slow)
    assert Seen(path).missed_since(NOW) == id_at(NOW - OVERLAP)
